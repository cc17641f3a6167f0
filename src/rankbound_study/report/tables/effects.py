"""The effects of bounding: every distinct cell of Table 5.1, and the mean effects over cells."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound_study.claims.effects import CELL_COLUMNS, EVERY, MEAN_COLUMNS, MEANS, NAME, cells_table, means_table
from rankbound_study.claims.evidence import Evidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.blocks import Cell, TableBlock, changes
from rankbound_study.report.table_files import TableFiles, plain_texts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, signed
from rankbound_study.results.specs import StudyFiles

SECTION = "effects"

SPECS = {
    NAME: TableSpec(
        "The effects of bounding: bounded minus unbounded in every distinct cell of Table 5.1, with intervals and "
        "noise margins, and the mean effects over cells by a random-effects model.",
        title="the effects of bounding",
        needs=("runs", "epochs"),
        options=("study",),
        beside=(".md", ".tex", "_means.csv"),
        section=SECTION,
    )
}

CAPTION = (
    "Bounded minus unbounded, in the metric that judges the loss, with the 95 % interval over topics and trainings. "
    "The margin is that of noise between two trainings of one system; without several seeds there is none. Bold: "
    "significant (Holm, all cells); italics: alike within the margin. The affine bounds of nRBP train one model, and "
    "min-max stands for all three. Models that did not train are left out."
)
HEADER = ("data set", "loss", "bounding", "effect", "95 % interval", "margin", "p (Holm)")
MEANS_CAPTION = (
    "Every cell has the same weight. Cells share topics and trainings, so the interval of a mean uses the covariance "
    "of their errors (a bootstrap) and the variance of true effects between cells (method of moments, t interval). The "
    "last column has the interval for the effect in a new cell. The data sets are too few for a variance between data "
    "sets: a new cell is one on data like these. Of two readings of the same queries, means contain one."
)
MEANS_HEADER = ("bounds", "loss", "cells", "mean effect", "95 % interval", "SD between cells", "effect in a new cell")


def make(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without cells they have no rows."""
    from rankbound_study.claims.effects import effects

    found = effects(Evidence(study, files.runs, files.epochs))
    table = cells_table(found)
    return TableFiles(table, plain_texts(block(table)), {"_means.csv": means_table(found)})


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the mean effects and the cells, unless there are none."""
    table = read_table(folder / f"{name}.csv", CELL_COLUMNS)
    means = read_table(folder / f"{MEANS}.csv", MEAN_COLUMNS)
    if len(means):
        yield means_block(means)
    if len(table):
        yield block(table)


def block(table: pl.DataFrame) -> TableBlock:
    """Return the table of the cells."""
    rows = tuple(map(_cells, table.iter_rows(named=True)))
    rules = changes(table["loss"].to_list())
    return TableBlock("Effects of bounding", CAPTION, HEADER, rows, 3, rules, sortable=True)


def means_block(means: pl.DataFrame) -> TableBlock:
    """Return the table of the mean effects."""
    rows = tuple(
        (
            Cell(row["bounds"]),
            Cell("all losses" if row["loss"] == EVERY else row["loss"]),
            Cell(str(row["n"])),
            Cell(signed(row["mean"]), strong=row["low"] > 0 or row["high"] < 0),
            Cell(_range(row["low"], row["high"])),
            Cell(f"{row['between']:.4f}"),
            Cell(_range(row["new_low"], row["new_high"])),
        )
        for row in means.iter_rows(named=True)
    )
    return TableBlock("Mean effects", MEANS_CAPTION, MEANS_HEADER, rows, 2, changes(means["bounds"].to_list()))


def _cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    return (
        Cell(DataSet(row["dataset"], row["nsr"]).label),
        Cell(row["loss"]),
        Cell(row["bounding"]),
        Cell(signed(row["effect"]), strong=row["p_holm"] <= LEVEL, emphasis=row["alike"]),
        Cell(_range(row["low"], row["high"])),
        Cell(DASH if row["margin"] is None else f"{row['margin']:.4f}"),
        Cell(f"{row['p_holm']:.4f}"),
    )


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return DASH
    return f"{signed(low)} to {signed(high)}"
