"""Tabulate cells whose effect of bounding changes its sign between the protocols, by what changes it.

The way from the published to the honest protocol has two steps: the honest protocol at the lowest rate of its grid,
which is the nearest to the published one, and then the rates that the folds select.
"""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rankbound.compare.margins import LEVEL, TIE
from rankbound_study.claims.cells import is_distinct
from rankbound_study.data.contracts import read_table as read_contract
from rankbound_study.jobs.files import RATES
from rankbound_study.report.blocks import Cell, TableBlock
from rankbound_study.report.table_5_1_scores import table_5_1
from rankbound_study.report.table_files import TableFiles, plain_texts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import HONEST, LOSSES, PUBLISHED, UNBOUNDED

NAME = "table_signs"

SPECS = {
    NAME: TableSpec(
        "The effect of bounding in each distinct cell by the published protocol, by the honest protocol at the lowest "
        "rate of its grid, and by the honest protocol at the selected rates, with the cells that change signs.",
        title="signs of effects under both protocols",
        needs=("runs", "rates"),
        uses=("epochs",),
        options=("study",),
    )
}

_CELL = ("dataset", "nsr", "loss", "bounding")
_CHANGES = ("published", "lowest_rate", "honest")
COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("loss", "bounding"), pl.String()),
    **dict.fromkeys((*_CHANGES, "p_published", "p_honest"), pl.Float64()),
}

TITLE = "Signs under both protocols"
CAPTION = (
    "Distinct cells whose mean difference from the unbounded loss has another sign by the honest protocol than by the "
    "published one, and the step that changes it: to the honest protocol at the lowest rate of its grid (selection of "
    "epochs, training part, seeds), or from there to the selected rates. There and back: cells whose sign changes in "
    "both steps. The last column counts those that are significant with opposite signs (Holm)."
)
HEADER = ("loss", "cells", "other sign", "by protocol", "by rate", "there and back", "significantly")


def make(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the table of a study; without runs of both protocols it has no rows."""
    assert files.runs is not None
    assert files.rates is not None
    published, honest = (table_5_1(files.runs, RunsChoice(one, study), files.epochs) for one in (PUBLISHED, HONEST))
    rates = pl.from_arrow(read_contract(files.rates, RATES))
    assert isinstance(rates, pl.DataFrame)
    table = signs(published, honest, rates.filter(pl.col("study") == study, pl.col("protocol") == HONEST))
    return TableFiles(table, plain_texts(block(table)))


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the counts, unless there are none."""
    if len(table := read_table(folder / f"{name}.csv", COLUMNS)):
        yield block(table)


def signs(published: pl.DataFrame, honest: pl.DataFrame, rates: pl.DataFrame) -> pl.DataFrame:
    """Return a row per distinct cell of Table 5.1 that both protocols have.

    Args:
        published, honest: Table 5.1 by each protocol.
        rates: the scores of all rates of the honest protocol's grids.
    """
    columns = [_changes(published, PUBLISHED), _changes(honest, HONEST)]
    both = columns[0].join(columns[1], on=_CELL, nulls_equal=True, maintain_order="left")
    table = both.join(_at_lowest_rate(rates), on=_CELL, how="left", nulls_equal=True, maintain_order="left")
    distinct = [is_distinct(*row) for row in table.select("loss", "bounding").rows()]
    return table.filter(pl.Series(distinct, dtype=pl.Boolean)).select(*COLUMNS).cast(COLUMNS)  # type: ignore[arg-type]


def block(table: pl.DataFrame) -> TableBlock:
    """Return the counts by loss, and of all cells."""
    groups = {loss: table.filter(pl.col("loss") == loss) for loss in LOSSES} | {"all": table}
    rows = tuple((Cell(loss), *map(Cell, _counts(own))) for loss, own in groups.items() if len(own))
    return TableBlock(TITLE, CAPTION, HEADER, rows, 1, frozenset({len(rows) - 1}))


def _changes(table: pl.DataFrame, protocol: str) -> pl.DataFrame:
    cells = table.filter(pl.col("as_printed"), pl.col("change").is_not_null())
    return cells.select(*_CELL, pl.col("change").alias(protocol), pl.col("p_holm").alias(f"p_{protocol}"))


def _at_lowest_rate(rates: pl.DataFrame) -> pl.DataFrame:
    """Return bounded minus unbounded test scores, means over folds, at the lowest rate of each data set's grid."""
    named = rates.rename({"nsr_test": "nsr"})
    lowest = named.filter(pl.col("learning_rate") == pl.col("learning_rate").min().over("dataset", "nsr"))
    means = lowest.group_by(_CELL).agg(pl.col("test_score").mean())
    usual = means.filter(pl.col("bounding") == UNBOUNDED).select(*_CELL[:3], pl.col("test_score").alias("usual"))
    beside = means.join(usual, on=_CELL[:3], nulls_equal=True)
    return beside.select(*_CELL, (pl.col("test_score") - pl.col("usual")).alias("lowest_rate"))


def _counts(table: pl.DataFrame) -> Iterator[str]:
    published, lowest, honest = (_sign(name) for name in _CHANGES)
    other = table.filter(published * honest < 0)
    yield str(len(table))
    yield str(len(other))
    if table["lowest_rate"].is_null().all():
        yield from (DASH, DASH, DASH)
    else:
        yield str(other.filter(published * lowest < 0).height)
        yield str(other.filter(lowest * honest < 0).height)
        yield str(table.filter(published * lowest < 0, lowest * honest < 0).height)
    yield str(other.filter(pl.col("p_published") <= LEVEL, pl.col("p_honest") <= LEVEL).height)


def _sign(change: str) -> pl.Expr:
    """Return -1, 0 or 1; differences due to rounding are 0."""
    return pl.when(pl.col(change).abs() > TIE).then(pl.col(change).sign()).otherwise(0.0)
