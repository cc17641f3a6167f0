"""Where the systems of a leaderboard differ: by the length of the lists, and topic by topic."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare.margins import TIE
from rankbound.compare.scores import SYSTEM as NAME
from rankbound.compare.scores import Integers, any_over, per_unit, scores_of_frame
from rankbound_study.claims.leaderboard import BASELINE, BEST, Board, Key, interval
from rankbound_study.results.systems import SYSTEM

PARTNER, RANDOM = "partner", "random"

GROUPS = 6
"""Largest number of groups of list lengths, of about equal size."""

KEPT = 1000
"""Largest number of topics whose differences are kept; of more, evenly spaced ones and the extreme ones."""
EXTREMES = 50
"""Topics at either end that are always kept."""

_SYSTEM = {"role": pl.String(), **dict.fromkeys(SYSTEM, pl.String())}
_DATA: dict[str, pl.DataType] = {"dataset": pl.String(), "nsr": pl.Int8()}
LENGTHS: dict[str, pl.DataType] = {
    **_DATA,
    **_SYSTEM,
    "metric": pl.String(),
    **dict.fromkeys(("from_items", "to_items", "n_topics"), pl.Int64()),
    **dict.fromkeys(("mean", "low", "high"), pl.Float64()),
}
TOPICS: dict[str, pl.DataType] = {
    **_DATA,
    **_SYSTEM,
    "metric": pl.String(),
    **dict.fromkeys(("place", "n_topics"), pl.Int64()),
    "topic": pl.String(),
    **dict.fromkeys(("items", "relevant", "best_score", "other_score", "difference"), pl.Float64()),
}
"""The best system minus another one (`role`, and its model, loss and bounding), by `place` in ascending order."""


def by_length(board: Board) -> pl.DataFrame:
    """Return the mean score of the compared systems in groups of list lengths, with its 95 % interval over topics."""
    return pl.DataFrame(list(_by_length(board)), schema=LENGTHS, orient="row")


def by_topic(board: Board) -> pl.DataFrame:
    """Return the differences of the best system from its partner and from the baseline, a row per topic."""
    parts = [pl.DataFrame(schema=TOPICS)]
    for role, other in ((PARTNER, board.partner()), (BASELINE, board.baseline)):
        if board.best is not None and other is not None:
            parts.append(_by_topic(board, board.best, role, other))
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


def _by_length(board: Board) -> Iterator[dict[str, Any]]:
    for role, key in compared(board).items():
        rows = board.systems[key].filter(pl.col(board.choice.judged_by).is_not_null())
        for low, high in groups_of(rows["n"].to_numpy()):
            within = rows.filter(pl.col("n").is_between(low, high)).with_columns(pl.lit(role).alias(NAME))
            values = scores_of_frame(within.drop("loss"), board.choice.judged_by).values[0]
            known = values[any_over(np.isfinite(values), (1, 2))]
            around = interval(known)
            yield {
                **_of(board, role, key),
                **dict(zip(("from_items", "to_items", "n_topics"), (low, high, len(known)), strict=True)),
                "mean": float(per_unit(known).mean()),
                **dict(zip(("low", "high"), around, strict=True)),
            }


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


def _by_topic(board: Board, best: Key, role: str, other: Key) -> pl.DataFrame:
    pair = board.pair(best, other)
    scores = pl.DataFrame({"topic": pair.units, "best_score": per_unit(pair.a), "other_score": per_unit(pair.b)})
    difference = pl.col("best_score") - pl.col("other_score")
    sizes = (
        board.systems[best]
        .group_by("topic")
        .agg(pl.col("n").mean().alias("items"), pl.col("p").mean().alias("relevant"))
    )
    table = (
        scores.with_columns(pl.when(difference.abs() > TIE).then(difference).otherwise(0.0).alias("difference"))
        .join(sizes, on="topic")
        .sort("difference", "topic")
        .with_row_index("place", 1)
        .with_columns(
            pl.len().alias("n_topics"),
            *(pl.lit(value, TOPICS[name]).alias(name) for name, value in _of(board, role, other).items()),
        )
    )
    columns = [pl.col(name).cast(kind) for name, kind in TOPICS.items()]
    return table.select(columns)[_kept(len(table))]


def _kept(count: int) -> Integers:
    """Return the places of the topics that are kept, ascending."""
    ends = np.arange(min(EXTREMES, count))
    evenly = np.linspace(0, count - 1, min(count, KEPT)).astype(np.int64)
    return np.unique(np.concatenate([ends, count - 1 - ends, evenly]))


def _of(board: Board, role: str, key: Key) -> dict[str, Any]:
    dataset, nsr = board.data
    named = dict(zip(SYSTEM, key, strict=True))
    return {"dataset": dataset, "nsr": nsr, "role": role, **named, "metric": board.choice.judged_by}
