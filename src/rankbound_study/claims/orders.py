"""The agreement of the losses' orders between two choices, compared with that between two seeds of one choice.

The order is that of all losses and boundings by mean score. A bootstrap over topics gives the interval: each resample
orders the variants and the seeds again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from rankbound.compare.draws import draws
from rankbound.compare.intervals import CONFIDENCE
from rankbound.compare.scores import Floats
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED

RESAMPLES = 999

_TRAINING = ("loss", "bounding")


@dataclass(frozen=True)
class OrderKept:
    """The smallest Kendall's tau between orders of each kind.

    Attributes:
        between_choices: between two choices, each over all its seeds; NaN if no topic has all scores.
        between_seeds: between two seeds of one choice; None if each choice has one seed.
        low, high: the 95 % interval, over topics, of the first tau minus the second; NaN without resamples.
    """

    between_choices: float
    between_seeds: float | None
    low: float = float("nan")
    high: float = float("nan")

    @property
    def verdict(self) -> str:
        """Refuted if choices agree significantly less than seeds; confirmed if they agree as well or better."""
        if self.between_seeds is None:
            return INCONCLUSIVE
        if self.between_choices >= self.between_seeds:
            return CONFIRMED
        return REFUTED if self.high < 0 else INCONCLUSIVE

    def __str__(self) -> str:
        tau = f"{self.between_choices:.2f}"
        if self.between_seeds is None:
            return f"{tau} (with one seed, the effect of chance is unknown)"
        return f"{tau} (two seeds: {self.between_seeds:.2f} or more; difference {self.low:+.2f} to {self.high:+.2f})"


def order_kept(
    choices: Sequence[pl.DataFrame], seeds_of: Sequence[pl.DataFrame], metric: str, resamples: int = RESAMPLES
) -> OrderKept:
    """Return the agreement between the rows of several choices, and between the seeds of others.

    All have the same losses and boundings. Topics that lack a score are left out.
    """
    own = [[rows.filter(pl.col("seed") == seed) for seed in rows["seed"].unique().sort()] for rows in seeds_of]
    means = _means([*choices, *(one for seeds in own for one in seeds)], metric)
    n_topics = means.shape[1]
    if not n_topics:
        return OrderKept(float("nan"), None)
    of_seeds: list[tuple[int, int]] = []
    first = len(choices)
    for seeds in own:
        of_seeds += combinations(range(first, first + len(seeds)), 2)
        first += len(seeds)
    weights = np.concatenate([np.ones((1, n_topics)), draws(np.random.default_rng(0), n_topics, resamples)])
    signs = [_signs(weights @ table) for table in means]
    across, by_seed = (_least(signs, pairs) for pairs in (list(combinations(range(len(choices)), 2)), of_seeds))
    if not of_seeds:
        return OrderKept(float(across[0]), None)
    interval: tuple[float, ...] = ()
    if resamples:
        tail = (1 - CONFIDENCE) / 2
        low, high = np.quantile((across - by_seed)[1:], [tail, 1 - tail])
        interval = (float(low), float(high))
    return OrderKept(float(across[0]), float(by_seed[0]), *interval)


def _means(rows: Sequence[pl.DataFrame], metric: str) -> Floats:
    """Return mean scores `(n_rows, n_topics, n_trainings)` over folds and seeds."""
    means = pl.concat(
        one.with_columns(pl.col(metric).fill_nan(None))
        .group_by("topic", *_TRAINING)
        .agg(pl.col(metric).mean())
        .with_columns(part=pl.lit(number))
        for number, one in enumerate(rows)
    ).sort("part", "topic", *_TRAINING)
    trainings = means.select(_TRAINING).unique()
    full = means.group_by("topic").agg(pl.col(metric).count()).filter(pl.col(metric) == len(rows) * len(trainings))
    kept = means.join(full.select("topic"), on="topic", how="semi", maintain_order="left")
    return kept[metric].to_numpy().reshape(len(rows), len(full), len(trainings))


def _signs(means: Floats) -> Floats:
    """Return the sign of the difference of every two trainings, `(n_resamples, n_pairs)`; rounding errors are ties."""
    first, second = np.triu_indices(means.shape[1], 1)
    gaps = means[:, first] - means[:, second]
    return np.where(np.abs(gaps) <= 1e-12 * np.abs(means).max(), 0.0, np.sign(gaps))


def _least(signs: Sequence[Floats], pairs: Sequence[tuple[int, int]]) -> Floats:
    """Return the smallest Kendall's tau-b of these pairs of orders, for every resample."""
    found = np.ones(len(signs[0]))
    for one, other in pairs:
        agreeing = (signs[one] * signs[other]).sum(1)
        untied = np.sqrt(np.abs(signs[one]).sum(1) * np.abs(signs[other]).sum(1))
        tau = np.divide(agreeing, untied, out=np.ones_like(agreeing), where=untied > 0)
        found = np.minimum(found, tau)
    return found
