"""Lay out Table 5.1 as in the thesis: a row per loss and bounding, a column per data set.

Each mean has a note: the printed mean (published protocol) or its margin (honest protocol).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from rankbound.compare.margins import LEVEL, TIE
from rankbound_study.claims.cells import SIGNIFICANT, is_distinct, significance
from rankbound_study.data.contracts import read_table as read_contract
from rankbound_study.figures.style import bounding_title
from rankbound_study.jobs.files import RATES
from rankbound_study.report.blocks import Cell, TableBlock
from rankbound_study.report.columns import DASH, Across, Column, Layout, Row
from rankbound_study.report.prose import text
from rankbound_study.report.table_5_1_scores import METRICS, metrics, summarise, table_5_1
from rankbound_study.report.table_files import TableFiles, TableTexts, texts_of
from rankbound_study.report.tables import TableSpec
from rankbound_study.results import scores
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.specs import StudyFiles, described
from rankbound_study.results.trained import MARK, UNTRAINED
from rankbound_study.vocabulary import HONEST, LOSSES, PUBLISHED, UNBOUNDED

FILE = "table_5_1.md"
SPECS: dict[str, TableSpec] = {}

_CAPTION = text(FILE, "table-5-1")
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
    layout = Layout(
        "Table 5.1",
        text(
            FILE,
            "block",
            protocol=protocol,
            printed=table["published"].count() and not is_honest(table),
            significant=SIGNIFICANT if is_honest(table) else "",
            untrained=_on_untrained(table),
        ),
        (
            Column("trained on", "loss", lambda loss: Cell("control", emphasis=True) if loss == "none" else loss),
            Column("bounding", "name"),
            Column("scored by", "metric"),
        ),
        labels=3,
        rules=("metric",),
        sortable=True,
        across=Across(
            ("loss", "name", "metric"),
            ("dataset", "nsr"),
            {tuple(one): one.label for one in scores.data_sets(table.rename({"nsr": "nsr_test"}))},
            _cell,
        ),
    )
    losses = [loss for loss in METRICS if loss in table["loss"]] or METRICS
    rows = [row for loss in losses for metric in METRICS[loss] for row in _rows(table, loss, metric)]
    block = layout.of_rows(rows)
    return replace(block, rules=block.rules | {0})


def _on_untrained(table: pl.DataFrame) -> str:
    """Explain the mark of cells that did not train; empty if there are none."""
    if table.filter(UNTRAINED).is_empty():
        return ""
    return text(FILE, "untrained", mark=MARK)


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
    in_latex = texts_of("", [latex], comment, dash=DASH).latex
    return texts_of(heading, [markdown], titled=False)._replace(latex=in_latex)


def _rows(table: pl.DataFrame, loss: str, metric: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a loss and then the controls, each with the best and the unbounded score that compare with it.

    Scores of cells that did not train are not compared; with fewer than two others there is no best one.
    """
    of_metric = table.filter(pl.col("metric") == metric)
    trained = of_metric.filter(pl.col("loss") == loss)
    places = {name: place for place, name in enumerate(scores.boundings(trained))}
    cells = sorted(trained.to_dicts(), key=lambda row: places[row["bounding"]])
    for row in cells:
        of_set = [one for one in cells if (one["dataset"], one["nsr"]) == (row["dataset"], row["nsr"])]
        known = {one["bounding"]: one["ours"] for one in of_set if one["ours"] is not None and not one["n_untrained"]}
        best = max(known.values()) if len(known) > 1 else None
        yield row | {"name": bounding_title(row["bounding"]), "best": best, "base": known.get("none")}
    for row in of_metric.filter(pl.col("loss") == "none").sort("model", maintain_order=True).iter_rows(named=True):
        yield row | {"name": row["model"], "best": None, "base": None}


def _cell(row: Row) -> Cell:
    ours, best, base = row["ours"], row["best"], row["base"]
    if ours is None:
        return Cell(DASH)
    if row["n_untrained"]:
        return Cell(f"{ours:.{DIGITS}f}{MARK}", _note(row))
    return Cell(
        f"{ours:.{DIGITS}f}",
        _note(row),
        strong=best is not None and round(ours, DIGITS) == round(best, DIGITS),
        emphasis=base is not None and round(ours, DIGITS) > round(base, DIGITS),
    )


def _note(row: Row) -> str:
    """Return the printed mean or (honest protocol) the margin, with an arrow if the change is significant."""
    published, margin = row["published"], row["margin"]
    if row["protocol"] != HONEST:
        return f"{published:.{DIGITS}f}" if published is not None and row["as_printed"] else ""
    side = significance(row["change"], row["p_holm"])
    return f"±{margin:.{DIGITS}f}{('', UP, DOWN)[side]}" if margin is not None else ""


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
    return TableFiles(table, texts(table), {"_summary.json": summarise(table)}, metrics(table))


SIGNS = "table_signs"
_CELL = ("dataset", "nsr", "loss", "bounding")
_CHANGES = ("published", "lowest_rate", "honest")
SIGN_COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("loss", "bounding"), pl.String()),
    **dict.fromkeys((*_CHANGES, "p_published", "p_honest"), pl.Float64()),
}
SIGNS_LAYOUT = Layout(
    "Signs under both protocols",
    text(FILE, "signs-layout"),
    tuple(
        Column(title)
        for title in ("loss", "cells", "other sign", "by protocol", "by rate", "there and back", "significantly")
    ),
    labels=1,
)


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
    block = SIGNS_LAYOUT.of_rows([{"loss": loss, **_counts(own)} for loss, own in groups.items() if len(own)])
    return replace(block, rules=frozenset({len(block.rows) - 1}))


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


def _counts(table: pl.DataFrame) -> dict[str, int | None]:
    published, lowest, honest = (_sign(name) for name in _CHANGES)
    other = table.filter(published * honest < 0)
    known = not table["lowest_rate"].is_null().all()
    return {
        "cells": len(table),
        "other sign": len(other),
        "by protocol": other.filter(published * lowest < 0).height if known else None,
        "by rate": other.filter(lowest * honest < 0).height if known else None,
        "there and back": table.filter(published * lowest < 0, lowest * honest < 0).height if known else None,
        "significantly": other.filter(pl.col("p_published") <= LEVEL, pl.col("p_honest") <= LEVEL).height,
    }


def _sign(change: str) -> pl.Expr:
    """Return -1, 0 or 1; differences due to rounding are 0."""
    return pl.when(pl.col(change).abs() > TIE).then(pl.col(change).sign()).otherwise(0.0)


@described(
    SPECS,
    table_signs=TableSpec(
        text(FILE, "table-signs"),
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
