"""The table of claims with their verdicts: as a frame, and for Markdown and LaTeX."""

import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import polars as pl

from rankbound.claims.registry import Claim
from rankbound.claims.verdict import VERDICTS, Verdict
from rankbound.paper.latex_text import escaped
from rankbound.results.made_files import reading

NAME = "table_claims"

COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(("id", "source", "claim", "kind", "datasets", "verdict", "reason", "statistic"), pl.String()),
    **dict.fromkeys(("value", "low", "high", "p_value"), pl.Float64()),
    "n": pl.Int64(),
    "shown_in": pl.String(),
    "printed_evidence": pl.String(),
}

SOURCES = {
    "T": "user/query-wise metric bounding",
    "N": "neural networks in ranking",
    "M": "a textbook's chapter on ranking",
    "W": "a wiki page on ranking",
    "L": "linear NDCG and pair-wise error",
}
"""What a claim's first letter stands for."""


def frame(decided: Iterable[tuple[Claim, Verdict]]) -> pl.DataFrame:
    """A row per claim, in the order of the claims; numbers that there are none of are null."""
    rows = [{**asdict(claim), **asdict(verdict), "shown_in": " ".join(verdict.shown_in)} for claim, verdict in decided]
    numbers = pl.col("value", "low", "high", "p_value")
    return pl.DataFrame(rows, schema_overrides=COLUMNS).select(*COLUMNS).with_columns(numbers.fill_nan(None))


def read(path: Path) -> pl.DataFrame:
    """The table as `rankbound claims` wrote it."""
    with reading(path):
        table = pl.read_csv(path, schema=COLUMNS)
        if unknown := set(table["verdict"]) - set(VERDICTS):
            raise ValueError(f"unknown verdict {unknown.pop()!r}")
        return table


def counts(table: pl.DataFrame) -> dict[str, int]:
    """How many claims have each verdict; verdicts that none has are left out."""
    found = dict(table["verdict"].value_counts().rows())
    return {verdict: found[verdict] for verdict in VERDICTS if verdict in found}


def summary(table: pl.DataFrame) -> str:
    """`73 claims: 40 confirmed, 20 refuted, ...`."""
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts(table).items())
    return f"{len(table)} claims: {told}"


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
