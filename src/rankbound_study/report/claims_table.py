"""Lay the table of claims out for Markdown and LaTeX."""

import math
from dataclasses import replace

import polars as pl

from rankbound_study.claims.verdict_table import groups, summary
from rankbound_study.report.blocks import Cell, TableBlock, changes, plain_rows
from rankbound_study.report.table_files import TableTexts, texts_of


def estimate(row: dict[str, object]) -> str:
    """Return the statistic with its interval: `0.012 [0.004, 0.020]`; empty if there is none."""
    value, low, high = row["value"], row["low"], row["high"]
    if not isinstance(value, float):
        return ""
    text = number(value)
    return f"{text} [{number(low)}, {number(high)}]" if isinstance(low, float) and isinstance(high, float) else text


def number(value: float) -> str:
    """Return a number with three significant digits; whole from 1000 up, in scientific notation below 0.0001."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    text = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) >= 0.0001 else f"{value:.1e}"
    return text.replace("-", "−")


def texts(table: pl.DataFrame) -> TableTexts:
    """Return the table's files; LaTeX has one table, without the statistics, for lack of width."""
    count = summary(table)
    heading = f"Claims of the sources and their verdicts. {count}."
    blocks = [_with_statistics(_plain(name, own), own) for name, own in groups(table)]
    return texts_of(heading, blocks)._replace(latex=texts_of("", [_plain("Claims", table)], count).latex)


def _plain(name: str, table: pl.DataFrame) -> TableBlock:
    return TableBlock(
        name,
        summary(table),
        ("Claim", "", "Verdict", "Why"),
        plain_rows(table.select("id", "claim", "verdict", "reason").iter_rows()),
        labels=4,
        rules=changes(table["group"].to_list()),
        prose=frozenset({1, 3}),
    )


def _with_statistics(block: TableBlock, table: pl.DataFrame) -> TableBlock:
    rows = tuple(
        (*label, replace(verdict, strong=True), reason, Cell(_statistic(row)))
        for (*label, verdict, reason), row in zip(block.rows, table.iter_rows(named=True), strict=True)
    )
    return replace(block, header=("claim", "", "verdict", "why", "statistic"), rows=rows, labels=5)


def _statistic(row: dict[str, object]) -> str:
    return f"{row['statistic']}: {estimate(row)}" if estimate(row) else ""
