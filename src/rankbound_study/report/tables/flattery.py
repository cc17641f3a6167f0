"""Measure the bias of picking the epoch on the test part: the same trainings at the test-picked and validated epochs.

The table is in long form, with one row per data set, loss and bounding of the honest protocol, scored by the metric
that judges the loss.
"""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rankbound.compare import Settings, compare
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import Cell, TableBlock, changes, plain_rows
from rankbound_study.report.table_files import TableFiles, TableTexts, plain_texts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, signed
from rankbound_study.results.paired_scores import scores_of_runs
from rankbound_study.results.runs_file import scan_runs
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import BOUNDINGS, HONEST, JUDGED_BY, LOSSES

SPECS = {
    "table_flattery": TableSpec(
        "The bias of picking the epoch on the test part: the same trainings of the honest protocol, scored at the "
        "epoch picked by the test part and at the one picked by validation, with the interval of the difference over "
        "topics.",
        title="bias of a test-picked epoch",
        needs=("runs",),
        options=("study",),
    )
}

COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("loss", "bounding", "metric"), pl.String()),
    **dict.fromkeys(("test_picked", "validation_picked", "flattery", "low", "high"), pl.Float64()),
    **dict.fromkeys(("n_topics", "n_trainings"), pl.Int64()),
}

TITLE = "Bias of a test-picked epoch"
CAPTION = (
    "Mean score of the same trainings (honest protocol, all folds and seeds) at the epoch picked by the test part and "
    "at the one picked by the validation part, and their difference with its 95 % interval over topics."
)

HEADER = ("data set", "loss", "bounding", "metric", "test-picked", "validation-picked", "difference", "95 % interval")

LABELS = 4

REPORT_CAPTION = (
    "Score of the same trainings (honest protocol, all folds and seeds) at the epoch picked by the test part minus "
    "that at the epoch picked by the validation part. In small type: half of the 95 % interval over topics; bold where "
    "the interval excludes zero. `tables/table_flattery.csv` has both scores."
)
_KEY = ("dataset", "nsr_test", "model", "loss", "bounding", "fold", "seed", "topic", "selection", "n", "p")
_PICKED = ("test", "validation")


def make(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the table of a study."""
    assert files.runs is not None
    table = table_flattery(files.runs, study)
    return TableFiles(table, texts(table))


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the table, unless it is empty."""
    if len(table := read_table(folder / f"{name}.csv", COLUMNS)):
        yield block(table)


def table_flattery(runs: Path, study: str) -> pl.DataFrame:
    """Return a row per cell, with the 95 % interval of the mean difference over topics (whole users or queries)."""
    trained = (
        scan_runs(runs)
        .filter(pl.col("protocol") == HONEST, pl.col("study") == study, pl.col("selection").is_in(_PICKED))
        .filter(pl.col("loss").is_in(LOSSES))
        .select(*_KEY, *JUDGED_BY.values())
        .collect()
    )
    cells = trained.partition_by("dataset", "nsr_test", "loss", "bounding", maintain_order=True)
    table = pl.DataFrame([row for cell in cells for row in _row(cell)], schema=COLUMNS)
    places = {name: place for place, name in enumerate((*LOSSES, *BOUNDINGS))}
    order = [
        (DataSet(row["dataset"], row["nsr"]).place, places[row["loss"]], places.get(row["bounding"], len(places)))
        for row in table.iter_rows(named=True)
    ]
    return table[sorted(range(len(table)), key=lambda place: order[place])]


def texts(table: pl.DataFrame) -> TableTexts:
    """Return the table's files: a row per data set, loss and bounding."""
    return plain_texts(TableBlock(TITLE, CAPTION, HEADER, plain_rows(_cells(table)), LABELS))


def block(table: pl.DataFrame) -> TableBlock:
    """Return the report's table: a row per data set and loss, a column per bounding, a dash where none was trained."""
    rows, labels = [], []
    for (dataset, nsr, loss), cells in table.group_by("dataset", "nsr", "loss", maintain_order=True):
        differences = {row["bounding"]: _difference(row) for row in cells.iter_rows(named=True)}
        labels.append(DataSet(str(dataset), None if nsr is None else int(str(nsr))).label)
        by_bounding = (differences.get(bounding, Cell(DASH)) for bounding in BOUNDINGS)
        rows.append((Cell(labels[-1]), Cell(str(loss)), *by_bounding))
    header = ("data set", "loss", *map(bounding_title, BOUNDINGS))
    return TableBlock(TITLE, REPORT_CAPTION, header, tuple(rows), 2, changes(labels), sortable=True)


def _cells(table: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in table.iter_rows(named=True):
        numbers = (f"{row['test_picked']:.4f}", f"{row['validation_picked']:.4f}", signed(row["flattery"]))
        interval = f"{signed(row['low'])} to {signed(row['high'])}"
        label = DataSet(row["dataset"], row["nsr"]).label
        yield label, row["loss"], bounding_title(row["bounding"]), row["metric"], *numbers, interval


def _difference(row: dict[str, float]) -> Cell:
    low, high = row["low"], row["high"]
    return Cell(signed(row["flattery"]), f"±{(high - low) / 2:.4f}", strong=low > 0 or high < 0)


def _row(cell: pl.DataFrame) -> Iterator[dict[str, object]]:
    first = cell.row(0, named=True)
    metric = JUDGED_BY[first["loss"]]
    scores = scores_of_runs(cell, metric, by=("selection",))
    if set(scores.systems) != set(_PICKED):
        return
    comparison = compare(scores.pair(*_PICKED), Settings())
    yield {
        "dataset": first["dataset"],
        "nsr": first["nsr_test"],
        "loss": first["loss"],
        "bounding": first["bounding"],
        "metric": metric,
        "test_picked": comparison.mean_a,
        "validation_picked": comparison.mean_b,
        "flattery": comparison.difference,
        "low": comparison.low,
        "high": comparison.high,
        "n_topics": comparison.n_units,
        "n_trainings": cell.select("fold", "seed").n_unique(),
    }
