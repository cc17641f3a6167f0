"""Tables of scores away from where a model was trained: other metrics, ratios of negatives, samplings."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound_study.claims.cells import significance
from rankbound_study.claims.comparisons import (
    COMMON,
    EFFECT,
    JUDGED,
    METRIC_COLUMNS,
    RATIO_COLUMNS,
    TRAINED_FOR,
    against_popularity,
    metrics_crossed,
    ratios_crossed,
)
from rankbound_study.claims.comparisons import POPULARITY_COLUMNS as SAMPLING_COLUMNS
from rankbound_study.claims.evidence import Evidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import Cell, TableBlock
from rankbound_study.report.columns import DASH, DATA_SET, Across, Column, Layout, Row, with_margin
from rankbound_study.report.prose import text
from rankbound_study.report.table_files import TableFiles, read_table, texts_of
from rankbound_study.report.tables import TableSpec
from rankbound_study.report.tables.table_5_1 import DIGITS, DOWN, UP
from rankbound_study.results.specs import StudyFiles, described
from rankbound_study.results.trained import MARK
from rankbound_study.vocabulary import POPULARITY, UNBOUNDED

SPECS: dict[str, TableSpec] = {}
FILE = "table_crossed.md"

MARKS = (
    f"In small type: half of the 95 % interval over topics and trainings; {UP} significantly higher, {DOWN} "
    f"significantly lower (p at most {LEVEL} after Holm's correction over all differences of the table)."
)


def _crossed(row: Row, *, own: bool) -> Cell:
    """Return a difference with its margin, or, without one, the mean score: in bold if it is `own`."""
    if row["score"] is None or row["difference"] is not None:
        return _difference(row)
    return Cell(f"{row['score']:.{DIGITS}f}", strong=own)


def _difference(row: Row, prefix: str = "") -> Cell:
    """Return a difference with its margin, from the columns with this prefix; a dash without one."""
    difference, low, high, p_holm = (row[f"{prefix}{name}"] for name in ("difference", "low", "high", "p_holm"))
    if difference is None:
        return Cell(DASH)
    return with_margin(difference, low, high, ("", UP, DOWN)[significance(difference, p_holm)])


METRICS_CROSSED = "table_metrics_crossed"
METRICS = Layout(
    "Metric trained and metric judged",
    text(FILE, "metrics", common=COMMON, marks=MARKS),
    (DATA_SET, Column("trained on", "loss"), Column("bounding", write=bounding_title)),
    labels=3,
    rules=("dataset", "nsr", "bounded"),
    sortable=True,
    across=Across(
        ("dataset", "nsr", "bounded", "loss", "bounding"),
        ("metric",),
        {metric: metric for metric in JUDGED},
        lambda row: _crossed(row, own=row["metric"] in TRAINED_FOR),
    ),
)


@described(
    SPECS,
    table_metrics_crossed=TableSpec(
        text(FILE, "table-metrics-crossed"),
        title="metric trained and metric judged",
        needs=("runs", "epochs"),
        options=("study",),
        section="crossed",
        columns=METRIC_COLUMNS,
        layout=METRICS,
    ),
)
def make_metrics_crossed(name: str, files: StudyFiles, *, study: str = "thesis") -> pl.DataFrame:
    """Return the table of a study."""
    return metrics_crossed(Evidence(study, files.runs, files.epochs))


RATIOS = Layout(
    "Ratio trained and ratio tested",
    text(FILE, "ratios", marks=MARKS),
    (
        replace(DATA_SET, title="test lists", names=("dataset", "nsr_test")),
        Column("loss"),
        Column("bounding", write=bounding_title),
    ),
    labels=3,
    rules=("dataset", "nsr_test", "loss"),
    sortable=True,
)
RATIO_EFFECTS = replace(
    RATIOS,
    name="Effect of bounding by ratio trained and ratio tested",
    caption=f"Bounded minus unbounded, both trained at the ratio of the column and tested at that of the row. {MARKS}",
)


def _ratio_score(row: Row) -> Cell:
    return Cell(MARK) if row["score"] is None else _crossed(row, own=row["nsr_train"] == row["nsr_test"])


def _ratio_effect(row: Row) -> Cell:
    return Cell(MARK) if row["score"] is None else _difference(row, EFFECT)


def ratio_blocks(table: pl.DataFrame) -> Iterator[TableBlock]:
    """Yield the scores and the effects of bounding."""
    titles = {ratio: f"trained at NSR {ratio}" for ratio in table["nsr_train"].unique().sort()}
    untrained = f" {MARK} did not train." if table["score"].has_nulls() else ""
    bounded = table.filter(pl.col("bounding") != UNBOUNDED)
    for layout, rows, write in ((RATIOS, table, _ratio_score), (RATIO_EFFECTS, bounded, _ratio_effect)):
        across = Across(("dataset", "nsr_test", "loss", "bounding"), ("nsr_train",), titles, write)
        yield replace(layout, caption=f"{layout.caption}{untrained}", across=across)(rows)


def _ratios_shown(name: str, folder: Path) -> Iterator[TableBlock]:
    if len(table := read_table(folder / f"{name}.csv", RATIO_COLUMNS)):
        yield from ratio_blocks(table)


@described(
    SPECS,
    table_ratios=TableSpec(
        text(FILE, "table-ratios"),
        title="ratio trained and ratio tested",
        needs=("runs", "epochs", "experiments", "experiment_epochs"),
        options=("study",),
        section="crossed",
        blocks=_ratios_shown,
    ),
)
def make_ratios(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the table of a study."""
    table = ratios_crossed(Evidence(study, files.runs, files.epochs, files.experiments, files.experiment_epochs))
    return TableFiles(table, texts_of(f"{RATIOS.name}. {RATIOS.caption}", list(ratio_blocks(table)), RATIOS.name))


SAMPLINGS = Layout(
    "Losses and samplings of negatives",
    text(FILE, "samplings", marks=MARKS),
    (
        Column("judged by", "metric"),
        Column(
            "model or loss",
            ("model", "loss"),
            lambda model, loss: Cell(model, emphasis=True) if loss == "none" else loss,
        ),
        Column(
            "bounding",
            ("loss", "bounding"),
            lambda loss, bounding: DASH if loss == "none" else bounding_title(bounding),
        ),
    ),
    labels=3,
    rules=("metric",),
    sortable=True,
)


def _sampling(row: Row) -> Cell:
    cell = _crossed(row, own=row["model"] == POPULARITY)
    return replace(cell, text=f"{cell.text}*") if row["picked"] else cell


def samplings_block(table: pl.DataFrame) -> TableBlock:
    """Return the table, with a column for each sampling that it has."""
    titles = {row: DataSet(*row).label for row in table.select("dataset", "nsr").unique(maintain_order=True).rows()}
    across = Across(("metric", "model", "loss", "bounding"), ("dataset", "nsr"), titles, _sampling)
    return replace(SAMPLINGS, across=across)(table)


@described(
    SPECS,
    table_samplings=TableSpec(
        text(FILE, "table-samplings"),
        title="losses and samplings",
        needs=("runs", "epochs"),
        options=("study",),
        section="evaluation",
        columns=SAMPLING_COLUMNS,
        layout=samplings_block,
    ),
)
def make_samplings(name: str, files: StudyFiles, *, study: str = "thesis") -> pl.DataFrame:
    """Return the table of a study."""
    return against_popularity(Evidence(study, files.runs, files.epochs))
