"""Parts of a figure in words, as its SVG file has them: all labelled ones, with the data's values, and no others."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import told_figure

from rankbound_study import figures
from rankbound_study.figures import style
from rankbound_study.figures.svg_titles import marked, plain
from rankbound_study.report.inline_svg import inline_svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("told")
    with style.house_style():
        style.save(told_figure.draw(), [folder / "a.svg", folder / "a.pdf"])
        figure = told_figure.draw()
        figure.savefig(folder / "untold.svg")
    style.save(figure, [folder / "untold.pdf"])
    return folder


@pytest.fixture(scope="module")
def svg(folder: Path) -> str:
    return (folder / "a.svg").read_text("utf-8")


def titles(svg: str) -> list[tuple[str, str]]:
    """Kind of element and its title, in the order of the file."""
    found = [
        (element.tag.removeprefix(SVG), title.text or "")
        for element in ElementTree.fromstring(svg).iter()
        if (title := element.find(f"{SVG}title")) is not None
    ]
    return [(kind, text) for kind, text in found if text != "rankbound"]


def test_every_labelled_part_is_told_with_its_panel_and_values(svg: str) -> None:
    points = [
        "method, first set, below\nyears few, accuracy 0.7100, interval 0.6800 to 0.7444",
        "method, first set, below\nyears many, accuracy 0.5230, interval 0.5012 to 0.5500",
    ]
    assert sorted(titles(svg)) == sorted([
        ("g", "a < b, first set, above\nmean from 0.3197 to 0.5800, years from 1 to 20"),
        ("g", "steps, first set, above\nmean from 0.2000 to 0.4500, years from 1 to 20"),
        ("g", "low & grey, first set, above"),
        *[("g", "topic, second set, above")] * 4,
        ("g", "nothing, second set, above"),
        ("path", "method, first set, below"),
        *[("path", text) for text in points],
        *[("use", text) for text in points],
        ("g", "share, second set, below\none line: 0.1250"),
        ("g", "share, second set, below\nw·d²: 0.5000"),
    ])  # fmt: skip


def test_a_pdf_and_the_drawing_itself_do_not_depend_on_the_titles(folder: Path, svg: str) -> None:
    assert (folder / "a.pdf").read_bytes() == (folder / "untold.pdf").read_bytes()
    assert "part-" not in svg
    figure = told_figure.draw()
    with marked(figure) as told:
        assert len(told) == len({part.artist.get_gid() for part in told})
    assert all(artist.get_gid() is None for artist in figure.findobj())


def test_the_page_says_each_part_once_and_never_hides_them_behind_an_image(svg: str) -> None:
    page = inline_svg(svg, "figure_1_1", "All of it")
    assert re.match(r'<svg [^>]*role="group"', page)
    told = re.findall(r'<(?:g|path|use) role="img"[^>]*><title>([^<]*)', page)
    assert sorted(told) == sorted(set(told))
    assert len(re.findall("<title>", page)) == len(told) + page.count('aria-hidden="true"') == len(titles(svg))
    without = inline_svg(re.sub("<title>.*?</title>", "", svg, flags=re.DOTALL), "figure_1_1", "All of it")
    assert re.match(r'<svg [^>]*role="img"', without)


@pytest.mark.parametrize("name", ["figure_3_2", "figure_neural_links"])
def test_titles_take_little_room(name: str, tmp_path: Path) -> None:
    style.save(figures.draw(name), [tmp_path / "a.svg"])
    text = (tmp_path / "a.svg").read_text("utf-8")
    plainly = re.sub(r"<title>[^<]*</title>", "", text)
    assert len(plainly) < len(text) < 1.06 * len(plainly)


def test_undefined_points_and_intervals_shift_no_other_text(tmp_path: Path) -> None:
    figure, axes = style.panels(1, 1, height=2.0)
    nothing = float("nan")
    reach = ([0.125, 0.1, nothing, 0.25], [0.25, 0.1, nothing, 0.125])
    axes[0, 0].errorbar([0, 1, 2, 3], [0.5, nothing, 0.75, 0.25], reach, marker="o", label="method")
    axes[0, 0].set(title="set", xlabel="x", ylabel="y")
    style.save(figure, [tmp_path / "a.svg"])
    found = titles((tmp_path / "a.svg").read_text("utf-8"))
    first = "method, set\nx 0, y 0.5000, interval 0.3750 to 0.7500"
    last = "method, set\nx 3, y 0.2500, interval 0.0000 to 0.3750"
    assert sorted(text for kind, text in found if kind == "use") == [first, "method, set\nx 2, y 0.7500", last]
    assert sorted(text for kind, text in found if kind == "path") == ["method, set", first, last]


def test_a_drawing_without_labels_stays_as_it_is(tmp_path: Path) -> None:
    figure, axes = style.panels(1, 1, height=1.0)
    axes[0, 0].plot([0, 1, 2], [0, 1, 0])
    style.save(figure, [tmp_path / "a.svg"])
    assert titles((tmp_path / "a.svg").read_text("utf-8")) == []


def test_labels_are_told_on_one_line_without_markup() -> None:
    assert plain("difference\nof  scores") == "difference of scores"
    assert plain("$w\\cdot d\\,(1+(v\\cdot d)^2)$") == "w·d (1+(v·d)²)"
