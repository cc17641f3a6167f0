"""Lay the table of claims out for Markdown and LaTeX."""

import math
from typing import Any

import polars as pl

from rankbound_study.claims.verdicts import groups, summary
from rankbound_study.report.columns import Cell, Column, Layout
from rankbound_study.report.table_files import TableTexts, latex, markdown

FILE = "table_claims.md"


def estimate(row: dict[str, Any]) -> str:
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


_WITH_STATISTICS = Layout.of(
    FILE,
    "with-statistics",
    formats={
        "verdict": lambda verdict: Cell(verdict, strong=True),
        "statistic": Column("", None, lambda row: f"{row['statistic']}: {estimate(row)}" if estimate(row) else ""),
    },
)


def texts(table: pl.DataFrame) -> TableTexts:
    """Return the table's files; LaTeX has one table, without the statistics, for lack of width."""
    count = summary(table)
    blocks = [_WITH_STATISTICS(own, name=name) for name, own in groups(table)]
    heading = f"Claims of the sources and their verdicts. {count}."
    return TableTexts(markdown(heading, blocks, titled=True), latex(count, [Layout.of(FILE, "in-latex")(table)]))
