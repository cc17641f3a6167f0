"""Tables beside print and beside other work: worked examples, losses on CiteULike-a, what related work predicts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims.citeulike import COLUMNS as CITEULIKE_COLUMNS
from rankbound_study.claims.citeulike import METRICS, citeulike
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.related import COLUMNS as RELATED_COLUMNS
from rankbound_study.claims.worked import PERSISTENCE, worked_table
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.blocks import Cell, TableBlock, changes, plain_rows
from rankbound_study.report.table_files import TableFiles, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, signed, with_minus
from rankbound_study.results.specs import StudyFiles, described, score

SPECS: dict[str, TableSpec] = {}

_CAPTIONS = {
    "1.1": "A list with all relevant items at the bottom scores above a list whose only relevant item is second.",
    "2.2": "DCG of the ideal and the worst ordering of nine items with three relevant ones.",
    "2.3": f"RBP with p = {PERSISTENCE} of the same two orderings.",
    "2.4": "AP of the same two orderings.",
    "3.1": "DCG of all orderings of X(2,1) and X(3,2), and its expectation.",
    "3.2": "First term of the nRBP loss of all orderings of X(2,1) and X(3,2), and its expectation.",
    "3.3": "AP of all orderings of X(2,1) and X(3,2), and its expectation.",
}
WORKED_HEADER = ("list", "row", "quantity", "ours", "printed", "holds")
HOLDS = {True: "yes", False: "NO", None: "–"}
_WORKED_COLUMNS = {
    **dict.fromkeys(("part", "row", "quantity"), pl.String),
    "ours": pl.Float64,
    "printed": pl.String,
    "holds": pl.Boolean,
}


def worked_blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the table."""
    rows = tuple(
        (
            *map(Cell, (part, row, quantity, f"{ours:.4f}", printed or "–")),
            Cell(HOLDS[holds], strong=holds is False),
        )
        for part, row, quantity, ours, printed, holds in read_table(folder / f"{name}.csv", _WORKED_COLUMNS).rows()
    )
    yield TableBlock(SPECS[name].title, SPECS[name].caption, WORKED_HEADER, rows, labels=3)


@described(
    SPECS,
    **{
        f"table_{number.replace('.', '_')}": TableSpec(
            caption, title=f"Table {number}", beside=(), section="worked", blocks=worked_blocks
        )
        for number, caption in _CAPTIONS.items()
    },
    table_murphy_9_3=TableSpec(
        "Murphy's Table 9.3 (linear gain, first two ranks undiscounted) and his example of AP. The book adds up "
        "rounded terms, and carries its DCG into the nDCG.",
        title="Murphy, Table 9.3",
        beside=(),
        section="worked",
        blocks=worked_blocks,
    ),
)
def make_worked(name: str, files: StudyFiles) -> TableFiles:
    """Return the computed and the printed values."""
    return TableFiles(worked_table(name), digits=None)


CITEULIKE_TITLE = "Losses on CiteULike-a"
CITEULIKE_CAPTION = (
    "Published: Li, Urbano and Hanjalic (SIGIR 2021), at the best rate and epoch on the test part, means over folds. "
    "Ours, test-picked: rate and epoch by the test part, too; then both by the validation part, with the picked rate "
    "(an asterisk marks an end of the grid). Behind nRBP: the unbounded nRBP loss minus the row's at "
    "the same temperature, with its 95 % "
    "interval over users and trainings."
)
CITEULIKE_HEADER = (
    *("NSR", "temperature", "loss", "bounding", "rate", "trainings"),
    *(
        f"{metric} {what}"
        for metric in METRICS
        for what in ("published", "test-picked", "by validation", "behind nRBP")
    ),
)
CITEULIKE_LABELS = 4


def citeulike_block(table: pl.DataFrame) -> TableBlock:
    """Return the table for the report and its files."""
    rows = plain_rows(tuple(_citeulike_cells(row)) for row in table.iter_rows(named=True))
    return TableBlock(
        CITEULIKE_TITLE,
        CITEULIKE_CAPTION,
        CITEULIKE_HEADER,
        rows,
        CITEULIKE_LABELS,
        changes(table.select("nsr", "temperature").rows()),
    )


def _citeulike_cells(row: Mapping[str, Any]) -> Iterator[str]:
    yield from (str(row["nsr"]), f"{row['temperature']:g}", row["loss"], row["bounding"])
    yield f"{row['rate']:g}{'*' if row['at_edge'] else ''}"
    yield str(row["n_trainings"])
    for metric in METRICS:
        for value in (row[f"published_{metric}"], row[f"test_picked_{metric}"], row[metric]):
            yield DASH if value is None else score(value)
        behind, low, high = (row[f"{metric}_{name}"] for name in ("behind", "low", "high"))
        yield DASH if behind is None else f"{signed(behind)} ({signed(low)} to {signed(high)})"


@described(
    SPECS,
    table_citeulike=TableSpec(
        "RBP, nDCG and AP losses on CiteULike-a: published scores beside ours, every loss and bounding at its own "
        "learning rate at each temperature of smooth ranks, and their distance to the unbounded nRBP loss.",
        title="losses on CiteULike-a",
        needs=("experiments", "experiment_epochs"),
        options=("study",),
        section="citeulike",
        columns=CITEULIKE_COLUMNS,
        layout=citeulike_block,
    ),
)
def make_citeulike(name: str, files: StudyFiles, *, study: str = "thesis") -> pl.DataFrame:
    """Return the table of a study."""
    evidence = Evidence(study, experiments=files.experiments, experiment_epochs=files.experiment_epochs)
    return citeulike(evidence)


RELATED_CAPTION = (
    "The trained losses and boundings of a data set by a metric and by its bounded form, on the same test lists: "
    "Kendall's tau between both orders of means, pairs of systems in the other order, those that are significantly so "
    "by both (Holm), and pairs that differ significantly by the metric, by its bounded form, and by one of them alone "
    "(at 5 %, without correction). Lists whose items are all relevant are left out."
)
_COUNTS = ("pairs", "inverted", "exchanged", "significant", "significant_bounded", "gained", "lost")
_COUNTED = ("pairs", "inverted", "significantly", "by metric", "by bounded", "gained", "lost")
RELATED_HEADER = ("data set", "metric", "bounded by", "tau", *_COUNTED)


def related_block(table: pl.DataFrame) -> TableBlock:
    """Return the table of orders."""
    rows = tuple(map(_related_cells, table.iter_rows(named=True)))
    rules = changes(table.select("dataset", "nsr").rows())
    return TableBlock("Systems by bounded metrics", RELATED_CAPTION, RELATED_HEADER, rows, 3, rules, sortable=True)


def _related_cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    tau = DASH if row["tau"] is None else with_minus(f"{row['tau']:.2f}")
    labels = (DataSet(row["dataset"], row["nsr"]).label, row["metric"], row["bound"], tau)
    return (*map(Cell, labels), *(Cell(str(row[name])) for name in _COUNTS))


@described(
    SPECS,
    table_related=TableSpec(
        "What related work predicts here: the order of the trained systems by metrics and by their bounded forms, the "
        "coherence of gradients, and a loss of ranks beside the losses of the metrics.",
        title="what related work predicts here",
        needs=("runs", "epochs"),
        options=("study",),
        beside=(".md", ".tex", "_gradients.csv", "_ranks.csv"),
        section="related",
        columns=RELATED_COLUMNS,
        layout=related_block,
    ),
)
def make_related(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without runs of the honest protocol, only that of gradients has rows."""
    from rankbound_study.claims.related import gradients_table, orders_table, ranks_table

    evidence = Evidence(study, files.runs, files.epochs)
    table = orders_table(evidence)
    beside = {"_gradients.csv": gradients_table(), "_ranks.csv": ranks_table(evidence)}
    return TableFiles(table, beside=beside)
