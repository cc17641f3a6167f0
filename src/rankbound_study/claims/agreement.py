"""Kendall's tau between the orders of all losses and boundings by mean score, under several choices or seeds."""

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import polars as pl

_TRAINING = ("loss", "bounding")


def least_tau(choices: Sequence[pl.DataFrame], metric: str) -> float:
    """Return the smallest tau between two choices, over the topics that all have scores of; NaN without such topics.

    All choices have the same losses and boundings. Equal orders without any difference count as 1.
    """
    (means,) = _means([choices], metric)
    return min((_tau(*pair) for pair in combinations(means, 2)), default=float("nan"))


def least_tau_of_seeds(choices: Sequence[pl.DataFrame], metric: str) -> float | None:
    """Return the smallest tau between two seeds of one choice; None if each has one seed."""
    of_seeds = [rows.partition_by("seed", maintain_order=True) for rows in choices]
    taus = [_tau(*pair) for means in _means(of_seeds, metric) for pair in combinations(means, 2)]
    return min(taus, default=None)


def _means(groups: Sequence[Sequence[pl.DataFrame]], metric: str) -> list[list[np.ndarray]]:
    """Return the mean of every loss and bounding, in one order, for every frame of every group."""
    flat = [rows for group in groups for rows in group]
    named = pl.concat(rows.select("topic", *_TRAINING, metric).with_columns(part=place) for place, rows in _of(flat))
    of_topics = named.with_columns(pl.col(metric).fill_nan(None)).group_by("part", "topic", *_TRAINING)
    means = of_topics.agg(pl.col(metric).mean()).with_columns(known=pl.col(metric).is_not_null().all().over("topic"))
    table = means.filter("known").group_by("part", *_TRAINING).agg(pl.col(metric).mean()).sort("part", *_TRAINING)
    found = iter(table.partition_by("part", maintain_order=True))
    return [[one[metric].to_numpy() for _, one in zip(group, found, strict=False)] for group in groups]


def _of(frames: Iterable[pl.DataFrame]) -> Iterable[tuple[pl.Expr, pl.DataFrame]]:
    return ((pl.lit(place), rows) for place, rows in enumerate(frames))


def _tau(one: np.ndarray, other: np.ndarray) -> float:
    # Rounding errors of means are ties.
    rounded = [np.round(values, 12) for values in (one, other)]
    if all(np.ptp(values) == 0 for values in rounded):
        return 1.0
    from scipy import stats

    return float(stats.kendalltau(*rounded).statistic)
