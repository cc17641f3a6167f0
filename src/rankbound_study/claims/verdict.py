"""What became of a claim, and by what."""

import math
from dataclasses import dataclass

CONFIRMED, REFUTED, INCONCLUSIVE = "confirmed", "refuted", "inconclusive"
NOT_TESTABLE = "not testable here"
"""Of claims about data that cannot be had: MSLR-WEB10K's archive, VGG16's weights."""
NOT_RUN = "not run"
"""Of claims whose runs the configuration leaves out."""

VERDICTS = (CONFIRMED, REFUTED, INCONCLUSIVE, NOT_TESTABLE, NOT_RUN)


class MissingEvidence(Exception):
    """The results hold nothing that could decide a claim: the text says what is missing."""


@dataclass(frozen=True)
class Verdict:
    """A verdict and what decides it.

    Attributes:
        verdict: one of `VERDICTS`.
        reason: one sentence in plain words with the numbers that decide.
        statistic: what `value` is: `share of cells`, `mean nDCG, bounded minus unbounded`. Empty of theorems that hold
            in every case.
        value, low, high: the statistic and its 95 % interval; NaN where there is none.
        p_value: of the test that decides, after correction; NaN if a count or an interval does.
        n: how many units (topics, pairs, cases) it rests on.
        shown_in: tables and figures that show it, as the configuration calls them.
    """

    verdict: str
    reason: str
    statistic: str = ""
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    n: int = 0
    shown_in: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict {self.verdict!r}: expected one of {', '.join(VERDICTS)}")


def holds(condition: bool) -> str:
    """The verdict of a claim that can be counted out: confirmed or refuted."""
    return CONFIRMED if condition else REFUTED
