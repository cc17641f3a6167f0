"""The verdict on a claim, and its numbers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rankbound_study.claims.rules import Sample

CONFIRMED, REFUTED, INCONCLUSIVE = "confirmed", "refuted", "inconclusive"
NOT_TESTABLE = "not testable here"
"""The verdict on claims about data that are not available: MSLR-WEB10K's archive, VGG16's weights."""
NOT_RUN = "not run"
"""The verdict on claims whose runs the configuration leaves out."""

VERDICTS = (CONFIRMED, REFUTED, INCONCLUSIVE, NOT_TESTABLE, NOT_RUN)


class MissingEvidence(Exception):
    """The results cannot decide a claim; the text states what is missing."""


class Untrained(MissingEvidence):
    """The results that would decide a claim are those of models that did not train."""


@dataclass(frozen=True)
class Verdict:
    """A verdict and its basis.

    Attributes:
        verdict: one of `VERDICTS`.
        reason: one plain sentence with the deciding numbers.
        statistic: the meaning of `value`: `share of cells`, `mean nDCG, bounded minus unbounded`. Empty for theorems
            that hold in every case.
        value, low, high: the statistic and its 95 % interval; NaN where undefined.
        n: the number of units (topics, pairs, cases).
        shown_in: names of the tables and figures that show it, separated by spaces.
        sample: the sample behind the difference that would decide an inconclusive claim, if there is one.
    """

    verdict: str
    reason: str
    statistic: str = ""
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    shown_in: str = ""
    sample: "Sample | None" = None

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict {self.verdict!r}: expected one of {', '.join(VERDICTS)}")


@dataclass(frozen=True)
class Ruling:
    """A verdict in numbers, which the sentences of the claim put into words.

    Attributes:
        verdict: one of `VERDICTS`.
        facts: what the sentences name.
        value, low, high, n, sample: as in `Verdict`.
    """

    verdict: str
    facts: Mapping[str, object] = field(default_factory=dict)
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    sample: "Sample | None" = None


Decider = TypeVar("Decider", bound=Callable[..., "Ruling | Verdict"])


def entering(table: dict[str, Decider]) -> Callable[[str], Callable[[Decider], Decider]]:
    """Return a decorator that takes a claim, and enters into a table the function that decides it."""

    def of_claim(claim: str) -> Callable[[Decider], Decider]:
        def enter(decider: Decider) -> Decider:
            if claim in table:
                raise ValueError(f"{claim} is decided twice: by {table[claim]} and by {decider}")
            table[claim] = decider
            return decider

        return enter

    return of_claim


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
