"""The table of claims with their verdicts, which everything else quotes."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from rankbound.texts import quantity
from rankbound_study.claims.verdict import INCONCLUSIVE, VERDICTS, Verdict
from rankbound_study.results.study_files import reading, schema

if TYPE_CHECKING:
    from rankbound_study.claims.registry import Claim

NAME = "table_claims"

COLUMNS = schema(
    "text: id group source claim kind datasets verdict reason statistic; float: value low high; "
    "int: n; text: shown_in printed_evidence; float: margin; int: topics topics_needed seeds "
    "seeds_needed"
)

SOURCES = {
    "T": "user/query-wise metric bounding",
    "N": "neural networks in ranking",
    "M": "a textbook's chapter on ranking",
    "W": "a wiki page on ranking",
    "L": "linear NDCG and pair-wise error",
    "P": "a question of this report",
}
"""The source of a claim, by the first letter of its id."""


def frame(decided: "Iterable[tuple[Claim, Verdict]]") -> pl.DataFrame:
    """Return a table with a row per claim, in their order; undefined numbers are null.

    Inconclusive claims have the margin of their deciding difference, and the sample that would decide for it.
    """
    rows = []
    for claim, verdict in decided:
        sample = verdict.sample if verdict.verdict == INCONCLUSIVE else None
        names = ("margin", "topics", "topics_needed", "seeds", "seeds_needed")
        rows.append(vars(claim) | vars(verdict) | {name: getattr(sample, name, None) for name in names})
    numbers = pl.col("value", "low", "high")
    table = pl.DataFrame([{name: row[name] for name in COLUMNS} for row in rows], schema=COLUMNS)
    return table.with_columns(numbers.fill_nan(None))


def read(path: Path) -> pl.DataFrame:
    """Read the table that `python -m rankbound_study claims` wrote."""
    with reading(path):
        table = pl.read_csv(path, schema=COLUMNS)
        if unknown := set(table["verdict"]) - set(VERDICTS):
            raise ValueError(f"unknown verdict {unknown.pop()!r}")
        return table


def of_source(table: pl.DataFrame, letter: str) -> pl.DataFrame:
    """Return the claims of one source."""
    return table.filter(pl.col("id").str.starts_with(letter))


def groups(table: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the claims of every group, in their order."""
    for (name,), of_group in table.group_by("group", maintain_order=True):
        yield str(name), of_group


def counts(table: pl.DataFrame) -> dict[str, int]:
    """Count the claims of each verdict that occurs."""
    found = dict(table["verdict"].value_counts().rows())
    return {verdict: found[verdict] for verdict in VERDICTS if verdict in found}


def summary(table: pl.DataFrame) -> str:
    """Return a line such as `5 claims: 3 confirmed, 2 refuted`."""
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts(table).items())
    return f"{quantity(len(table), 'claim')}: {verdicts}"
