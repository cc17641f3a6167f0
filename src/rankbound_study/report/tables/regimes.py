"""Tabulate where bounding helps: a row per regime, loss and bounding, with the effect and its interval."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from rankbound_study.claims.effects import REGIME_COLUMNS, regimes
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.blocks import TableBlock, changes, plain_rows
from rankbound_study.report.table_files import TableFiles, plain_texts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, signed
from rankbound_study.results.specs import StudyFiles
from rankbound_study.results.trained import MARK

SPECS = {
    "table_regimes": TableSpec(
        "Effect of bounding by regime: planted parameters of generated data, capacity of the model, coefficient of "
        "variation of the lists' influence, and the change in the mean score with its 95 % interval over users and "
        "trainings.",
        title="effect of bounding by regime",
        needs=("runs", "epochs", "experiments", "experiment_epochs"),
        options=("study", "planted"),
        section="regimes",
    )
}
TITLE = "Effect of bounding by regime"
CAPTION = (
    "Bounded minus unbounded, in the mean of the metric that judges the loss, with a 95 % interval (bootstrap over "
    "users and seeds), and the same for the users with fewer relevant items than the median and for all others. Spread "
    "is the planted standard deviation of log P, correlation that of list size and kind of taste; a dash marks real "
    "data. CV is the coefficient of variation of a list's influence, the range of its loss over all orders. † marks "
    "effects with trainings that did not train."
)
HEADER = (
    *("data set", "spread", "correlation", "factors / rank", "loss", "bounding", "CV", "mean P(N − P)"),
    *("unbounded", "effect", "95 % interval", "short lists", "long lists"),
)
LABELS = 6


def make(
    name: str,
    files: StudyFiles,
    *,
    study: str = "thesis",
    planted: Mapping[str, Mapping[str, float]] | None = None,
) -> TableFiles:
    """Return the table of a study; `planted` are the parameters of its generated data sets, by name."""
    table = regimes(files, study, planted or {})
    return TableFiles(table, plain_texts(block(table)))


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the table, unless it is empty."""
    if len(table := read_table(folder / f"{name}.csv", REGIME_COLUMNS)):
        yield block(table)


def block(table: pl.DataFrame) -> TableBlock:
    """Return the table for the report and its files."""
    regime = table.select("dataset", "nsr", "factors").rows()
    return TableBlock(TITLE, CAPTION, HEADER, plain_rows(_cells(table)), LABELS, changes(regime), sortable=True)


def _cells(table: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in table.iter_rows(named=True):
        planted = (DASH if row[name] is None else f"{row[name]:g}" for name in ("spread", "correlation"))
        capacity = DASH if row["factors"] is None else f"{row['factors']} / {row['rank'] or DASH}"
        label = DataSet(row["dataset"], row["nsr"]).label
        effect = signed(row["effect"]) + MARK * bool(row["n_untrained"])
        facts = (f"{row['influence_cv']:.2f}", f"{row['pairs']:.0f}", f"{row['unbounded']:.4f}")
        interval = f"{signed(row['low'])} to {signed(row['high'])}"
        halves = (signed(row[name]) for name in ("effect_short", "effect_long"))
        yield label, *planted, capacity, row["loss"], row["bounding"], *facts, effect, interval, *halves
