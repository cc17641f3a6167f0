"""The pages of the documentation site without building it: names, the reference, navigation, gallery, report."""

import inspect
import re
import shutil
from pathlib import Path

import pytest
import yaml

import rankbound as rb
from rankbound.bounds.base import kinds as bounds
from rankbound.errors import DataError
from rankbound.losses import KINDS as LOSSES
from rankbound.metrics import KINDS as METRICS
from rankbound_study import figures
from rankbound_study.provenance.manifest import make_manifest, write_manifest
from rankbound_study.report.blocks import Document, ReportSection
from website import WRITTEN, gallery, name_check, pages, report
from website.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CONFIGURED = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
NAVIGATION = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]


def test_the_pages_name_only_what_exists() -> None:
    assert list(name_check.problems(DOCS)) == []


def test_names_that_are_gone_are_told_with_page_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = {
        "call `rb.no_such_loss(scores)`": "rb.no_such_loss is no public name",
        "::: rankbound.losses.smooth.Gone": "rankbound.losses.smooth.Gone does not exist",
        "from rankbound.gone import loss": "rankbound.gone does not exist",
        "`rankbound.Gone.method`": "rankbound.Gone.method does not exist",
        "[a page](gone.md#place)": "gone.md does not exist",
        "![a picture](../images/gone.svg)": "../images/gone.svg does not exist",
    }
    (tmp_path / "docs/reference").mkdir(parents=True)
    text = "# A page\n\n`rb.metric`, rankbound.losses.smooth.SmoothLoss\n"
    (tmp_path / "docs/reference/page.md").write_text(text + "\n".join(gone))
    assert main(tmp_path / "docs") == 1
    error = capsys.readouterr().err
    for line, name in enumerate(gone.values(), 4):
        assert f"docs/reference/page.md:{line}: {name}" in error
    # Besides that, the reference lacks its entries.
    assert "0 entries `::: rankbound.metric`, expected one" in error


def test_the_reference_has_every_metric_loss_and_bound() -> None:
    entries = [entry for page in DOCS.glob("reference/*.md") for entry in name_check.ENTRY.findall(page.read_text())]
    for kind in (*METRICS.values(), *LOSSES.values(), *bounds().values()):
        names = {f"{kind.__module__}.{kind.__name__}", f"rankbound.{kind.__name__}"}
        assert len(names & set(entries)) == 1, kind


def test_the_navigation_has_every_page_once() -> None:
    listed = re.findall(r"[\w/]+\.md", NAVIGATION)
    assert sorted(listed) == sorted({*WRITTEN} | {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")})


def test_the_gallery_has_every_figure_with_its_caption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "_drawn", lambda *place: False)
    assert gallery.write(tmp_path, tmp_path / "results", ["figure_1_1", "figure_5_2"]) == []
    text = (tmp_path / "gallery.md").read_text("utf-8")
    for name, spec in figures.figure_specs().items():
        assert f"{{ #{name} }}" in text
        assert spec.caption in re.sub(r"\\(.)", r"\1", text)
    assert "python -m rankbound_study figure figure_1_1 --out figure_1_1.svg" in text
    assert "snakemake --cores 2 results/figures/figure_5_2.svg" in text


def test_pictures_of_people_are_not_shown(tmp_path: Path) -> None:
    licensed = next(name for name, spec in figures.figure_specs().items() if spec.shows_pictures)
    results = tmp_path / "results"
    for name in (licensed, "figure_5_2"):
        file = figures.figure_file(results, name, ".svg")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("<svg/>", "utf-8")
    specs = figures.figure_specs()
    assert not gallery._drawn(licensed, specs[licensed], tmp_path, results)
    assert gallery._drawn("figure_5_2", specs["figure_5_2"], tmp_path, results)
    assert {file.name for file in tmp_path.glob("*.svg")} == {"figure_5_2.svg", "figure_5_2.dark.svg"}


def test_colours_are_exchanged_all_at_once() -> None:
    assert gallery.recoloured("#000 #fff", {"#000": "#fff", "#fff": "#000"}) == "#fff #000"


def test_the_pages_from_code_have_every_name_and_command(tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    pages.write(ROOT, tmp_path)
    names = (tmp_path / "reference" / "index.md").read_text("utf-8")
    for name in set(rb.__all__) - {"__version__"}:
        assert f"| `rb.{name}` | {(inspect.getdoc(getattr(rb, name)) or '').splitlines()[0]} |" in names
    assert "--bound" in (tmp_path / "reference" / "command_line.md").read_text("utf-8")
    assert "](docs/" not in (tmp_path / "changes.md").read_text("utf-8")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of results that has only tables, as in a fresh clone."""
    shutil.copytree(ROOT / "published_results" / "tables", tmp_path / "results" / "tables")
    return tmp_path / "results"


def drawing(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" width="9pt" height="9pt"><g id="{text}"/></svg>'
    (folder / f"{name}.svg").write_text(drawn, "utf-8")


def test_the_report_is_made_from_tables_alone_and_names_what_it_lacks(results: Path, tmp_path: Path) -> None:
    docs, drawn = tmp_path / "docs", "figure_1_1"
    drawing(docs / "gallery", drawn, "from-the-gallery")
    # Pictures of people among them, which the gallery leaves out.
    specs = figures.figure_specs()
    for name in CONFIGURED["figures"]:
        drawing(figures.figure_file(results, name, ".svg").parent, name, "from-results")
    report.write(docs, results, [drawn], CONFIGURED)
    page, whole = ((docs / name).read_text("utf-8") for name in ("paper.md", "paper/index.html"))
    for name in ("rankbound.pdf", "paper.pdf"):
        assert (docs / "paper" / name).read_bytes().startswith(b"%PDF")
    assert "Questions and answers" in (docs / "paper" / "paper.html").read_text("utf-8")
    assert "from-the-gallery" in whole
    assert "from-results" not in whole
    for name in set(CONFIGURED["figures"]) - {drawn}:
        assert f"(gallery.md#{name})" in page
        assert f"<code>{gallery.command(name, specs[name], configured=True)}</code>" in whole
    assert f"(gallery.md#{drawn})" not in page
    for name in CONFIGURED["tables"]:
        assert (f"`{name}`" in page) != (results / "tables" / f"{name}.csv").exists()
    assert '<a href="../paper.html">' in whole
    assert "Does it train better rankers?" in page
    assert "(limitations.md)" in page


def test_the_page_marks_synthetic_data_and_shows_characters_as_they_are() -> None:
    sections = (
        ReportSection("abstract", "Abstract", "p < 5 % of $x$ and `y_i`"),
        *map(empty, ("findings", "provenance")),
    )
    page = report.page(Document("a*b*", "", synthetic=True, sections=sections), [], [])
    assert report.render.SYNTHETIC in page
    assert "a\\*b\\*." in page
    assert "p \\< 5\N{NO-BREAK SPACE}% of \\$x\\$ and \\`y\\_i\\`" in page
    assert "lacks" not in page


def empty(anchor: str) -> ReportSection:
    return ReportSection(anchor, anchor, "")


def test_a_finished_study_is_named_by_its_configuration(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report.render, "write_pdf", lambda *content: None)
    manifest = make_manifest(results, {"study": "mine", "protocols": ["honest"], "boundings": ["none"]})
    write_manifest(manifest, results / "provenance.json")
    report.write(tmp_path, results, [], CONFIGURED)
    page = (tmp_path / "paper.md").read_text("utf-8")
    assert re.search(r"configuration, SHA-256 \| [0-9a-f]{64} ", page)
    assert "(limitations.md)" not in page
    (results / "tables" / "table_claims.csv").write_text("changed", "utf-8")
    with pytest.raises(DataError, match=r"results/tables/table_claims\.csv: its content is not what"):
        report.write(tmp_path, results, [], CONFIGURED)


def test_a_damaged_table_or_drawing_is_named(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(DOCS, docs, ignore=shutil.ignore_patterns("gallery", "paper"))
    drawing(docs / "gallery", "figure_5_2", "<")
    monkeypatch.setattr(gallery, "write", lambda *place: ["figure_5_2"])
    monkeypatch.setattr(pages, "write", lambda *place: None)
    assert main(docs, results) == 1
    assert f"{results}/figures/figure_5_2.svg: not as the step wrote it" in capsys.readouterr().err
    (results / "tables" / "table_5_1.csv").write_text("dataset\n\0", "utf-8")
    assert main(docs, results) == 1
    assert f"the report cannot be made: {results}/tables/table_5_1.csv: not as" in capsys.readouterr().err
