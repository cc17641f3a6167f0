"""Lay out Table 5.1 as in the thesis: a row per loss and bounding, a column per data set.

Each mean has a note: the printed mean (published protocol) or its margin (honest protocol).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from rankbound.compare.margins import LEVEL, TIE
from rankbound_study.claims.cells import SIGNIFICANT, is_distinct, significance
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import read_table as read_contract
from rankbound_study.figures.style import bounding_title
from rankbound_study.jobs.files import RATES
from rankbound_study.report import render_latex, render_markdown, table_5_1_summary
from rankbound_study.report.blocks import Cell, TableBlock, changes
from rankbound_study.report.table_5_1_scores import METRICS, table_5_1
from rankbound_study.report.table_files import TableFiles, TableTexts
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH
from rankbound_study.results import scores
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.specs import StudyFiles, described
from rankbound_study.results.trained import MARK, UNTRAINED
from rankbound_study.vocabulary import HONEST, LOSSES, PUBLISHED, UNBOUNDED

SPECS: dict[str, TableSpec] = {}

_CAPTION = (
    "Mean score by loss and bounding (rows) and data set (columns): the printed value, ours, and the difference. "
    "Models are scored by the metric that they were trained for (nRBP with p = 0.95), per topic and then averaged over "
    "topics. Lists without a relevant item have no score: they are left out and counted. Random ordering, oracle and "
    "popularity are the controls."
)
_FILES = (".md", ".tex", "_summary.json")
DIGITS = 4
"""Decimals of a score, as in the thesis."""

UP, DOWN = "▲", "▼"
BESIDE = {
    False: "(printed)",
    True: f"± half of the 95 % interval, {UP} significantly better and {DOWN} significantly worse than unbounded",
}


def is_honest(table: pl.DataFrame) -> bool:
    """Return True if the table is of the honest protocol, whose means have margins instead of printed scores."""
    return bool(len(table)) and table["protocol"][0] == HONEST


def block(table: pl.DataFrame, protocol: str) -> TableBlock:
    """Return the table for the report; bold and italic type are computed from our numbers."""
    sets = scores.data_sets(table.rename({"nsr": "nsr_test"}))
    losses = [loss for loss in METRICS if loss in table["loss"]] or METRICS
    rows = [row for loss in losses for metric in METRICS[loss] for row in _rows(table, sets, loss, metric)]
    beside = "The thesis' score is in small type. " if table["published"].count() else ""
    if is_honest(table):
        beside = (
            "In small type: half of the 95 % interval over topics and trainings, with an arrow if a bounded loss ranks "
            f"significantly better or worse than the unbounded one ({SIGNIFICANT}); rows of nRBP(p=0.8) and "
            "nRBP(p=0.9) are not tested. "
        )
    return TableBlock(
        "Table 5.1",
        f"Mean score over the test lists, {protocol}. {beside}Bold: highest of its loss; italic: above the unbounded "
        f"loss. {_on_untrained(table)}Controls are not trained.",
        ("trained on", "bounding", "scored by", *(data_set.label for data_set in sets)),
        tuple(rows),
        labels=3,
        rules=frozenset({0}) | changes([metric.text for _, _, metric, *_ in rows]),
        sortable=True,
    )


def _on_untrained(table: pl.DataFrame) -> str:
    """Explain the mark of cells that did not train; empty if there are none."""
    if table.filter(UNTRAINED).is_empty():
        return ""
    return f"{MARK} did not train, or some of its trainings did not: neither compared with the others nor tested. "


def texts(table: pl.DataFrame) -> TableTexts:
    """Return the table's files."""
    protocol = table["protocol"][0] if len(table) else None
    beside = BESIDE[is_honest(table)]
    report = block(table, "")
    markdown, latex = (
        replace(report, header=(*titles, *report.header[3:]))
        for titles in (("loss", "bounding or control", "metric"), ("Loss", "Bounding", "Metric"))
    )
    heading = (
        f"Table 5.1 — {scores.PROTOCOLS[protocol] if protocol else 'no runs'}."
        f" Ours {beside}; **highest of its loss**, *above unbounded*. {_on_untrained(table)}"
    ).rstrip()
    comment = f"Table 5.1, {protocol or 'no'} protocol: ours {beside}"
    return TableTexts(render_markdown.tables(heading, [markdown]), render_latex.tables(comment, [latex], dash=DASH))


def _rows(table: pl.DataFrame, sets: list[DataSet], loss: str, metric: str) -> Iterator[tuple[Cell, ...]]:
    of_metric = table.filter(pl.col("metric") == metric)
    trained = of_metric.filter(pl.col("loss") == loss)
    controls = of_metric.filter(pl.col("loss") == "none")
    names = scores.boundings(trained)
    cells = {(row["dataset"], row["nsr"], row["bounding"]): row for row in trained.iter_rows(named=True)}
    best = {
        data_set: _best(cells[place] for name in names if (place := (*data_set, name)) in cells) for data_set in sets
    }
    for name in names:
        row = []
        for data_set in sets:
            own = cells.get((*data_set, name))
            base = cells.get((*data_set, "none"))
            row.append(_cell(own, None if base is None or base["n_untrained"] else base["ours"], best[data_set]))
        yield Cell(loss), Cell(bounding_title(name)), Cell(metric), *row
    values = {(row["dataset"], row["nsr"], row["model"]): row for row in controls.iter_rows(named=True)}
    for model in sorted(controls["model"].unique()):
        row = [_cell(values.get((*data_set, model)), None, None) for data_set in sets]
        yield Cell("control", emphasis=True), Cell(model), Cell(metric), *row


def _best(of_loss: Iterable[dict[str, Any]]) -> float | None:
    """Return the highest score of the cells that trained; None if there are fewer than two."""
    known = [row["ours"] for row in of_loss if row["ours"] is not None and not row["n_untrained"]]
    return max(known) if len(known) > 1 else None


def _cell(row: dict[str, object] | None, base: object, best: float | None) -> Cell:
    if row is None or not isinstance(row["ours"], float):
        return Cell(DASH)
    ours = row["ours"]
    if row["n_untrained"]:
        return Cell(f"{ours:.{DIGITS}f}{MARK}", _note(row))
    return Cell(
        f"{ours:.{DIGITS}f}",
        _note(row),
        strong=best is not None and round(ours, DIGITS) == round(best, DIGITS),
        emphasis=isinstance(base, float) and round(ours, DIGITS) > round(base, DIGITS),
    )


def _note(row: dict[str, object]) -> str:
    """Return the printed mean or (honest protocol) the margin, with an arrow if the change is significant."""
    published, margin = row["published"], row["margin"]
    if row["protocol"] != HONEST:
        return f"{published:.{DIGITS}f}" if isinstance(published, float) and row["as_printed"] else ""
    side = significance(_number(row["change"]), _number(row["p_holm"]))
    return f"±{margin:.{DIGITS}f}{('', UP, DOWN)[side]}" if isinstance(margin, float) else ""


def _number(value: object) -> float | None:
    return value if isinstance(value, float) else None


@described(
    SPECS,
    table_5_1=TableSpec(
        _CAPTION,
        title="5.1",
        needs=("runs",),
        uses=("epochs",),
        options=("protocol", "study", "model"),
        beside=_FILES,
        metrics=True,
        section="",
    ),
    table_5_1_honest=TableSpec(
        _CAPTION,
        {"protocol": HONEST},
        title="5.1, honest protocol",
        needs=("runs",),
        uses=("epochs",),
        options=("study", "model"),
        beside=_FILES,
        section="",
    ),
)
def make_table_5_1(name: str, files: StudyFiles, **options: str) -> TableFiles:
    """Return the table with its summary and its means."""
    assert files.runs is not None
    table = table_5_1(files.runs, RunsChoice(**options), files.epochs)
    summary, metrics = table_5_1_summary.summarise(table), table_5_1_summary.metrics(table)
    return TableFiles(table, texts(table), {"_summary.json": summary}, metrics)


SIGNS = "table_signs"
_CELL = ("dataset", "nsr", "loss", "bounding")
_CHANGES = ("published", "lowest_rate", "honest")
SIGN_COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("loss", "bounding"), pl.String()),
    **dict.fromkeys((*_CHANGES, "p_published", "p_honest"), pl.Float64()),
}
SIGNS_TITLE = "Signs under both protocols"
SIGNS_CAPTION = (
    "Distinct cells whose mean difference from the unbounded loss has another sign by the honest protocol than by the "
    "published one, and the step that changes it: to the honest protocol at the lowest rate of its grid (selection of "
    "epochs, training part, seeds), or from there to the selected rates. There and back: cells whose sign changes in "
    "both steps. The last column counts those that are significant with opposite signs (Holm)."
)
SIGNS_HEADER = ("loss", "cells", "other sign", "by protocol", "by rate", "there and back", "significantly")


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
    return table.filter(pl.Series(distinct, dtype=pl.Boolean)).select(*SIGN_COLUMNS).cast(SIGN_COLUMNS)  # type: ignore[arg-type]


def signs_block(table: pl.DataFrame) -> TableBlock:
    """Return the counts by loss, and of all cells."""
    groups = {loss: table.filter(pl.col("loss") == loss) for loss in LOSSES} | {"all": table}
    rows = tuple((Cell(loss), *map(Cell, _counts(own))) for loss, own in groups.items() if len(own))
    return TableBlock(SIGNS_TITLE, SIGNS_CAPTION, SIGNS_HEADER, rows, 1, frozenset({len(rows) - 1}))


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


@described(
    SPECS,
    table_signs=TableSpec(
        "The effect of bounding in each distinct cell by the published protocol, by the honest protocol at the lowest "
        "rate of its grid, and by the honest protocol at the selected rates, with the cells that change signs.",
        title="signs of effects under both protocols",
        needs=("runs", "rates"),
        uses=("epochs",),
        options=("study",),
        columns=SIGN_COLUMNS,
        layout=signs_block,
    ),
)
def make_signs(name: str, files: StudyFiles, *, study: str = "thesis") -> pl.DataFrame:
    """Return the table of a study; without runs of both protocols it has no rows."""
    assert files.runs is not None
    assert files.rates is not None
    published, honest = (table_5_1(files.runs, RunsChoice(one, study), files.epochs) for one in (PUBLISHED, HONEST))
    rates = pl.from_arrow(read_contract(files.rates, RATES))
    assert isinstance(rates, pl.DataFrame)
    return signs(published, honest, rates.filter(pl.col("study") == study, pl.col("protocol") == HONEST))
