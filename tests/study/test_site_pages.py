"""The pages of the documentation site without building it: names, entries of the reference, navigation, the gallery."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import rankbound as rb
from rankbound.bounds.kinds import KINDS as BOUNDS
from rankbound.losses import KINDS as LOSSES
from rankbound.metrics import KINDS as METRICS
from rankbound_study import figures
from website import WRITTEN, gallery, name_check, pages
from website.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NAVIGATION = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]


def test_the_pages_name_only_what_exists() -> None:
    assert [*name_check.unknown_names(DOCS), *name_check.missing_entries(DOCS)] == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("call `rb.no_such_loss(scores)`", "rb.no_such_loss is no public name"),
        ("::: rankbound.losses.smooth.Gone", "rankbound.losses.smooth.Gone does not exist"),
        ("from rankbound.gone import loss", "rankbound.gone does not exist"),
        ("`rankbound.Gone.method`", "rankbound.Gone.method does not exist"),
    ],
)
def test_a_name_that_is_gone_is_told_with_page_and_line(
    line: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    (docs / "reference").mkdir(parents=True)
    (docs / "reference" / "page.md").write_text(
        f"# A page\n\n`rb.metric`, rankbound.losses.smooth.SmoothLoss\n{line}\n"
    )
    assert main(docs) == 1
    error = capsys.readouterr().err
    assert f"docs/reference/page.md:4: {name}" in error
    # Besides that, the reference lacks its entries.
    assert "0 entries `::: rankbound.metric`, expected one" in error


@pytest.mark.parametrize(
    "kind", [*METRICS.values(), *LOSSES.values(), *BOUNDS.values()], ids=lambda kind: kind.__name__
)
def test_the_reference_has_every_metric_loss_and_bound(kind: type[Any]) -> None:
    entries = [entry for page in DOCS.glob("reference/*.md") for entry in name_check.ENTRY.findall(page.read_text())]
    names = {f"{kind.__module__}.{kind.__name__}", f"rankbound.{kind.__name__}"}
    assert len(names & set(entries)) == 1


def test_the_navigation_has_every_page_once() -> None:
    listed = re.findall(r"[\w/]+\.md", NAVIGATION)
    assert sorted(listed) == sorted({*WRITTEN} | {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")})


def test_the_gallery_has_every_figure_with_its_caption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "_drawn", lambda *place: False)
    gallery.write(tmp_path, tmp_path / "results", ["figure_1_1", "figure_5_2"])
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
