"""Tables of the protocols: the bias of a test-picked epoch, selected learning rates, signs of effects under both."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from rankbound.compare import Settings, compare
from rankbound_study.config.comparisons import STUDY
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import read_table as read_contract
from rankbound_study.figures.style import bounding_title
from rankbound_study.jobs.files import RATES
from rankbound_study.report.blocks import Cell, TableBlock, changes, plain_rows
from rankbound_study.report.table_files import TableFiles, TableTexts, plain_texts
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, signed
from rankbound_study.results.neural_names import data_set_title
from rankbound_study.results.scores import scores_of_runs
from rankbound_study.results.specs import StudyFiles, described, scan_runs
from rankbound_study.vocabulary import BOUNDINGS, HONEST, JUDGED_BY, LOSSES

SPECS: dict[str, TableSpec] = {}

FLATTERY_COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("loss", "bounding", "metric"), pl.String()),
    **dict.fromkeys(("test_picked", "validation_picked", "flattery", "low", "high"), pl.Float64()),
    **dict.fromkeys(("n_topics", "n_trainings"), pl.Int64()),
}
FLATTERY_TITLE = "Bias of a test-picked epoch"
FLATTERY_CAPTION = (
    "Mean score of the same trainings (honest protocol, all folds and seeds) at the epoch picked by the test part and "
    "at the one picked by the validation part, and their difference with its 95 % interval over topics."
)
FLATTERY_HEADER = (
    "data set",
    "loss",
    "bounding",
    "metric",
    "test-picked",
    "validation-picked",
    "difference",
    "95 % interval",
)
FLATTERY_LABELS = 4
FLATTERY_REPORT_CAPTION = (
    "Score of the same trainings (honest protocol, all folds and seeds) at the epoch picked by the test part minus "
    "that at the epoch picked by the validation part. In small type: half of the 95 % interval over topics; bold where "
    "the interval excludes zero. `tables/table_flattery.csv` has both scores."
)
_KEY = ("dataset", "nsr_test", "model", "loss", "bounding", "fold", "seed", "topic", "selection", "n", "p")
_PICKED = ("test", "validation")


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
    table = pl.DataFrame([row for cell in cells for row in _flattery_row(cell)], schema=FLATTERY_COLUMNS)
    places = {name: place for place, name in enumerate((*LOSSES, *BOUNDINGS))}
    order = [
        (DataSet(row["dataset"], row["nsr"]).place, places[row["loss"]], places.get(row["bounding"], len(places)))
        for row in table.iter_rows(named=True)
    ]
    return table[sorted(range(len(table)), key=lambda place: order[place])]


def flattery_texts(table: pl.DataFrame) -> TableTexts:
    """Return the table's files: a row per data set, loss and bounding."""
    return plain_texts(
        TableBlock(
            FLATTERY_TITLE, FLATTERY_CAPTION, FLATTERY_HEADER, plain_rows(_flattery_cells(table)), FLATTERY_LABELS
        )
    )


def flattery_block(table: pl.DataFrame) -> TableBlock:
    """Return the report's table: a row per data set and loss, a column per bounding, a dash where none was trained."""
    rows, labels = [], []
    for (dataset, nsr, loss), cells in table.group_by("dataset", "nsr", "loss", maintain_order=True):
        differences = {row["bounding"]: _difference(row) for row in cells.iter_rows(named=True)}
        labels.append(DataSet(str(dataset), None if nsr is None else int(str(nsr))).label)
        by_bounding = (differences.get(bounding, Cell(DASH)) for bounding in BOUNDINGS)
        rows.append((Cell(labels[-1]), Cell(str(loss)), *by_bounding))
    header = ("data set", "loss", *map(bounding_title, BOUNDINGS))
    return TableBlock(FLATTERY_TITLE, FLATTERY_REPORT_CAPTION, header, tuple(rows), 2, changes(labels), sortable=True)


def _flattery_cells(table: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in table.iter_rows(named=True):
        numbers = (f"{row['test_picked']:.4f}", f"{row['validation_picked']:.4f}", signed(row["flattery"]))
        interval = f"{signed(row['low'])} to {signed(row['high'])}"
        label = DataSet(row["dataset"], row["nsr"]).label
        yield label, row["loss"], bounding_title(row["bounding"]), row["metric"], *numbers, interval


def _difference(row: dict[str, float]) -> Cell:
    low, high = row["low"], row["high"]
    return Cell(signed(row["flattery"]), f"±{(high - low) / 2:.4f}", strong=low > 0 or high < 0)


def _flattery_row(cell: pl.DataFrame) -> Iterator[dict[str, object]]:
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


@described(
    SPECS,
    table_flattery=TableSpec(
        "The bias of picking the epoch on the test part: the same trainings of the honest protocol, scored at the "
        "epoch picked by the test part and at the one picked by validation, with the interval of the difference over "
        "topics.",
        title="bias of a test-picked epoch",
        needs=("runs",),
        options=("study",),
        columns=FLATTERY_COLUMNS,
        layout=flattery_block,
    ),
)
def make_flattery(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the table of a study."""
    assert files.runs is not None
    table = table_flattery(files.runs, study)
    return TableFiles(table, flattery_texts(table))


RATE_COLUMNS: dict[str, pl.DataType] = {
    "study": pl.String(),
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("model", "loss", "bounding"), pl.String()),
    **dict.fromkeys(("learning_rate", "mean_score", "mean_test_score"), pl.Float64()),
    **dict.fromkeys(("n_selected", "n_folds"), pl.Int64()),
    "at_edge": pl.Boolean(),
}
RATES_TITLE = "Selected learning rates"
RATES_CAPTION = (
    "Learning rates that the folds select, each by its own validation part, with the number of folds; bold where a "
    "fold selects an end of its grid, so that a better rate may lie outside. `tables/table_rates.csv` has the mean "
    "scores of all rates of the grids."
)
_RATE_CELL = ["study", "dataset", "nsr", "model", "loss", "bounding"]


def table_rates(rates: Path, study: str) -> pl.DataFrame:
    """Return a row per cell and rate: mean scores over folds, and the number of folds that select the rate."""
    frame = pl.from_arrow(read_contract(rates, RATES))
    assert isinstance(frame, pl.DataFrame)
    own = frame.rename({"nsr_test": "nsr"}).filter(pl.col("study").is_in([study, STUDY]))
    table = (
        own.group_by(*_RATE_CELL, "learning_rate")
        .agg(
            pl.col("score").mean().alias("mean_score"),
            pl.col("test_score").mean().alias("mean_test_score"),
            pl.col("chosen").sum().cast(pl.Int64).alias("n_selected"),
            pl.len().cast(pl.Int64).alias("n_folds"),
        )
        .with_columns((_is_end("min") | _is_end("max")).alias("at_edge"))
        .select(*RATE_COLUMNS)
    )
    rows = sorted(table.iter_rows(named=True), key=_rate_place)
    return pl.DataFrame(rows, schema=RATE_COLUMNS)


def rates_block(table: pl.DataFrame) -> TableBlock:
    """Return the report's table: a row per data set and loss or method, a column per bounding."""
    rows, labels = [], []
    for (study, dataset, nsr, model, loss), cells in table.group_by(*_RATE_CELL[:5], maintain_order=True):
        selected = {str(bounding): _selected(own) for (bounding,), own in cells.group_by("bounding")}
        labels.append(_data_set(str(study), str(dataset), None if nsr is None else int(str(nsr))))
        name = str(model if study == STUDY else loss)
        rows.append((Cell(labels[-1]), Cell(name), *(selected.get(one, Cell(DASH)) for one in BOUNDINGS)))
    header = ("data set", "loss or method", *map(bounding_title, BOUNDINGS))
    return TableBlock(RATES_TITLE, RATES_CAPTION, header, tuple(rows), 2, changes(labels))


def _is_end(which: str) -> pl.Expr:
    rate = pl.col("learning_rate")
    end = rate.min() if which == "min" else rate.max()
    return rate == end.over(_RATE_CELL)


def _rate_place(row: Mapping[str, object]) -> tuple[object, ...]:
    losses, boundings = list(LOSSES), list(BOUNDINGS)
    return (
        row["study"] == STUDY,
        DataSet(str(row["dataset"]), row["nsr"]).place,  # type: ignore[arg-type]
        row["model"],
        losses.index(row["loss"]) if row["loss"] in losses else len(losses),
        row["loss"],
        boundings.index(row["bounding"]) if row["bounding"] in boundings else len(boundings),
        row["bounding"],
        row["learning_rate"],
    )


def _selected(cell: pl.DataFrame) -> Cell:
    chosen = cell.filter(pl.col("n_selected") > 0)
    texts = [f"{rate:g} ({count})" for rate, count in chosen.select("learning_rate", "n_selected").iter_rows()]
    return Cell(", ".join(texts), strong=bool(chosen["at_edge"].any()))


def _data_set(study: str, dataset: str, nsr: int | None) -> str:
    return data_set_title(dataset) if study == STUDY else DataSet(dataset, nsr).label


@described(
    SPECS,
    table_rates=TableSpec(
        "The learning rates that the folds select from their grids, each by its own validation part, and the mean "
        "scores of all rates of the grids.",
        title="selected learning rates",
        needs=("rates",),
        options=("study",),
        columns=RATE_COLUMNS,
        layout=rates_block,
    ),
)
def make_rates(name: str, files: StudyFiles, *, study: str = "thesis") -> pl.DataFrame:
    """Return the table of a study and of the comparisons beside it."""
    assert files.rates is not None
    return table_rates(files.rates, study)
