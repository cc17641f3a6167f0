"""The report: findings computed from the table, one content in two shapes, nothing fetched, fixed bytes."""

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from drawn_files import contents
from synthetic_runs import write_runs

from rankbound.errors import DataError
from rankbound_study import figures
from rankbound_study.claims.worked import WORKED_TABLES, worked_table
from rankbound_study.figures import style
from rankbound_study.provenance.manifest import make_manifest, write_manifest
from rankbound_study.report import document, render
from rankbound_study.report.blocks import Finding, ReportSection, TableBlock
from rankbound_study.report.claims import Claims
from rankbound_study.report.content import Figures, table_blocks
from rankbound_study.report.findings import Bounded
from rankbound_study.report.render import inline_svg
from rankbound_study.report.tables import make
from rankbound_study.report.tables.table_5_1 import summarise, table_5_1
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.study_files import StudyFiles

DRAWN = ("figure_1_1", "figure_5_5")
SYNTHETIC_SETS = (("synthetic-movielens", 1), ("synthetic-mq2008-label1", None))


def results_folder(folder: Path, **runs: Any) -> Path:
    path = write_runs(folder / "runs.parquet", topics=10, **runs)
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


def test_colours_of_inlined_figures_follow_the_page(page: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == len(DRAWN)
    assert all(color not in drawing for drawing in drawings for color in style.DARK)
    assert all('role="img"' in drawing and "<title" in drawing for drawing in drawings)


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


def test_all_parts_are_there_in_their_order(page: str, results: Path) -> None:
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", page)
    assert titles[:3] == ["Findings", "Methods", "Table 5.1"]
    assert titles[-1] == "Provenance"
    assert "Not drawn: figure_5_1, " in page
    assert "10 of 10 printed values hold" in page
    assert 'class="sortable"' in page
    tables_of_it = [block for block in document.build(results).sections[2].blocks if isinstance(block, TableBlock)]
    assert page.count("<button") == sum(len(block.header) for block in tables_of_it if block.sortable)


def test_a_remark_stands_in_the_place_of_a_missing_figure_alone(results: Path) -> None:
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


def test_synthetic_data_are_labelled_and_never_compared(tmp_path: Path, page: str) -> None:
    content = document.build(results_folder(tmp_path, sets=SYNTHETIC_SETS))
    text = render.html(content, tmp_path)
    assert content.synthetic
    assert all(words in text for words in ('role="note"', 'class="synthetic"', "Synthetic data. nDCG of each topic"))
    assert not re.search("are reproduced|printed MQ2008", text)
    assert 'class="synthetic"' not in page


def test_findings_follow_the_numbers(tmp_path: Path) -> None:
    table = table_5_1(write_runs(tmp_path / "runs.parquet", topics=10), RunsChoice())

    def found(changed: pl.DataFrame) -> list[Finding]:
        return list(Bounded(tmp_path, changed, summarise(changed), changed.clear(), None).findings(Claims(None)))

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

    broken = table.with_columns(ours=pl.when(pl.col("model") == "oracle").then(0.2).otherwise(pl.col("ours")))
    assert "A control fails: something is wrong with these runs." in [one.headline for one in found(broken)]


def test_text_from_data_cannot_become_markup(results: Path, tmp_path: Path) -> None:
    hostile = '<script>alert("x")</script> #panic("no") $x$ _y_'
    content = of_section(title=hostile, text=hostile)
    assert "<script>alert" not in render.html(content, results)
    render.write_pdf(content, results, tmp_path / "a.pdf")


def test_commands_in_texts_are_set_as_code_and_lines_do_not_break_before_a_unit(results: Path) -> None:
    text = render.html(of_section(text="See `rankbound <verb>`: 95 % of label ≥ 1."), results)
    assert "<p>See <code>rankbound &lt;verb&gt;</code>: 95\N{NO-BREAK SPACE}% of label" in text
    assert "label\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}1.</p>" in text


def test_worked_tables_can_be_read_back(tmp_path: Path) -> None:
    """Also one whose lists have names that look like numbers: 9.3."""
    for name in WORKED_TABLES:
        (tmp_path / f"{name}.csv").write_text(worked_table(name).write_csv(), encoding="utf-8")
    blocks = list(table_blocks("worked", tmp_path))
    for name, block in zip(WORKED_TABLES, blocks, strict=True):
        assert [row[0].text for row in block.rows] == worked_table(name)["part"].to_list()
        assert all(isinstance(cell.text, str) for row in block.rows for cell in row)


def test_what_is_missing_or_not_as_it_was_recorded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"table_5_1\.csv is missing: make it with `python -m rankbound_study table t"):
        document.build(tmp_path)
    folder = results_folder(tmp_path / "results")
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
