"""The report: findings computed from the table, one content in two shapes, nothing fetched, fixed bytes."""

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from synthetic_runs import write_runs

from rankbound.errors import DataError
from rankbound_study import figures
from rankbound_study.claims.worked import WORKED_TABLES, worked_table
from rankbound_study.figures import style
from rankbound_study.provenance.manifest import make_manifest, write_manifest
from rankbound_study.report import document, render
from rankbound_study.report.columns import TableBlock
from rankbound_study.report.findings import findings
from rankbound_study.report.made_blocks import Figures
from rankbound_study.report.render import inline_svg
from rankbound_study.report.table_files import write_json, write_text
from rankbound_study.report.tables.table_5_1 import summarise, table_5_1
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.specs import StudyFiles

DRAWN = ("figure_1_1", "figure_5_5")
SYNTHETIC_SETS = (("synthetic-movielens", 1), ("synthetic-mq2008-label1", None))


def results_folder(folder: Path, **runs: object) -> Path:
    path = write_runs(folder / "runs.parquet", topics=10, **runs)  # type: ignore[arg-type]
    table = table_5_1(path, RunsChoice())
    write_text(folder / "tables" / "table_5_1.csv", table.write_csv(float_precision=6))
    write_json(folder / "tables" / "table_5_1_summary.json", summarise(table))
    write_text(folder / "tables" / "table_2_4.csv", worked_table("table_2_4").write_csv())
    for name in DRAWN:
        drawn = figures.draw(name, StudyFiles(path))
        style.save(drawn, [folder / "figures" / f"{name}.{kind}" for kind in ("svg", "pdf")])
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return results_folder(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def synthetic_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return results_folder(tmp_path_factory.mktemp("synthetic"), sets=SYNTHETIC_SETS)


@pytest.fixture(scope="module")
def page(results: Path) -> str:
    return render.html(document.build(results), results)


class Page(HTMLParser):
    """Collects the attributes and the open elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: Counter[str] = Counter()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]


def test_the_page_asks_for_nothing(page: str) -> None:
    found = Page(page)
    assert {tag for tag in found.tags if tag in ("link", "img", "iframe", "object", "embed")} == set()
    addresses = [
        value for _, name, value in found.attributes if name in ("src", "href", "xlink:href", "data", "action")
    ]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    assert "url(http" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_ids_are_unique_and_every_link_arrives(page: str) -> None:
    found = Page(page)
    ids = [value for _, name, value in found.attributes if name == "id"]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    targets = {value[1:] for _, name, value in found.attributes if name in ("href", "xlink:href")}
    assert targets - set(ids) == set()
    described = {value for _, name, value in found.attributes if name == "aria-labelledby"}
    assert described - set(ids) == set()


def test_the_page_runs_its_own_script_and_no_other(page: str) -> None:
    policy = re.search(r"script-src ([^;]*);", page)
    assert policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert policy[1].split() == [f"'sha256-{digest}'" for digest in digests]
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
    assert "metadata" not in found
    assert "<!--" not in found


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
    for folder in ("a", "b"):
        content = document.build(results)
        render.write_pdf(content, results, tmp_path / folder / "rankbound.pdf")
        render.write_html(content, results, tmp_path / folder / "index.html")
    for name in ("rankbound.pdf", "index.html"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    pdf = (tmp_path / "a" / "rankbound.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf


def test_synthetic_data_are_labelled_and_never_compared(synthetic_results: Path, page: str) -> None:
    content = document.build(synthetic_results)
    text = render.html(content, synthetic_results)
    assert content.synthetic
    assert 'role="note"' in text
    assert 'class="synthetic"' in text
    assert "Synthetic data. nDCG of each topic" in text
    assert "are reproduced" not in text
    assert "printed MQ2008" not in text
    assert 'class="synthetic"' not in page


def test_findings_follow_the_numbers(tmp_path: Path) -> None:
    table = table_5_1(write_runs(tmp_path / "runs.parquet", topics=10), RunsChoice())
    headlines = [finding.headline for finding in findings(table, summarise(table))]
    assert headlines[0].startswith("Plain popularity scores above every trained model in ")
    assert any(headline.startswith("Distribution bounding changes mean nDCG by −0.") for headline in headlines)

    exact = table.with_columns(
        ours=pl.when(pl.col("model") == "popularity").then(0.1).otherwise(pl.coalesce("published", "ours"))
    ).with_columns(difference=pl.col("ours") - pl.col("published"), **{"within_0.015": pl.lit(True)})
    headlines = [finding.headline for finding in findings(exact, summarise(exact))]
    assert headlines[0] == "A trained model scores above plain popularity in 15 of 15 comparisons."
    assert headlines[1] == "45 of 45 MovieLens scores of Table 5.1 are reproduced to within 0.015."
    # 25 of the 48 printed bounded cells lie above, 3 at, 20 below the unbounded loss (erratum T25).
    details = [finding.detail for finding in findings(exact, summarise(exact))]
    assert any("In print, 25 of 48 lie above, 3 are equal, 20 lie below." in detail for detail in details)
    assert any("end within 0.0008 of each other" in headline for headline in headlines)


def test_a_model_below_chance_or_above_the_oracle_is_reported(tmp_path: Path) -> None:
    table = table_5_1(write_runs(tmp_path / "runs.parquet", topics=6), RunsChoice())
    broken = table.with_columns(ours=pl.when(pl.col("model") == "oracle").then(0.2).otherwise(pl.col("ours")))
    headlines = [finding.headline for finding in findings(broken, summarise(broken))]
    assert "A control fails: something is wrong with these runs." in headlines


def test_text_from_data_cannot_become_markup(results: Path, tmp_path: Path) -> None:
    hostile = '<script>alert("x")</script> #panic("no") $x$ _y_'
    content = document.Document(hostile, hostile, False, (document.ReportSection("findings", hostile, hostile),))
    assert "<script>alert" not in render.html(content, results)
    render.write_pdf(content, results, tmp_path / "a.pdf")


def test_commands_in_texts_are_set_as_code_and_lines_do_not_break_before_a_unit(results: Path) -> None:
    section = document.ReportSection("findings", "A", "See `rankbound <verb>`: 95 % of label ≥ 1.")
    text = render.html(document.Document("t", "s", False, (section,)), results)
    assert "<p>See <code>rankbound &lt;verb&gt;</code>: 95\N{NO-BREAK SPACE}% of label" in text
    assert "label\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}1.</p>" in text


def test_a_missing_table_is_named_with_its_maker(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"table_5_1\.csv is missing: make it with `python -m rankbound_study table table_5_1"
    ):
        document.build(tmp_path)


@pytest.mark.parametrize("name", WORKED_TABLES)
def test_every_worked_table_can_be_read_back(tmp_path: Path, name: str) -> None:
    """Also one whose lists have names that look like numbers: 9.3."""
    table = worked_table(name)
    (tmp_path / f"{name}.csv").write_text(table.write_csv(), encoding="utf-8")
    (section,) = document._worked_sections(tmp_path, reproduced=False)
    (block,) = section.blocks
    assert [row[0].text for row in block.rows] == table["part"].to_list()
    assert all(isinstance(cell.text, str) for row in block.rows for cell in row)


def test_a_table_that_is_not_what_was_recorded_is_refused(tmp_path: Path) -> None:
    """A cut or changed one may still be readable: its checksum tells."""
    folder = results_folder(tmp_path / "results")
    write_manifest(make_manifest(folder, {}), folder / "provenance.json")
    document.build(folder, folder / "provenance.json")
    table = folder / "tables" / "table_2_4.csv"
    whole = table.read_text("utf-8")
    table.write_text(whole[: whole.rindex("\n", 0, -1) + 1], "utf-8")
    with pytest.raises(DataError, match=r"table_2_4\.csv: its content is not what provenance\.json recorded"):
        document.build(folder, folder / "provenance.json")


def test_a_configuration_that_no_step_recorded_is_named(tmp_path: Path) -> None:
    folder = results_folder(tmp_path / "results")
    write_manifest(make_manifest(folder, {"datasets": ["mq2008"], "lists": {"mq2008": {}}}), folder / "provenance.json")
    with pytest.raises(
        DataError, match=r"provenance\.json: not as the step wrote it that makes it \('.*'\); delete it"
    ):
        document.build(folder, folder / "provenance.json")
