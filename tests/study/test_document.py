"""The report: findings from the table, two shapes with fixed bytes, drawings in words, and what a browser shows."""

import base64
import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from drawn_files import contents
from planted import write_runs

from rankbound.errors import DataError
from rankbound_study import figures
from rankbound_study.cli import main
from rankbound_study.figures import style
from rankbound_study.provenance.manifest import make_manifest, write_manifest
from rankbound_study.report import document, render
from rankbound_study.report.blocks import Cell, Document, Finding, ReportSection, TableBlock
from rankbound_study.report.claims import Claims
from rankbound_study.report.content import Figures
from rankbound_study.report.findings import Bounded
from rankbound_study.report.render import drawn_svg, inline_svg
from rankbound_study.report.tables import make
from rankbound_study.report.tables.table_5_1 import table_5_1
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.study_files import StudyFiles
from tests.library.refusals import problems
from tests.study.browser_pages import SCHEMES, broken_rules, driven, seen, unseen_stops, with_probe

DRAWN = ("figure_1_1", "figure_5_5")
SETS = (("movielens", 1), ("mq2008-label1", None))


def results_folder(folder: Path, kind: str = "") -> Path:
    sets = tuple((f"{kind}{name}", nsr) for name, nsr in SETS)
    path = write_runs(folder / "runs.parquet", sets=sets, topics=10)
    for name in ("table_5_1", "table_2_4"):
        make(name, StudyFiles(path), {}).write(folder / "tables", name)
    for name in DRAWN:
        drawn = figures.draw(name, StudyFiles(path))
        style.save(drawn, [folder / "figures" / f"{name}.{kind}" for kind in ("svg", "pdf")])
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return results_folder(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def page(results: Path) -> str:
    return render.html(document.build(results), results)


def of_section(**content: Any) -> document.Document:
    """A document of one section."""
    section = ReportSection(**{"anchor": "findings", "title": "A", "text": ""} | content)
    return document.Document("t", "s", False, (section,))


def test_the_page_fetches_nothing_and_its_links_arrive(page: str) -> None:
    attributes: list[tuple[str, str]] = []
    tags: list[str] = []

    class Page(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            attributes.extend((name, value or "") for name, value in attrs)

    Page().feed(page)
    assert {"link", "img", "iframe", "object", "embed"}.isdisjoint(tags)
    addresses = [value for name, value in attributes if name in ("src", "href", "xlink:href", "data", "action")]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    assert not re.search(r"url\(http|@import", page)
    ids = [value for name, value in attributes if name == "id"]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    described = {value for name, value in attributes if name == "aria-labelledby"}
    assert (described | {address[1:] for address in addresses}) - set(ids) == set()
    assert "default-src 'none'" in page
    # It runs its own script and no other.
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert re.findall(r"script-src ([^;]*);", page) == [f"'sha256-{digest}'" for digest in digests]
    assert len(scripts) == page.count("<script") == 1


def test_colours_follow_the_page_and_synthetic_data_are_labelled(page: str, tmp_path: Path) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == len(DRAWN)
    assert all(color not in drawing for drawing in drawings for color in style.DARK)
    assert all('role="img"' in drawing and "<title" in drawing for drawing in drawings)
    content = document.build(results_folder(tmp_path, "synthetic-"))
    text = render.html(content, tmp_path)
    assert content.synthetic
    assert all(words in text for words in ('role="note"', 'class="synthetic"', "Synthetic data. nDCG of each topic"))
    assert not re.search("are reproduced|printed MQ2008", text)
    assert 'class="synthetic"' not in page


def test_inlining_renames_ids_and_their_uses() -> None:
    text = (
        '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        'width="72pt" viewBox="0 0 72 72"><metadata>x</metadata><!-- y -->'
        '<style>*{stroke-linecap: butt}</style><g id="a" clip-path="url(#b)"><use xlink:href="#c"/></g></svg>'
    )
    found = inline_svg(text, "figure_1_1", "A < B")
    assert 'id="figure_1_1-a" clip-path="url(#figure_1_1-b)"><use xlink:href="#figure_1_1-c"/>' in found
    assert "svg.figure *{stroke-linecap" in found
    assert "A &lt; B</title>" in found
    assert not re.search("metadata|<!--", found)


def test_all_parts_are_there_in_order_with_remarks_for_missing_figures(page: str, results: Path) -> None:
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", page)
    assert titles[:3] == ["Findings", "Methods", "Table 5.1"]
    assert titles[-1] == "Provenance"
    assert "Not drawn: figure_5_1, " in page
    assert "10 of 10 printed values hold" in page
    assert 'class="sortable"' in page
    tables_of_it = [block for block in document.build(results).sections[2].blocks if isinstance(block, TableBlock)]
    assert page.count("<button") == sum(len(block.header) for block in tables_of_it if block.sortable)
    remarks = {name: f"`make {name}` makes it." for name in ("figure_5_2", *DRAWN)}
    page = render.html(document.build(results, figures=Figures(results, remarks)), results, "../a&b.html")
    caption = figures.figure_specs()["figure_5_2"].caption
    assert f"<p><b>Figure 5.2.</b> {caption} <code>make figure_5_2</code> makes it.</p>" in page
    assert "Not drawn: figure_5_1, figure_5_3, " in page
    assert not [name for name in DRAWN if f"make {name}" in page]
    assert '<a href="../a&amp;b.html">' in page


def test_both_shapes_have_fixed_bytes(results: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        content = document.build(results)
        render.write_pdf(content, results, folder / "rankbound.pdf")
        render.write_html(content, results, folder / "index.html")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    pdf = contents(tmp_path / "a")["rankbound.pdf"]
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf


def test_findings_follow_the_numbers(tmp_path: Path) -> None:
    table = table_5_1(write_runs(tmp_path / "runs.parquet", topics=10), RunsChoice())

    def found(changed: pl.DataFrame) -> list[Finding]:
        return list(Bounded(tmp_path, changed, changed.clear()).findings(Claims()))

    first, *others = found(table)
    assert first.headline.startswith("Plain popularity scores above every trained model in ")
    assert any(one.headline.startswith("Distribution bounding changes mean nDCG by −0.") for one in others)

    exact = table.with_columns(
        ours=pl.when(pl.col("model") == "popularity").then(0.1).otherwise(pl.coalesce("published", "ours"))
    ).with_columns(difference=pl.col("ours") - pl.col("published"), **{"within_0.015": pl.lit(True)})
    first, second, *others = found(exact)
    assert first.headline == "A trained model scores above plain popularity in 15 of 15 comparisons."
    assert second.headline == "45 of 45 MovieLens scores of Table 5.1 are reproduced to within 0.015."
    # 25 of the 48 printed bounded cells lie above, 3 at, 20 below the unbounded loss (erratum T25).
    assert any("In print, 25 of 48 lie above, 3 are equal, 20 lie below." in one.detail for one in others)
    assert any("end within 0.0008 of each other" in one.headline for one in others)


def test_texts_of_data_are_no_markup_and_commands_are_code(results: Path, tmp_path: Path) -> None:
    hostile = '<script>alert("x")</script> #panic("no") $x$ _y_'
    content = of_section(title=hostile, text=hostile)
    assert "<script>alert" not in render.html(content, results)
    render.write_pdf(content, results, tmp_path / "a.pdf")
    text = render.html(of_section(text="See `rankbound <verb>`: 95 % of label ≥ 1."), results)
    assert "<p>See <code>rankbound &lt;verb&gt;</code>: 95\N{NO-BREAK SPACE}% of label" in text
    assert "label\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}1.</p>" in text


def test_what_is_missing_or_not_as_it_was_recorded_is_refused(results: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"table_5_1\.csv is missing: make it with `python -m rankbound_study table t"):
        document.build(tmp_path)
    folder = Path(shutil.copytree(results, tmp_path / "results"))
    record = folder / "provenance.json"
    write_manifest(make_manifest(folder, {}), record)
    document.build(folder, record)
    # A cut or changed table may still be readable: its checksum tells.
    table = folder / "tables" / "table_2_4.csv"
    whole = table.read_text("utf-8")
    table.write_text(whole[: whole.rindex("\n", 0, -1) + 1], "utf-8")
    with pytest.raises(DataError, match=r"table_2_4\.csv: its content is not what provenance\.json recorded"):
        document.build(folder, record)
    # A configuration that no step recorded.
    write_manifest(make_manifest(folder, {"datasets": ["mq2008"], "lists": {"mq2008": {}}}), record)
    with pytest.raises(DataError, match=r"provenance\.json: not as the step wrote it that makes it \('.*'\); delete"):
        document.build(folder, record)


# Parts of a figure in words, as its SVG file has them

SVG = "{http://www.w3.org/2000/svg}"
X = np.arange(1.0, 21.0)
CURVE = 0.3 + 0.02 * X - 0.0003 * X**2
TOPICS = (np.array([3.0, 40.0, 250.0, 7.0, 90.0]), np.array([0.2, -0.004, 0.0061, 0.035, -0.4]))
STEPS = ((1.0, 0.2), (8.0, 0.35), (20.0, 0.45))
VALUES, REACH = (-0.71, np.nan, 0.523), ([0.04, 0.1, np.nan], [0.83, 0.1, 0.1])


def told_figure() -> Any:
    """Curves on linear and on symlog axes, points with intervals, bars, an area, a line without a label."""
    figure, axes = style.panels(2, 2, height=4.0)
    style.line(axes[0, 0], X, CURVE, style.SERIES[1], label="a < b", marks=3)
    axes[0, 0].plot(X, CURVE - 0.1)
    axes[0, 0].step(*zip(*STEPS, strict=True), where="post", label="steps")
    axes[0, 0].axhspan(0.05, 0.1, color=style.SHADE, label="_low & grey")
    axes[0, 1].set(xscale="log")
    axes[0, 1].set_yscale("symlog", linthresh=0.01, linscale=1.0)
    style.points(axes[0, 1], *TOPICS, label="topic")
    axes[0, 1].axhline(0, label="_nothing")
    axes[1, 0].errorbar([0.05, 1.05, 2.05], VALUES, REACH, marker="o", label="method")
    axes[1, 0].set_xticks([0, 1, 2], ["few", "some", "many"])
    axes[1, 1].barh([0.2, 1.2], [0.125, 0.5], 0.3, label="share")
    axes[1, 1].set_yticks([0, 1], ["one\nline", "two"])
    return style.finish(figure, axes, columns=["first set", "second set"], rows=["above", "below"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("told")
    with style.house_style():
        style.save(told_figure(), [folder / "a.svg", folder / "a.pdf"])
        figure = told_figure()
        figure.savefig(folder / "untold.svg")
    style.save(figure, [folder / "untold.pdf"])
    return folder


@pytest.fixture(scope="module")
def svg(folder: Path) -> str:
    return (folder / "a.svg").read_text("utf-8")


def titles(svg: str) -> list[str]:
    """The titles of groups, sorted."""
    found = (group.findtext(f"{SVG}title") for group in ElementTree.fromstring(svg).iter(f"{SVG}g"))
    return sorted(text for text in found if text is not None)


SHARES = "share, second set, below\none line: 0.125\ntwo: 0.5"


def test_every_labelled_part_is_told_with_its_panel_and_values(svg: str) -> None:
    """An undefined point is left out, and so is an undefined interval."""
    assert titles(svg) == sorted([
        "a < b, first set, above\nfrom 0.3197 at 1 to 0.58 at 20",
        "steps, first set, above\nfrom 0.2 at 1 to 0.45 at 20",
        "low & grey, first set, above",
        *["topic, second set, above"] * 4,
        "nothing, second set, above",
        *["method, first set, below\nfew: −0.71 (−0.75 to 0.12)\nmany: 0.523"] * 2,
        *[SHARES] * 2,
    ])  # fmt: skip


def test_the_page_says_each_part_once_and_drawings_do_not_depend_on_it(svg: str, folder: Path) -> None:
    page = inline_svg(svg, "figure_1_1", "All of it")
    assert re.match(r'<svg [^>]*role="group"', page)
    told = re.findall(r'<g role="img"[^>]*><title>([^<]*)', page)
    assert sorted(told) == sorted(set(told))
    assert len(re.findall("<title>", page)) == len(told) + page.count('aria-hidden="true"') == len(titles(svg))
    without = inline_svg(re.sub("<title>.*?</title>", "", svg, flags=re.DOTALL), "figure_1_1", "All of it")
    assert re.match(r'<svg [^>]*role="img"', without)
    pdf = (folder / "a.pdf").read_bytes()
    assert pdf == (folder / "untold.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf
    assert 'id="title' not in svg


# A drawing of a stranger's results folder: what no drawing of ours has never reaches the page

OPENING = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="72pt" viewBox="0 0 1 1">'
)


@pytest.mark.parametrize(("inside", "found"), problems("hostile drawings"))
def test_what_no_drawing_has_is_refused(inside: str, found: str) -> None:
    with pytest.raises(ValueError, match=r"no drawing has|found an element inside") as caught:
        drawn_svg(f"{OPENING}{inside}</svg>")
    assert found in str(caught.value)


def test_what_a_browser_reads_otherwise_is_refused_and_comments_vanish() -> None:
    for text in (
        '<!DOCTYPE svg [<!ENTITY x "<script>alert(1)</script>">]>' + OPENING + "&x;</svg>",
        f"<!-- <svg onload='alert(1)'> --{OPENING}</svg>",
        f"{OPENING}<g></svg>",
        "no drawing",
    ):
        with pytest.raises(ValueError, match="XML"):
            drawn_svg(text)
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
        style.finish(figure, axes, legend=1)
    style.save(figure, [tmp_path / "x.svg"])
    drawing = inline_svg((tmp_path / "x.svg").read_text("utf-8"), "x", "Hatched")
    patterns = set(re.findall(r'<pattern id="([^"]+)"', drawing))
    assert patterns
    assert patterns == set(re.findall(r"fill: url\(#([^)]+)\)", drawing))


def test_a_document_of_a_hostile_drawing_is_refused(results: Path, tmp_path: Path, told: Callable[..., str]) -> None:
    folder = Path(shutil.copytree(results, tmp_path / "results"))
    drawing, html = folder / "figures" / "figure_1_1.svg", tmp_path / "index.html"
    drawing.write_text(drawing.read_text("utf-8").replace("</svg>", "<script>alert(1)</script></svg>"), "utf-8")
    said = told("document", "--results", folder, "--out", tmp_path / "a.pdf", "--html", html, status=2)
    found = "not as the step wrote it that makes it (found the element 'script', which no drawing has)"
    assert f"{drawing}: {found}" in said
    assert not html.exists()


# The page in a real browser without a network

PROBE = r"""
  const column = (table, index) => [...table.tBodies[0].rows].map(row => row.cells[index].textContent.trim());
  const table = document.querySelector("#table-5-1 table.sortable"), headings = [...table.tHead.rows[0].cells];
  const index = headings.findIndex(heading => heading.classList.contains("number"));
  found.before = column(table, index);
  for (const name of ["ascending", "descending", "original"]) {
    headings[index].querySelector("button").click();
    found[name] = column(table, index);
    found[name + " told"] = headings[index].getAttribute("aria-sort");
  }
  found.native = [...document.querySelectorAll("#figure-3-2 svg title")].map(title => title.textContent);
  found.text = document.body.innerText;
  found.drawings = [...document.querySelectorAll("svg.figure")].map(one => one.getBoundingClientRect().width);
  found.overflow = document.documentElement.scrollWidth - innerWidth;
  found.background = getComputedStyle(document.body.parentElement).backgroundColor;
"""


@pytest.fixture(scope="module")
def probed(results: Path, theorems_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a claims table, and with a script in its head that reports what it sees."""
    folder = Path(shutil.copytree(results, tmp_path_factory.mktemp("page") / "results"))
    assert main(["claims", "--theorems", str(theorems_file), "--out-dir", str(folder / "tables")]) == 0
    with style.house_style():
        # In the place of a figure that is drawn from formulas.
        style.save(told_figure(), [folder / "figures" / f"figure_3_2.{kind}" for kind in ("svg", "pdf")])
    html = folder / "index.html"
    assert main(["document", "--results", str(folder), "--out", str(folder / "a.pdf"), "--html", str(html)]) == 0
    html.write_text(with_probe(html.read_text("utf-8"), PROBE), "utf-8")
    return html


@pytest.fixture(scope="module")
def light(probed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return seen(probed, tmp_path_factory.mktemp("profile"), "--window-size=1300,900")


def test_the_page_is_whole_without_a_network_and_its_columns_sort(light: dict[str, Any]) -> None:
    assert light["failures"] == []
    for text in ("A list with all relevant items at the bottom can score higher", "Table 5.1"):
        assert text in light["text"]
    assert re.search(r"Of \d+ claims of the sources", light["text"])
    assert len(light["drawings"]) == len(DRAWN) + 1
    assert min(light["drawings"]) > 400
    # Titles of parts: browsers show them under the pointer.
    assert {"nothing, second set, above", SHARES} <= set(light["native"])
    up, down = ([float(text.split()[0]) for text in light[name]] for name in ("ascending", "descending"))
    assert (up, down) == (sorted(up), sorted(up, reverse=True))
    assert up != down
    assert light["original"] == light["before"]
    told = [light[f"{name} told"] for name in ("ascending", "descending", "original")]
    assert told == ["ascending", "descending", None]


def test_the_page_fits_a_phone_and_is_dark_where_wanted(probed: Path, light: dict[str, Any], tmp_path: Path) -> None:
    assert seen(probed, tmp_path, "--window-size=500,900")["overflow"] <= 0
    dark = seen(probed, tmp_path, "--window-size=1300,900", "--blink-settings=preferredColorScheme=0")
    assert sum(map(int, re.findall(r"\d+", light["background"])[:3])) > 3 * 200
    assert sum(map(int, re.findall(r"\d+", dark["background"])[:3])) < 3 * 60


@pytest.mark.long
def test_screen_readers_and_the_keyboard_can_use_it(probed: Path) -> None:
    with driven() as shown:
        assert {scheme: broken_rules(probed, scheme, shown) for scheme in SCHEMES} == {scheme: [] for scheme in SCHEMES}
        assert unseen_stops(shown, 40) == []


# Numbers as the report prints them sort as numbers, in a real browser

NUMBERS = ("−0.0051", "+0.0002", "–", "1,200", "−0.4000", "0.7 – 0.9", "30", "1,200,000")
SORTED = ["−0.4000", "−0.0051", "+0.0002", "0.7 – 0.9", "30", "1,200", "1,200,000", "–"]

SORTING_PROBE = """
  document.querySelector("table.sortable button").click();
  found.ascending = [...document.querySelectorAll("tbody tr")].map(row => row.textContent.trim());
"""


def test_minus_signs_and_thousands(tmp_path: Path) -> None:
    table = TableBlock("Numbers", "", ("number",), tuple((Cell(text),) for text in NUMBERS), 0, sortable=True)
    text = render.html(Document("t", "s", False, (ReportSection("a", "A", "", (table,)),)), tmp_path)
    (tmp_path / "index.html").write_text(with_probe(text, SORTING_PROBE), "utf-8")
    assert seen(tmp_path / "index.html", tmp_path / "profile")["ascending"] == SORTED
