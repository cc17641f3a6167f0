"""Tables of scores away from where a model was trained: other metrics, ratios of negatives, samplings."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from rankbound_study.report import render_latex, render_markdown
from rankbound_study.report.blocks import Cell, TableBlock, changes
from rankbound_study.report.table_files import TableFiles, TableTexts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.tables.table_5_1 import DIGITS, DOWN, UP
from rankbound_study.report.typeset_numbers import DASH, signed
from rankbound_study.results.specs import StudyFiles, described
from rankbound_study.results.trained import MARK
from rankbound_study.vocabulary import POPULARITY, UNBOUNDED

SPECS: dict[str, TableSpec] = {}

MARKS = (
    f"In small type: half of the 95 % interval over topics and trainings; {UP} significantly higher, {DOWN} "
    f"significantly lower (p at most {LEVEL} after Holm's correction over all differences of the table)."
)


def crossed_cell(row: Mapping[str, Any] | None, *, own: bool) -> Cell:
    """Return a difference with its margin, or, without one, the mean score: in bold if it is `own`."""
    if row is None or row["score"] is None or row["difference"] is not None:
        return difference_cell(row)
    return Cell(f"{row['score']:.{DIGITS}f}", strong=own)


def difference_cell(row: Mapping[str, Any] | None, prefix: str = "") -> Cell:
    """Return a difference with its margin, from the columns with this prefix; a dash without one."""
    if row is None or row[f"{prefix}difference"] is None:
        return Cell(DASH)
    difference, low, high, p_holm = (row[f"{prefix}{name}"] for name in ("difference", "low", "high", "p_holm"))
    mark = ("", UP, DOWN)[significance(difference, p_holm)]
    return Cell(signed(difference), f"±{(high - low) / 2:.{DIGITS}f}{mark}")


METRICS_CROSSED = "table_metrics_crossed"
METRICS_TITLE = "Metric trained and metric judged"
METRICS_CAPTION = (
    "Rows are losses as trained, unbounded and each with the bounding that scores highest on the validation part; "
    "columns are the metrics that judge them on the same test lists. Bold: the mean score of the loss trained for the "
    "metric (nDCG's for nDCG@10). Other cells: the difference from it, bounded minus bounded. For RR and P@k, which "
    f"no loss is trained for, differences are from the {COMMON} loss. {MARKS} Losses that did not train are left out."
)
METRICS_HEADER = ("data set", "trained on", "bounding", *JUDGED)
LABELS = 3


def metrics_block(table: pl.DataFrame) -> TableBlock:
    """Return the table for the report and its files."""
    parts = table.partition_by("dataset", "nsr", "bounded", "loss", "bounding", maintain_order=True)
    rules = changes([part.select("dataset", "nsr", "bounded").row(0) for part in parts])
    return TableBlock(
        METRICS_TITLE, METRICS_CAPTION, METRICS_HEADER, tuple(map(_metrics_row, parts)), LABELS, rules, sortable=True
    )


def _metrics_row(part: pl.DataFrame) -> tuple[Cell, ...]:
    rows = {row["metric"]: row for row in part.iter_rows(named=True)}
    first = next(iter(rows.values()))
    label = DataSet(first["dataset"], first["nsr"]).label
    return (
        *map(Cell, (label, first["loss"], bounding_title(first["bounding"]))),
        *(crossed_cell(rows.get(metric), own=metric in TRAINED_FOR) for metric in JUDGED),
    )


@described(
    SPECS,
    table_metrics_crossed=TableSpec(
        "The metric trained against the metric judged: mean scores of the losses, unbounded and with their best "
        "bounding by validation, on seven metrics, minus those of the loss that is trained for the metric.",
        title="metric trained and metric judged",
        needs=("runs", "epochs"),
        options=("study",),
        section="crossed",
        columns=METRIC_COLUMNS,
        layout=metrics_block,
    ),
)
def make_metrics_crossed(name: str, files: StudyFiles, *, study: str = "thesis") -> pl.DataFrame:
    """Return the table of a study."""
    return metrics_crossed(Evidence(study, files.runs, files.epochs))


RATIOS_TITLE = "Ratio trained and ratio tested"
RATIOS_CAPTION = (
    "Rows are test lists, at one negative sampling ratio, with losses and boundings; columns are the ratios of the "
    "training, and scores are in the metric that judges the loss. Bold: the mean score of training at the ratio of the "
    "test. Other cells: the difference from it, over the test lists that lost no negative because training had seen "
    f"it. {MARKS}"
)
EFFECTS_TITLE = "Effect of bounding by ratio trained and ratio tested"
EFFECTS_CAPTION = (
    f"Bounded minus unbounded, both trained at the ratio of the column and tested at that of the row. {MARKS}"
)


def _ratios_shown(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the scores and the effects of bounding, unless there are none."""
    if len(table := read_table(folder / f"{name}.csv", RATIO_COLUMNS)):
        yield from ratio_blocks(table)


def ratio_blocks(table: pl.DataFrame) -> Iterator[TableBlock]:
    """Yield both tables for the report."""
    ratios = table["nsr_train"].unique().sort().to_list()
    header = ("test lists", "loss", "bounding", *(f"trained at NSR {ratio}" for ratio in ratios))
    bounded = table.filter(pl.col("bounding") != UNBOUNDED)
    for title, caption, rows, cell in (
        (RATIOS_TITLE, RATIOS_CAPTION, table, _ratio_score),
        (EFFECTS_TITLE, EFFECTS_CAPTION, bounded, _ratio_effect),
    ):
        parts = rows.partition_by("dataset", "nsr_test", "loss", "bounding", maintain_order=True)
        rules = changes([part.select("dataset", "nsr_test", "loss").row(0) for part in parts])
        cells = tuple(_ratios_row(part, ratios, cell) for part in parts)
        if table["score"].has_nulls():
            caption = f"{caption} {MARK} did not train."
        yield TableBlock(title, caption, header, cells, LABELS, rules, sortable=True)


def _ratios_row(part: pl.DataFrame, ratios: list[int], cell: Any) -> tuple[Cell, ...]:
    first = part.row(0, named=True)
    of_ratio = {row["nsr_train"]: row for row in part.iter_rows(named=True)}
    labels = (DataSet(first["dataset"], first["nsr_test"]).label, first["loss"], bounding_title(first["bounding"]))
    return (*map(Cell, labels), *(cell(of_ratio.get(ratio)) for ratio in ratios))


def _ratio_score(row: Mapping[str, Any] | None) -> Cell:
    if row is not None and row["score"] is None:
        return Cell(MARK)
    return crossed_cell(row, own=row is not None and row["nsr_train"] == row["nsr_test"])


def _ratio_effect(row: Mapping[str, Any] | None) -> Cell:
    if row is not None and row["score"] is None:
        return Cell(MARK)
    return difference_cell(row, EFFECT)


@described(
    SPECS,
    table_ratios=TableSpec(
        "The ratio of negatives trained against the ratio tested: mean scores of all losses and boundings minus those "
        "of training at the ratio of the test, and the effect of bounding for each pair of ratios.",
        title="ratio trained and ratio tested",
        needs=("runs", "epochs", "experiments", "experiment_epochs"),
        options=("study",),
        section="crossed",
        blocks=_ratios_shown,
    ),
)
def make_ratios(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the table of a study."""
    evidence = Evidence(study, files.runs, files.epochs, files.experiments, files.experiment_epochs)
    table = ratios_crossed(evidence)
    found = list(ratio_blocks(table))
    heading = f"{RATIOS_TITLE}. {RATIOS_CAPTION}"
    texts = TableTexts(render_markdown.tables(heading, found, titled=True), render_latex.tables(RATIOS_TITLE, found))
    return TableFiles(table, texts)


SAMPLINGS_TITLE = "Losses and samplings of negatives"
SAMPLINGS_CAPTION = (
    "Columns are samplings of negatives, those of the test lists last; rows are losses and boundings, in the metric "
    "that judges the loss. Bold: the mean score of popularity, the count of training ratings. Other cells: the "
    f"difference from it on the same lists. {MARKS} An asterisk marks the best bounding of a loss by validation."
)


def samplings_block(table: pl.DataFrame) -> TableBlock:
    """Return the table for the report and its files."""
    sets = [DataSet(*row) for row in table.select("dataset", "nsr").unique(maintain_order=True).rows()]
    parts = table.partition_by("metric", "model", "loss", "bounding", maintain_order=True)
    rows = tuple(_samplings_row(part, sets) for part in parts)
    header = ("judged by", "model or loss", "bounding", *(data_set.label for data_set in sets))
    rules = changes([part["metric"][0] for part in parts])
    return TableBlock(SAMPLINGS_TITLE, SAMPLINGS_CAPTION, header, rows, LABELS, rules, sortable=True)


def _samplings_row(part: pl.DataFrame, sets: list[DataSet]) -> tuple[Cell, ...]:
    first = part.row(0, named=True)
    control = first["loss"] == "none"
    labels = (
        Cell(first["metric"]),
        Cell(first["model"] if control else first["loss"], emphasis=control),
        Cell(DASH if control else bounding_title(first["bounding"])),
    )
    rows = {DataSet(row["dataset"], row["nsr"]): row for row in part.iter_rows(named=True)}
    return (*labels, *(_sampling_cell(rows.get(data_set)) for data_set in sets))


def _sampling_cell(row: dict[str, Any] | None) -> Cell:
    cell = crossed_cell(row, own=row is not None and row["model"] == POPULARITY)
    return replace(cell, text=f"{cell.text}*") if row is not None and row["picked"] else cell


@described(
    SPECS,
    table_samplings=TableSpec(
        "Losses and boundings against the sampling of test negatives: mean scores minus that of popularity, the count "
        "of training ratings, on the same lists.",
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
