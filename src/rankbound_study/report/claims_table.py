"""The table of claims as Markdown and LaTeX."""

import math

import polars as pl

from rankbound_study.claims.verdict_table import summary
from rankbound_study.report.latex_text import escaped


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


def markdown(table: pl.DataFrame) -> str:
    """A pipe table below a line that counts the verdicts."""
    lines = [f"Claims of the sources and what became of them. {summary(table)}.", ""]
    lines += ["| claim | | verdict | why | statistic |", "|---|---|---|---|---|"]
    for row in table.iter_rows(named=True):
        told = f"{row['statistic']}: {estimate(row)}" if estimate(row) else ""
        cells = [row["id"], row["claim"], f"**{row['verdict']}**", row["reason"], told]
        lines.append(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def latex(table: pl.DataFrame) -> str:
    r"""A `longtable` for `booktabs`, to be put in with `\input`."""
    lines = [f"% {summary(table)}", r"\begin{longtable}{lp{0.35\linewidth}lp{0.4\linewidth}}", r"\toprule"]
    lines += [r"Claim & & Verdict & Why \\", r"\midrule", r"\endhead"]
    for row in table.iter_rows(named=True):
        lines.append(" & ".join(escaped(row[name]) for name in ("id", "claim", "verdict", "reason")) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{longtable}"]) + "\n"
