"""A drawing of a stranger's results folder: what no drawing of ours has never reaches the page."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from test_document import results_folder

from rankbound_study import figures
from rankbound_study.figures import style
from rankbound_study.report.render import drawn_svg, inline_svg

OPENING = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="72pt" viewBox="0 0 1 1">'
)

HOSTILE = {
    "a script": ("<script>alert(1)</script>", "the element 'script'"),
    "a script of another namespace": (
        '<x:script xmlns:x="http://www.w3.org/1999/xhtml">alert(1)</x:script>',
        "the element '{http://www.w3.org/1999/xhtml}script'",
    ),
    "a handler": ('<g onload="alert(1)"/>', "onload='alert"),
    "an address of code": ('<use xlink:href="javascript:alert(1)"/>', "href='javascript:"),
    "an address elsewhere": ('<image xlink:href="https://example.org/a.png"/>', "href='https:"),
    "a plain address": ('<use href="https://example.org/a.svg#a"/>', "href='https:"),
    "a picture that is a document": ('<image xlink:href="data:image/svg+xml;base64,AAAA"/>', "href='data:image/svg"),
    "a page inside": ("<foreignObject><p>x</p></foreignObject>", "the element 'foreignObject'"),
    "an animation": ('<animate attributeName="href" to="x"/>', "the element 'animate'"),
    "a link": ('<a xlink:href="#b"><rect/></a>', "the element 'a'"),
    "markup in a title": ("<title><g/></title>", "an element inside the element 'title'"),
    "a style sheet for the page": ("<style>*{color: red} body{display: none}</style>", "the style sheet"),
    "a style sheet from elsewhere": ("<style>@import 'https://example.org';</style>", "the style sheet"),
    "a style that fetches": ('<g style="fill: url(https://example.org/a)"/>', "style='fill"),
    "a style in escapes": ('<g style="fill: u\\72l(https://example.org)"/>', "style='fill"),
    "a class of the page": ('<g class="banner"/>', "class='banner'"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_drawing_has_is_refused(name: str) -> None:
    inside, found = HOSTILE[name]
    with pytest.raises(ValueError, match=r"no drawing has|found an element inside") as caught:
        drawn_svg(f"{OPENING}{inside}</svg>")
    assert found in str(caught.value)


def test_what_a_browser_reads_in_another_way_is_refused() -> None:
    for text in (
        '<!DOCTYPE svg [<!ENTITY x "<script>alert(1)</script>">]>' + OPENING + "&x;</svg>",
        f"<!-- <svg onload='alert(1)'> --{OPENING}</svg>",
        f"{OPENING}<g></svg>",
        "no drawing",
    ):
        with pytest.raises(ValueError, match="XML"):
            drawn_svg(text)


def test_comments_and_sections_of_characters_become_text_or_nothing() -> None:
    drawing = drawn_svg(
        f"<!-- <svg onload='x'> -->{OPENING}<!-- --><title><![CDATA[</title><script>]]></title><?x y?></svg>"
    )
    assert drawing.endswith("<title>&lt;/title&gt;&lt;script&gt;</title></svg>")
    assert drawing.startswith("<svg xmlns=")


def test_a_hatched_panel_passes_and_keeps_its_pattern(tmp_path: Path) -> None:
    """The panels of what did not train are hatched."""
    with style.house_style():
        figure, axes = style.panels(1, 1, height=2)
        style.mark_untrained(axes[0, 0])
        style.shared_legend(figure, axes, columns=1)
    style.save(figure, [tmp_path / "x.svg"])
    drawing = inline_svg((tmp_path / "x.svg").read_text("utf-8"), "x", "Hatched")
    patterns = set(re.findall(r'<pattern id="([^"]+)"', drawing))
    assert patterns
    assert patterns == set(re.findall(r"fill: url\(#([^)]+)\)", drawing))


@pytest.mark.parametrize("name", ["figure_1_1", "figure_3_1"])
def test_our_own_drawings_pass_unchanged(name: str, tmp_path: Path) -> None:
    style.save(figures.draw(name), [tmp_path / "a.svg"])
    text = (tmp_path / "a.svg").read_text("utf-8")
    drawing = drawn_svg(text)
    for mark in ("<path", "<use", "<title>", "<g", "xlink:href="):
        assert drawing.count(mark) == text.count(mark), mark


def test_a_document_of_a_hostile_drawing_is_refused_by_its_file(tmp_path: Path, told: Callable[..., str]) -> None:
    folder = results_folder(tmp_path)
    drawing, html = folder / "figures" / "figure_1_1.svg", tmp_path / "index.html"
    drawing.write_text(drawing.read_text("utf-8").replace("</svg>", "<script>alert(1)</script></svg>"), "utf-8")
    said = told("document", "--results", folder, "--out", tmp_path / "a.pdf", "--html", html, status=2)
    found = "not as the step wrote it that makes it (found the element 'script', which no drawing has)"
    assert f"{drawing}: {found}" in said
    assert not html.exists()
