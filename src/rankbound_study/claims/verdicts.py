"""Verdicts on claims with their numbers, and the table of all, which everything else quotes."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from rankbound.texts import quantity
from rankbound_study.results.study_files import reading, schema

if TYPE_CHECKING:
    from rankbound_study.claims.registry import Claim
    from rankbound_study.claims.rules import Sample

CONFIRMED, REFUTED, INCONCLUSIVE = "confirmed", "refuted", "inconclusive"
NOT_TESTABLE = "not testable here"
"""The verdict on claims about data that are not available: MSLR-WEB10K's archive, VGG16's weights."""
NOT_RUN = "not run"  # the verdict on claims whose runs the configuration leaves out

VERDICTS = (CONFIRMED, REFUTED, INCONCLUSIVE, NOT_TESTABLE, NOT_RUN)


class MissingEvidence(Exception):
    """The results cannot decide a claim; the text states what is missing."""


class Untrained(MissingEvidence):
    """The results that would decide a claim are those of models that did not train."""


@dataclass(frozen=True)
class Ruling:
    """A verdict and its basis: in numbers, which the sentences of the claim put into words, or in words of its own.

    Attributes:
        verdict: one of `VERDICTS`.
        facts: what the sentences name.
        value, low, high: the statistic and its 95 % interval; NaN where undefined.
        n: the number of units (topics, pairs, cases).
        sample: the sample behind the difference that would decide an inconclusive claim, if there is one.
        reason: one plain sentence with the deciding numbers; empty until the claim's own sentence is filled in.
        statistic: the meaning of `value`: `share of cells`, `mean nDCG, bounded minus unbounded`. Empty for theorems
            that hold in every case.
        shown_in: names of the tables and figures that show it, separated by spaces.
    """

    verdict: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    sample: "Sample | None" = None
    reason: str = ""
    statistic: str = ""
    shown_in: str = ""


def some_trained(those: Collection[object], what: str) -> None:
    """Raise Untrained if there are none of those that did train."""
    if not those:
        raise Untrained(f"No {what} trained on these data, so that no scores are left to compare")


def enough(count: int, what: str) -> None:
    """Raise MissingEvidence for fewer than two topics."""
    if count < 2:
        raise MissingEvidence(f"{quantity(count, 'topic')} {what}; a test takes two")


def holds(condition: bool) -> str:
    """Return the verdict on a claim that every case decides: confirmed or refuted."""
    return CONFIRMED if condition else REFUTED


def each_way(for_it: bool, against: bool) -> str:
    """Return refuted if something is shown against a claim, confirmed if all that it takes is shown for it."""
    return REFUTED if against else CONFIRMED if for_it else INCONCLUSIVE


def counted(right: int, cases: int, facts: Mapping[str, object], *, also: bool = True) -> Ruling:
    """Return the ruling on a claim about many cases: confirmed if it is right in all, and `also` holds."""
    facts = {"right": right, "cases": cases, **facts}
    return Ruling(holds(right == cases and also), facts, right / cases, n=cases)


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


def frame(decided: "Iterable[tuple[Claim, Ruling]]") -> pl.DataFrame:
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
