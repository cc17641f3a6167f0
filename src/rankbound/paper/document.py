"""The report's content, built from the tables and figures of a results folder; the renderers give it a shape.

Nothing here knows of HTML or Typst, and no result is typed: findings are computed by `rankbound.paper.findings`.
"""

import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.errors import DataError
from rankbound.paper import scores, table_layout, tables
from rankbound.paper.figures import FIGURES
from rankbound.paper.findings import Finding, data_set_label, findings
from rankbound.paper.neural_findings import neural_findings
from rankbound.paper.neural_layout import caption as neural_caption
from rankbound.paper.neural_layout import layout as neural_layout
from rankbound.paper.neural_results import FAILS, OPEN, Results, read_results

PACKAGES = ("rankbound", "torch", "numpy", "scipy", "polars", "pyarrow", "matplotlib", "typst")


@dataclass(frozen=True)
class Cell:
    """A table cell: its text, a smaller second text (the printed score), and how it is set."""

    text: str
    note: str = ""
    strong: bool = False
    emphasis: bool = False


@dataclass(frozen=True)
class TableBlock:
    """A table: `labels` leading columns of text, then numbers; a thin rule stands above each row of `rules`."""

    name: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    labels: int
    rules: frozenset[int] = frozenset()
    sortable: bool = False

    @property
    def notes(self) -> bool:
        """Whether any cell has a second text."""
        return any(cell.note for row in self.rows for cell in row)


@dataclass(frozen=True)
class FigureBlock:
    """A figure by its file name (without suffix) in the figures folder."""

    name: str
    title: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A section: a title, an opening paragraph (may be empty), and its blocks, set in one or two columns."""

    anchor: str
    title: str
    text: str
    blocks: tuple[TableBlock | FigureBlock, ...] = ()
    findings: tuple[Finding, ...] = ()
    columns: int = 1


@dataclass(frozen=True)
class Document:
    """The whole report."""

    title: str
    subtitle: str
    synthetic: bool
    sections: tuple[Section, ...] = field(default=())


def build(results: Path) -> Document:
    """Read DIR/tables and DIR/figures (and DIR/runs.parquet for the settings) into a document.

    Raises:
        DataError: Table 5.1 or its summary is missing.
    """
    table = _read_table(results / "tables" / "table_5_1.csv")
    summary = _read_summary(results / "tables" / "table_5_1_summary.json")
    neural = read_results(results / "tables")
    protocol = scores.PROTOCOLS.get(summary["protocol"], "no runs")
    return Document(
        title="User/query-wise metric bounding in learning to rank, done again",
        subtitle=f"Every table and figure of the thesis, regenerated — {protocol}",
        synthetic=summary["synthetic"],
        sections=(
            Section("findings", "Findings", "", findings=(*findings(table, summary), *_refuted(neural))),
            Section("table-5-1", "Table 5.1", "", (_table_5_1(table, protocol),)),
            *_figure_sections(results / "figures", synthetic=summary["synthetic"]),
            _worked_section(results / "tables"),
            *_neural_sections(results / "figures", neural),
            Section("provenance", "Provenance", "", tuple(_provenance(results, table))),
        ),
    )


def _read_table(path: Path) -> pl.DataFrame:
    if not path.exists():
        raise DataError(
            f"{path} is missing: make it with `rankbound table table_5_1 --runs ... --out-dir {path.parent}`"
        )
    return pl.read_csv(path, schema=tables.COLUMNS)


def _read_summary(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise DataError(f"{path} is missing: it is written together with table_5_1.csv by `rankbound table table_5_1`")
    summary: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return summary


def _table_5_1(table: pl.DataFrame, protocol: str) -> TableBlock:
    sets, rows = table_layout.layout(table)
    cells, rules, previous = [], set(), None
    for index, row in enumerate(rows):
        if row.metric != previous:
            rules.add(index)
        previous = row.metric
        values = (Cell(cell.text, cell.published_text, cell.best, cell.increase) for cell in row.cells)
        first = Cell("control" if row.control else row.loss, emphasis=row.control)
        cells.append((first, Cell(row.name), Cell(row.metric), *values))
    beside = "Ours, and the thesis' score beside it in small type. " if table["published"].count() else ""
    return TableBlock(
        "Table 5.1",
        f"Mean score over the test lists, {protocol}. {beside}Bold: best bounding of its loss; italic: above the "
        "unbounded loss. Controls are not trained.",
        ("trained on", "bounding", "scored by", *(data_set.label for data_set in sets)),
        tuple(cells),
        labels=3,
        rules=frozenset(rules),
        sortable=True,
    )


def _figure_sections(folder: Path, *, synthetic: bool) -> Iterator[Section]:
    groups: dict[str, tuple[str, tuple[str, ...]]] = {
        "results": ("Figures of the results", ("figure_5_",)),
        "bounds": ("Figures of the bounds", ("figure_1_", "figure_3_")),
        "linear": ("Linear NDCG and pair-wise error", ("figure_linear_",)),
    }
    for anchor, (title, prefixes) in groups.items():
        names = [name for name in FIGURES if name.startswith(prefixes)]
        missing = [name for name in names if not (folder / f"{name}.svg").exists()]
        blocks = tuple(_figure(name, synthetic=synthetic) for name in names if name not in missing)
        text = f"Not drawn: {', '.join(missing)}." if missing else ""
        yield Section(anchor, title, text, blocks)


def _neural_sections(folder: Path, results: list[Results]) -> Iterator[Section]:
    """The neural-ranking study: what its tables say of the seed's claims, the tables, the figures."""
    if not results:
        return
    synthetic = any(one.synthetic for one in results)
    text = (
        "The seed Application of Neural Networks in Ranking compares methods that rank, classify and regress. Below: "
        "its claims, those first that do not hold in these runs; then its tables and figures. Every method's epoch was "
        "picked on a validation part. Who is on a picture of a face is not known: near duplicates share a part of the "
        "split, but one person may stand in two."
    )
    tables = tuple(_neural_table(one) for one in results)
    told = tuple(finding for _, finding in neural_findings(results))
    yield Section("neural", "Neural networks in ranking", text, tables, told)
    names = [name for name in FIGURES if name.startswith("figure_neural_") and (folder / f"{name}.svg").exists()]
    figures = tuple(_figure(name, synthetic=synthetic) for name in names)
    yield Section("neural-figures", "Figures of neural ranking", "", figures)


def _refuted(results: list[Results]) -> Iterator[Finding]:
    """What of the neural-ranking study's claims does not hold or is not confirmed, for the report's first lines."""
    for verdict, finding in neural_findings(results):
        if verdict in (FAILS, OPEN):
            yield Finding(f"Neural ranking. {finding.headline}", "Its section has the numbers.")


def _neural_table(results: Results) -> TableBlock:
    (wide,) = neural_layout(results.scores, results.about)
    rules = {index for index, row in enumerate(wide.rows) if index and row.family != wide.rows[index - 1].family}
    return TableBlock(
        f"Table {results.about.number}, {results.about.title}",
        f"{wide.title}. {neural_caption(results.scores, results.about)}",
        ("family", "method", *wide.header),
        tuple(
            (Cell(row.family), Cell(row.method, strong=row.best), *(Cell(text) for text in row.cells))
            for row in wide.rows
        ),
        labels=2,
        rules=frozenset(rules),
        sortable=True,
    )


def _figure(name: str, *, synthetic: bool) -> FigureBlock:
    spec = FIGURES[name]
    label = "Synthetic data. " if synthetic and (spec.needs_runs or spec.needs) else ""
    title = spec.title or name.replace("figure_", "Figure ").replace("_", ".")
    return FigureBlock(name, title, label + spec.caption)


def _worked_section(folder: Path) -> Section:
    from rankbound.paper.worked import CAPTIONS, title

    blocks, held, printed = [], 0, 0
    for name, caption in CAPTIONS.items():
        path = folder / f"{name}.csv"
        if not path.exists():
            continue
        table = pl.read_csv(path, schema_overrides={"printed": pl.String, "row": pl.String, "holds": pl.Boolean})
        held += int(table["holds"].sum())
        printed += int(table["holds"].count())
        rows = tuple(
            (
                Cell(row["part"]),
                Cell(row["row"]),
                Cell(row["quantity"]),
                Cell(f"{row['ours']:.4f}"),
                Cell(row["printed"] or "–"),
                Cell({True: "yes", False: "NO", None: "–"}[row["holds"]], strong=row["holds"] is False),
            )
            for row in table.iter_rows(named=True)
        )
        header = ("list", "row", "quantity", "ours", "printed", "holds")
        blocks.append(TableBlock(title(name), caption, header, rows, labels=3))
    text = (
        f"{held} of {printed} printed values hold: ours rounds to them. A dash marks what cannot be read in the text."
        if blocks
        else "No worked table has been made."
    )
    return Section("worked", "Worked tables", text, tuple(blocks), columns=2)


def _provenance(results: Path, table: pl.DataFrame) -> Iterator[TableBlock]:
    sizes = table.filter(pl.col("loss") != "none", pl.col("as_printed"))
    rows = sizes.group_by("dataset", "nsr", "model", maintain_order=True).first()
    if len(rows):
        yield TableBlock(
            "Runs",
            "Data sets, models and sizes behind Table 5.1.",
            ("data set", "model", "folds", "seeds", "test lists", "left out"),
            tuple(
                (
                    Cell(data_set_label(row["dataset"] if row["nsr"] is None else f"{row['dataset']}-nsr{row['nsr']}")),
                    Cell(row["model"]),
                    *(Cell(str(row[key])) for key in ("n_folds", "n_seeds", "n_lists", "n_skipped")),
                )
                for row in rows.iter_rows(named=True)
            ),
            labels=2,
        )
    yield from _settings(results / "runs.parquet")
    versions = [(name, _version(name)) for name in PACKAGES]
    yield TableBlock(
        "Versions",
        "Software that made this report.",
        ("package", "version"),
        tuple((Cell(name), Cell(found)) for name, found in [("python", platform.python_version()), *versions]),
        labels=2,
    )


def _settings(runs: Path) -> Iterator[TableBlock]:
    if not runs.exists():
        return
    key = ["protocol", "study", "dataset", "model", "options"]
    frame = pl.scan_parquet(runs).filter(pl.col("loss") != "none").select(*key, "epoch").unique().collect()
    rows = frame.group_by(key).agg(pl.col("epoch").min().alias("low"), pl.col("epoch").max().alias("high")).sort(key)
    if len(rows):
        yield TableBlock(
            "Settings",
            "Training options of every data set and model, and the epochs that were picked.",
            ("protocol", "study", "data set", "model", "options", "epochs"),
            tuple((*(Cell(str(text)) for text in row[:5]), Cell(f"{row[5]}–{row[6]}")) for row in rows.rows()),
            labels=5,
        )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
