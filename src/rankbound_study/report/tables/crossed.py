"""Tables of scores away from where a model was trained: other metrics, ratios of negatives, samplings."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from rankbound.compare.comparison import LEVEL
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
from rankbound_study.claims.evidence import Evidence, significance
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.catalogue import Catalogue
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.columns import DASH, Across, Cell, Layout, Row, TableBlock, with_margin
from rankbound_study.report.table_files import TableFiles, TableTexts, latex, markdown
from rankbound_study.report.tables import OF_EXPERIMENTS, OF_STUDY, TableSpec, of_evidence
from rankbound_study.report.tables.table_5_1 import DIGITS, DOWN, UP
from rankbound_study.results.scores import MARK
from rankbound_study.results.study_files import read_table
from rankbound_study.templates import text, titled
from rankbound_study.vocabulary import POPULARITY, UNBOUNDED

FILE = "table_crossed.md"
TABLES = Catalogue(TableSpec, FILE)

_MARKS: dict[str, Any] = {"marks": text(FILE, "marks", up=UP, down=DOWN, level=LEVEL)}


def _difference(row: Row, prefix: str = "") -> Cell:
    """Return a difference with its margin, from the columns with this prefix; a dash without one."""
    difference, low, high, p_holm = (row[f"{prefix}{name}"] for name in ("difference", "low", "high", "p_holm"))
    if difference is None:
        return Cell(DASH)
    return with_margin(difference, low, high, ("", UP, DOWN)[significance(difference, p_holm)])


def _crossed(row: Row, *, own: bool) -> Cell:
    """Return a difference with its margin, or, without one, the mean score: in bold if it is `own`."""
    if row["score"] is None or row["difference"] is not None:
        return _difference(row)
    return Cell(f"{row['score']:.{DIGITS}f}", strong=own)


METRICS_CROSSED = "table_metrics_crossed"
TABLES.add(
    "table_metrics_crossed",
    title="metric trained and metric judged",
    section="crossed",
    columns=METRIC_COLUMNS,
    layout=Layout.of(
        FILE,
        "metrics",
        across=Across(
            ("dataset", "nsr", "bounded", "loss", "bounding"),
            ("metric",),
            {metric: metric for metric in JUDGED},
            lambda row: _crossed(row, own=row["metric"] in TRAINED_FOR),
        ),
        common=COMMON,
        **_MARKS,
    ),
    **OF_STUDY,
)(of_evidence(metrics_crossed))


def ratio_blocks(table: pl.DataFrame) -> Iterator[TableBlock]:
    """Yield the scores and the effects of bounding; nothing without any."""
    if table.is_empty():
        return

    def score(row: Row) -> Cell:
        return Cell(MARK) if row["score"] is None else _crossed(row, own=row["nsr_train"] == row["nsr_test"])

    def effect(row: Row) -> Cell:
        return Cell(MARK) if row["score"] is None else _difference(row, EFFECT)

    titles = {ratio: f"trained at NSR {ratio}" for ratio in table["nsr_train"].unique().sort()}
    untrained = f" {MARK} did not train." if table["score"].has_nulls() else ""
    bounded = table.filter(pl.col("bounding") != UNBOUNDED)
    for piece, rows, write in (("ratios", table, score), ("ratio-effects", bounded, effect)):
        across = Across(("dataset", "nsr_test", "loss", "bounding"), ("nsr_train",), titles, write)
        layout = Layout.of(FILE, piece, across=across, **_MARKS)
        yield layout(rows, caption=f"{layout.caption}{untrained}")


@TABLES.add(
    "table_ratios",
    title="ratio trained and ratio tested",
    section="crossed",
    blocks=lambda name, folder: ratio_blocks(read_table(folder / f"{name}.csv", RATIO_COLUMNS)),
    **OF_EXPERIMENTS,
)
@of_evidence
def _ratios(evidence: Evidence) -> TableFiles:
    table = ratios_crossed(evidence)
    blocks = list(ratio_blocks(table))
    name, caption = titled(FILE, "ratios", **_MARKS)
    texts = TableTexts(markdown(f"{name} {caption}", blocks, titled=True), latex(name.removesuffix("."), blocks))
    return TableFiles(table, texts)


def samplings_block(table: pl.DataFrame) -> TableBlock:
    """Return the table, with a column for each sampling that it has."""
    titles = {row: DataSet(*row).label for row in table.select("dataset", "nsr").unique(maintain_order=True).rows()}

    def score(row: Row) -> Cell:
        cell = _crossed(row, own=row["model"] == POPULARITY)
        return replace(cell, text=f"{cell.text}*") if row["picked"] else cell

    return Layout.of(
        FILE,
        "samplings",
        across=Across(("metric", "model", "loss", "bounding"), ("dataset", "nsr"), titles, score),
        formats={
            "trained": lambda model, loss: Cell(model, emphasis=True) if loss == "none" else loss,
            "bound": lambda loss, bounding: DASH if loss == "none" else bounding_title(bounding),
        },
        **_MARKS,
    )(table)


TABLES.add(
    "table_samplings",
    title="losses and samplings",
    section="evaluation",
    columns=SAMPLING_COLUMNS,
    layout=samplings_block,
    **OF_STUDY,
)(of_evidence(against_popularity))
