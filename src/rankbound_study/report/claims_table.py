"""The table of claims as Markdown and LaTeX."""

import math
from dataclasses import replace

import polars as pl

from rankbound_study.claims.verdict_table import summary
from rankbound_study.report import render_latex, render_markdown
from rankbound_study.report.blocks import Cell, TableBlock, plain_rows
from rankbound_study.report.table_files import TableTexts


def estimate(row: dict[str, object]) -> str:
    """The statistic with its interval: `0.012 [0.004, 0.020]`."""
    value, low, high = row["value"], row["low"], row["high"]
    if not isinstance(value, float):
        return ""
    text = number(value)
    return f"{text} [{number(low)}, {number(high)}]" if isinstance(low, float) and isinstance(high, float) else text


def number(value: float) -> str:
    """Three significant digits below one, four places at most."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    text = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) >= 0.0001 else f"{value:.1e}"
    return text.replace("-", "−")


def texts(table: pl.DataFrame) -> TableTexts:
    """Return the table's files; only the Markdown has the statistics, for which a page of LaTeX is too narrow."""
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
        render_markdown.tables(f"Claims of the sources and what became of them. {count}.", [markdown]),
        render_latex.tables(count, [latex]),
    )


def _statistic(row: dict[str, object]) -> str:
    return f"{row['statistic']}: {estimate(row)}" if estimate(row) else ""
