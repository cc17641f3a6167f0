"""The leaderboard of a study: every model with every loss and bounding, beside the best, the unbounded and a baseline.

The best system is the one with the highest validation score, so no test score selects it; on the test part another may
score higher. All scores are on one metric, whichever metric judges a system's loss. Differences are paired by topic,
and generalise to topics and, with several seeds, to trainings. P-values are adjusted by Holm's method over all systems
of a data set, separately for each of the three comparisons. Systems that did not train (see
`rankbound_study.results.scores`) follow the others, without a rank, and are compared with none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare.comparison import LEVEL, MARGIN, TIE
from rankbound.compare.scores import SYSTEM as NAME
from rankbound.compare.scores import Floats, Integers, Pair, any_over, per_unit, scores_of_frame
from rankbound_study.claims.evidence import Contrast, estimate
from rankbound_study.claims.rules import adjusted
from rankbound_study.results.scores import METRICS, SYSTEM, place
from rankbound_study.results.study_files import schema
from rankbound_study.vocabulary import BEST_FEATURE, BOUNDINGS, CONTROLS, POPULARITY, UNBOUNDED

BEST, COUNTERPART, BASELINE = "best", "counterpart", "baseline"
"""The systems that others are compared with. A system's counterpart has the same model and loss without a bound."""
COMPARISONS = (BEST, COUNTERPART, BASELINE)

BETTER, WORSE, ALIKE, UNDECIDED = "better", "worse", "alike", "inconclusive"
"""Verdicts: significantly above or below zero; within the margin by two one-sided tests; neither."""
WITHIN = ", within the margin"
"""Added to a significant difference that two one-sided tests show to lie within the margin."""

ORACLE = "oracle"
_BASELINES = (BEST_FEATURE, POPULARITY, "random")

_SEPARATOR = " / "

Key = tuple[str, ...]  # variant, model, loss and bounding

COLUMNS = schema(
    f"text: dataset; int8: nsr; int: rank; text: {' '.join(SYSTEM)} metric; "
    f"float: validation score low high {' '.join(METRICS)}; "
    + "".join(f"float: {of}_difference {of}_low {of}_high {of}_p_holm; text: {of}_verdict; " for of in COMPARISONS)
    + "int: n_topics n_skipped n_folds n_seeds n_untrained; text: role options"
)
"""`score` with its 95 % interval is on `metric`; the columns named like metrics are means on each of them.
`role` marks the best system by validation and the baseline. `n_skipped` topics have no defined score; `n_untrained`
trainings did not train."""


@dataclass(frozen=True)
class Choice:
    """The settings of a leaderboard.

    Attributes:
        judged_by: the metric of all scores and differences.
        baseline: a control; empty for the first of best feature, popularity and random ordering that ran.
        margin: differences within it do not matter, in units of the metric.
    """

    judged_by: str = METRICS[0]
    baseline: str = ""
    margin: float = MARGIN


class Board:
    """The systems of one data set, in order, and those that all are compared with.

    Attributes:
        data: dataset and nsr.
        choice: the settings.
        scores: on the metric of the choice.
        systems: the rows of the runs, by system.
        validation: the scores that order trained systems.
        order: trained systems from the best to the worst, those that did not train, then controls.
        best, baseline: the systems that all are compared with; None if there is none.
        untrained: the number of trainings that did not train, of the systems that have some.
    """

    def __init__(
        self,
        systems: pl.DataFrame,
        validation: pl.DataFrame,
        choice: Choice,
        untrained: Mapping[Key, int] = MappingProxyType({}),
    ) -> None:
        """Take the systems and their validation scores, of one data set, from `rankbound_study.results.scores`."""
        self.data: tuple[str, int | None] = systems.select("dataset", "nsr_test").row(0)
        self.choice, self.untrained = choice, untrained
        named = systems.with_columns(pl.concat_str(SYSTEM, separator=_SEPARATOR).alias(NAME))
        self.scores = scores_of_frame(named, choice.judged_by)
        by_system = systems.group_by(SYSTEM, maintain_order=True)
        self.systems: dict[Key, pl.DataFrame] = {tuple(map(str, key)): rows for key, rows in by_system}
        picked = validation.select(*SYSTEM, "validation").drop_nulls().rows()
        self.validation: dict[Key, float] = {tuple(row[:-1]): row[-1] for row in picked}
        trained = sorted(
            (key for key in self.systems if key[2] != "none"),
            key=lambda key: (key in untrained, -self.validation.get(key, -1.0), *key[:3], place(key[3], BOUNDINGS)),
        )
        controls = sorted((key for key in self.systems if key[2] == "none"), key=lambda key: place(key[1], CONTROLS))
        self.order = [*trained, *controls]
        self.best = next((key for key in trained if key in self.validation and key not in untrained), None)
        wanted = (choice.baseline,) if choice.baseline else _BASELINES
        self.baseline = next((key for name in wanted for key in controls if key[1] == name), None)

    @property
    def table(self) -> pl.DataFrame:
        """A row per system, ordered by validation scores; controls follow, without a rank."""
        return pl.DataFrame([self.row(key) for key in self.order], schema=COLUMNS, orient="row")

    def partner(self) -> Key | None:
        """Return the system beside which the best one shows the effect of bounding: with the same model and loss.

        It is the unbounded one; if that is the best, the best bounded one by validation. None if there is none.
        """
        if self.best is None:
            return None
        others = [key for key in self.order if key != self.best and key not in self.untrained]
        alike = [key for key in others if key[:3] == self.best[:3]]
        return min(alike, key=lambda key: key[3] != UNBOUNDED, default=None)

    def row(self, key: Key) -> tuple[Any, ...]:
        """Return a system's row of the table."""
        rows, trained = self.systems[key], key[2] != "none" and key not in self.untrained
        values: Floats = self.scores.values[list(self.scores.systems).index(_SEPARATOR.join(key))]
        values = values[any_over(np.isfinite(values), (1, 2))]
        low, high = interval(values, self.scores.drawings)
        per_topic = rows.group_by("topic", maintain_order=True).agg(pl.col(METRICS).mean())
        rank = self.order.index(key) + 1 if trained and key in self.validation else None
        score = float(per_unit(values).mean()) if len(values) else None
        own = (*self.data, rank, *key, self.choice.judged_by, self.validation.get(key), score, low, high)
        means = per_topic.select(pl.col(METRICS).mean()).row(0)
        tests = (value for comparison in COMPARISONS for value in self._tests[comparison].get(key, (None,) * 5))
        counts = len(values), len(per_topic) - len(values), rows["fold"].n_unique(), rows["seed"].n_unique()
        role = {self.best: BEST, self.baseline: BASELINE}.get(key, "")
        return (*own, *means, *tests, *counts, self.untrained.get(key, 0), role, rows["options"][0])

    def pair(self, key: Key, other: Key) -> Pair:
        """Return the scores of two systems on the topics that both have."""
        return self.scores.pair(_SEPARATOR.join(key), _SEPARATOR.join(other))

    @cached_property
    def _tests(self) -> dict[str, dict[Key, tuple[Any, ...]]]:
        """The tests of every system with enough topics, by comparison: difference, interval, p-value and verdict."""
        found: dict[str, dict[Key, tuple[Any, ...]]] = {}
        for comparison in COMPARISONS:
            known: dict[Key, Contrast] = {}
            for key in self.order:
                other = {BEST: self.best, BASELINE: self.baseline}.get(comparison, (*key[:3], UNBOUNDED))
                # The oracle is no competitor, nor are systems that did not train.
                if other in (None, key) or key[1] == ORACLE or {key, other} & self.untrained.keys():
                    continue
                if other in self.systems and len((both := self.pair(key, other)).units) > 1:
                    known[key] = Contrast.of(both)
            p_values = adjusted({key: one.p_value() for key, one in known.items()})
            alike = adjusted({key: one.p_within(self.choice.margin) for key, one in known.items()})
            found[comparison] = {
                key: (*one.measured, p_values[key], verdict(one.mean, p_values[key], alike[key]))
                for key, one in known.items()
            }
        return found


def verdict(difference: float, p_value: float, p_within: float) -> str:
    """Return the verdict on a difference by its adjusted p-values: of none, and of one within the margin."""
    if p_value <= LEVEL:
        return (BETTER if difference > 0 else WORSE) + (WITHIN if p_within <= LEVEL else "")
    return ALIKE if p_within <= LEVEL else UNDECIDED


def interval(values: Floats, drawings: Integers | None) -> tuple[float | None, float | None]:
    """Return the 95 % interval of the mean of scores `(n_topics, n_folds, n_seeds)`; None for fewer than two topics."""
    return estimate(values, drawings).interval() if len(values) > 1 else (None, None)


PARTNER, RANDOM = "partner", "random"

GROUPS = 6  # largest number of groups of list lengths, of about equal size
KEPT = 1000  # largest number of topics whose differences are kept; of more, evenly spaced ones and the extreme ones
EXTREMES = 50  # topics at either end that are always kept

_SHOWN = f"text: dataset; int8: nsr; text: role {' '.join(SYSTEM)} metric;"
LENGTHS = schema(f"{_SHOWN} int: from_items to_items n_topics; float: mean low high")
TOPICS = schema(f"{_SHOWN} int: place n_topics; text: topic; float: items relevant best_score other_score difference")
"""The best system minus another one (`role`, and its model, loss and bounding), by `place` in ascending order."""


def by_length(board: Board) -> pl.DataFrame:
    """Return the mean score of the compared systems in groups of list lengths, with its 95 % interval over topics."""
    found = []
    for role, key in compared(board).items():
        rows = board.systems[key].filter(pl.col(board.choice.judged_by).is_not_null())
        for least, most in groups_of(rows["n"].to_numpy()):
            within = rows.filter(pl.col("n").is_between(least, most)).with_columns(pl.lit(role).alias(NAME))
            scores = scores_of_frame(within.drop("loss"), board.choice.judged_by)
            known = scores.values[0][any_over(np.isfinite(scores.values[0]), (1, 2))]
            sizes, mean = (least, most, len(known)), float(per_unit(known).mean())
            found.append((*_of(board, role, key), *sizes, mean, *interval(known, scores.drawings)))
    return pl.DataFrame(found, schema=LENGTHS, orient="row")


def by_topic(board: Board) -> pl.DataFrame:
    """Return the differences of the best system from its partner and from the baseline, a row per topic."""
    parts = [pl.DataFrame(schema=TOPICS)]
    for role, other in ((PARTNER, board.partner()), (BASELINE, board.baseline)):
        if board.best is None or other is None:
            continue
        pair = board.pair(board.best, other)
        scores = pl.DataFrame({"topic": pair.units, "best_score": per_unit(pair.a), "other_score": per_unit(pair.b)})
        by_topic = board.systems[board.best].group_by("topic")
        sizes = by_topic.agg(pl.col("n").mean().alias("items"), pl.col("p").mean().alias("relevant"))
        difference = pl.col("best_score") - pl.col("other_score")
        known = scores.with_columns(pl.when(difference.abs() > TIE).then(difference).otherwise(0.0).alias("difference"))
        names = zip(TOPICS, _of(board, role, other), strict=False)
        named = [pl.lit(value, TOPICS[name]).alias(name) for name, value in names]
        table = known.join(sizes, on="topic").sort("difference", "topic").with_row_index("place", 1)
        table = table.with_columns(pl.len().alias("n_topics"), *named)
        count = len(table)
        ends = np.arange(min(EXTREMES, count))
        evenly = np.linspace(0, count - 1, min(count, KEPT)).astype(np.int64)
        kept = table[np.unique(np.concatenate([ends, count - 1 - ends, evenly]))]
        parts.append(kept.select(pl.col(name).cast(kind) for name, kind in TOPICS.items()))
    return pl.concat(parts)


def compared(board: Board) -> dict[str, Key]:
    """Return the systems that figures show beside the best one, by role, each once."""
    random = next((key for key in board.order if key[1] == RANDOM), None)
    roles = {BEST: board.best, PARTNER: board.partner(), BASELINE: board.baseline, RANDOM: random}
    found: dict[str, Key] = {}
    for role, key in roles.items():
        if key is not None and key not in found.values():
            found[role] = key
    return found


def groups_of(lengths: Any) -> list[tuple[int, int]]:
    """Return ranges of lengths, both ends within, that hold about equal numbers of lists; equal lengths share one.

    >>> import numpy as np
    >>> groups_of(np.array([2, 2, 3, 9]))
    [(2, 2), (3, 3), (9, 9)]
    """
    if not len(lengths):
        return []
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, GROUPS + 1)[1:-1], method="inverted_cdf"))
    places = np.searchsorted(edges, lengths, side="left")
    return [(int(lengths[places == place].min()), int(lengths[places == place].max())) for place in np.unique(places)]


def _of(board: Board, role: str, key: Key) -> tuple[Any, ...]:
    """Return the first columns of `LENGTHS` and `TOPICS`."""
    return *board.data, role, *key, board.choice.judged_by
