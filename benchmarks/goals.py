"""The project's performance goals, and their outcomes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.rows import OURS, Row

Results = dict[tuple[str, str], list[Row]]
"""(question, setting) -> its rows."""

_LOSS_PEERS = ("Rax", "pytorchltr*", "torch, N x N")
_EVALUATORS = ("ranx", "pytrec_eval", "ir_measures")
_OF_PAIRS = ("nDCG", "AP", "RankNet", "LambdaRank")
_OF_ITEMS = ("softmax", "ListNet", "ListMLE")
_SMOOTH = ("nDCG", "nDCG min-max", "nDCG@10 min-max", "AP min-max")
_SHORT = (("128 x 10", 1.67), ("512 x 10", 1.67), ("128 x 100", 2.5), ("64 lists of 10 to 324", 10.0))
"""Batches of the question `short` in its order, each with the goal of the losses of pairs and ranks."""


@dataclass(frozen=True)
class Goal:
    """A goal for one question at one size; `measured` computes (median, low, high) from the rows of that size."""

    what: str
    question: str
    n: int | None
    limit: float
    unit: str
    measured: Callable[[list[Row]], tuple[float, float, float] | None]

    @property
    def at_most(self) -> bool:
        """True if lower is better: for seconds and megabytes, not for ratios."""
        return self.unit != "x"

    def reached(self, value: float) -> bool:
        """Return True if the value reaches the limit."""
        return value <= self.limit if self.at_most else value >= self.limit


@dataclass(frozen=True)
class Outcome:
    """A goal, with its measured value under one allocator setting."""

    goal: Goal
    setting: str
    value: float
    low: float
    high: float


def outcomes(results: Results) -> Iterator[Outcome]:
    """Yield the outcomes of all goals that were measured."""
    for goal in GOALS:
        for (question, setting), rows in results.items():
            here = [row for row in rows if goal.n in (None, row.n) and not row.left_out]
            measured = goal.measured(here) if question == goal.question else None
            if measured is not None:
                yield Outcome(goal, setting, *measured)


def _ours(rows: list[Row]) -> tuple[float, float, float] | None:
    values = [row.value for row in rows if row.contender == OURS]
    return (values[0], values[0], values[0]) if values else None


def _times(*names: str) -> Callable[[list[Row]], tuple[float, float, float] | None]:
    """Return the function that computes the time of the fastest of these contenders, as a multiple of ours."""

    def measured(rows: list[Row]) -> tuple[float, float, float] | None:
        ratios = [(row.ratio, row.ratio_low, row.ratio_high) for row in rows if row.contender in names]
        return min(ratios, default=None)

    return measured


def _least(losses: tuple[str, ...], *peers: str) -> Callable[[list[Row]], tuple[float, float, float] | None]:
    """Return the function that computes, of some losses, the least time of a peer as a multiple of ours."""
    of_peers = _times(*peers)
    return lambda rows: of_peers([row for row in rows if row.size.partition(",")[0] in losses])


def _of_boosting() -> Iterator[Goal]:
    """Yield the goals of trees: LambdaRank's take at most twice as long as LightGBM's, others' three times."""
    for place, size in enumerate(("470 x 20", "2,000 x 120")):
        for objectives, limit in ((("LambdaRank",), 1 / 2), (_SMOOTH, 1 / 3)):
            what = f"a tree of {', '.join(objectives)} on {size}, the least against LightGBM's lambdarank"
            yield Goal(what, "boosting", place, limit, "x", _least(objectives, "LightGBM lambdarank"))


def _of_short(losses: tuple[str, ...], limit: float | None = None) -> Iterator[Goal]:
    """Yield the goal of some losses on each batch of short lists: the given one, or that of the batch."""
    for place, (size, own) in enumerate(_SHORT):
        what = f"{', '.join(losses)} on {size}, the least against the better peer"
        yield Goal(what, "short", place, limit or own, "x", _least(losses, "padded torch", "Rax"))


GOALS = (
    *_of_short(_OF_PAIRS),
    *_of_short(_OF_ITEMS, 1.25),
    Goal("one list of 100, against the plain P x N sum", "loss", 100, 1, "x", _times("torch, P x N")),
    Goal("one list of 300, against the plain P x N sum", "loss", 300, 1, "x", _times("torch, P x N")),
    Goal("one list of 8,000, against the best peer", "loss", 8_000, 300, "x", _times(*_LOSS_PEERS)),
    Goal("one list of 1,000,000, time", "loss", 1_000_000, 0.1, "s", _ours),
    Goal("one list of 1,000,000, memory", "memory", 1_000_000, 300, "MB", _ours),
    Goal("32 lists of MovieLens' sizes, against Rax", "ragged", 32, 100, "x", _times("Rax")),
    Goal("evaluation, against the fastest peer", "evaluation", 10_000, 5, "x", _times(*_EVALUATORS)),
    Goal("evaluation, time", "evaluation", 10_000, 0.08, "s", _ours),
    # Our own compiled sampler is no peer: it is faster than what it is measured against, too.
    Goal(
        "exact tables, against 300,000 random orders drawn one by one",
        "distributions",
        48,
        50,
        "x",
        _times("order by order"),
    ),
    Goal(
        "LETOR to parquet, against scikit-learn's reading alone",
        "letor",
        None,
        5,
        "x",
        _times("scikit-learn, reading only"),
    ),
    *_of_boosting(),
)
