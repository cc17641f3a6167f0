"""Lay the table of claims out for Markdown and LaTeX."""

import math
from dataclasses import replace

import polars as pl

from rankbound_study.claims.verdict_table import summary
from rankbound_study.report import render_latex, render_markdown
from rankbound_study.report.blocks import Cell, TableBlock, plain_rows
from rankbound_study.report.table_files import TableTexts


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
    """Return the table's files; LaTeX omits the statistics, for lack of width."""
    count = summary(table)
    latex = TableBlock(
        "Claims",
        count,
        ("Claim", "", "Verdict", "Why"),
        plain_rows(table.select("id", "claim", "verdict", "reason").iter_rows()),
        labels=4,
        prose=frozenset({1, 3}),
    )
    markdown = replace(
        latex,
        header=("claim", "", "verdict", "why", "statistic"),
        rows=tuple(
            (*label, replace(verdict, strong=True), reason, Cell(_statistic(row)))
            for (*label, verdict, reason), row in zip(latex.rows, table.iter_rows(named=True), strict=True)
        ),
        labels=5,
    )
    return TableTexts(
        render_markdown.tables(f"Claims of the sources and their verdicts. {count}.", [markdown]),
        render_latex.tables(count, [latex]),
    )


def _statistic(row: dict[str, object]) -> str:
    return f"{row['statistic']}: {estimate(row)}" if estimate(row) else ""
