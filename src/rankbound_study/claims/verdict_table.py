"""The table of claims with their verdicts: the one list of verdicts, which everything else quotes."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import polars as pl

from rankbound_study.claims.registry import Claim
from rankbound_study.claims.verdict import VERDICTS, Verdict
from rankbound_study.results.made_files import reading

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
    """The table as `python -m rankbound_study claims` wrote it."""
    with reading(path):
        table = pl.read_csv(path, schema=COLUMNS)
        if unknown := set(table["verdict"]) - set(VERDICTS):
            raise ValueError(f"unknown verdict {unknown.pop()!r}")
        return table


def of_source(table: pl.DataFrame, letter: str) -> pl.DataFrame:
    """The claims of one source."""
    return table.filter(pl.col("id").str.starts_with(letter))


def counts(table: pl.DataFrame) -> dict[str, int]:
    """How many claims have each verdict; verdicts that none has are left out."""
    found = dict(table["verdict"].value_counts().rows())
    return {verdict: found[verdict] for verdict in VERDICTS if verdict in found}


def summary(table: pl.DataFrame) -> str:
    """`73 claims: 40 confirmed, 20 refuted, ...`."""
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts(table).items())
    return f"{len(table)} claims: {told}"
