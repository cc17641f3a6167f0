"""The marks that the project set itself, and whether these results reach them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.rows import OURS, Row

Results = dict[tuple[str, str], list[Row]]
"""(question, setting) -> its rows."""

_LOSS_PEERS = ("Rax", "pytorchltr*", "torch, N x N")
_EVALUATORS = ("ranx", "pytrec_eval", "ir_measures")


@dataclass(frozen=True)
class Goal:
    """A figure of one question at one size. `measured` gives it, as (middle, low, high), from the rows of that size."""

    what: str
    question: str
    n: int | None
    limit: float
    unit: str
    measured: Callable[[list[Row]], tuple[float, float, float] | None]

    @property
    def at_most(self) -> bool:
        """Whether less is better: for seconds and megabytes, not for ratios."""
        return self.unit != "x"

    def reached(self, value: float) -> bool:
        """Whether the value is on the right side of the limit."""
        return value <= self.limit if self.at_most else value >= self.limit


@dataclass(frozen=True)
class Outcome:
    """A goal, and what came out under one allocator setting."""

    goal: Goal
    setting: str
    value: float
    low: float
    high: float


def outcomes(results: Results) -> Iterator[Outcome]:
    """What the results say about each goal; those that were not measured are missing."""
    for goal in GOALS:
        for (question, setting), rows in results.items():
            here = [row for row in rows if goal.n in (None, row.n) and not row.left_out]
            found = goal.measured(here) if question == goal.question else None
            if found is not None:
                yield Outcome(goal, setting, *found)


def _ours(rows: list[Row]) -> tuple[float, float, float] | None:
    values = [row.value for row in rows if row.contender == OURS]
    return (values[0], values[0], values[0]) if values else None


def _times(*names: str) -> Callable[[list[Row]], tuple[float, float, float] | None]:
    """How many times our time the fastest of these takes."""

    def measured(rows: list[Row]) -> tuple[float, float, float] | None:
        ratios = [(row.ratio, row.ratio_low, row.ratio_high) for row in rows if row.contender in names]
        return min(ratios, default=None)

    return measured


GOALS = (
    Goal("one list of 100, against the plain P x N sum", "loss", 100, 1, "x", _times("torch, P x N")),
    Goal("one list of 300, against the plain P x N sum", "loss", 300, 1, "x", _times("torch, P x N")),
    Goal("one list of 8,000, against the best peer", "loss", 8_000, 300, "x", _times(*_LOSS_PEERS)),
    Goal("one list of 1,000,000, time", "loss", 1_000_000, 0.3, "s", _ours),
    Goal("one list of 1,000,000, memory", "memory", 1_000_000, 500, "MB", _ours),
    Goal("32 lists of MovieLens' sizes, against Rax", "ragged", 32, 100, "x", _times("Rax")),
    Goal("evaluation, against the fastest peer", "evaluation", 10_000, 1, "x", _times(*_EVALUATORS)),
    Goal(
        "exact tables, against 300,000 random orders", "distributions", 48, 50, "x", _times("sampled", "order by order")
    ),
    Goal(
        "LETOR to parquet, against scikit-learn's reading alone",
        "letor",
        None,
        5,
        "x",
        _times("scikit-learn, reading only"),
    ),
)
