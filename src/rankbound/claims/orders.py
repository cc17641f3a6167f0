"""Whether a choice keeps the order of the losses: as well as two seeds of one and the same choice do.

The order is that of all losses and boundings by mean score. How sure the comparison is, a bootstrap over topics says:
each resample orders everything anew, variants and seeds alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from rankbound.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED
from rankbound.statistics.draws import draws
from rankbound.statistics.intervals import CONFIDENCE
from rankbound.statistics.scores import Floats

RESAMPLES = 999

_TRAINING = ("loss", "bounding")


@dataclass(frozen=True)
class OrderKept:
    """Kendall's tau between orders, the least of each kind, and how far the first lies above the second.

    Attributes:
        between_choices: of the variants, each over all its seeds.
        between_seeds: of two seeds of one variant; None where each has one.
        low, high: the 95 % interval of the first minus the second, over topics.
    """

    between_choices: float
    between_seeds: float | None
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Refuted where choices surely agree less than seeds do; confirmed where they agree as well or better."""
        if self.between_seeds is None:
            return INCONCLUSIVE
        if self.between_choices >= self.between_seeds:
            return CONFIRMED
        return REFUTED if self.high < 0 else INCONCLUSIVE

    def __str__(self) -> str:
        told = f"{self.between_choices:.2f}"
        if self.between_seeds is None:
            return f"{told} (one seed says nothing of chance)"
        return f"{told} (two seeds: {self.between_seeds:.2f} or more; difference {self.low:+.2f} to {self.high:+.2f})"


def order_kept(choices: Sequence[pl.DataFrame], seeds_of: Sequence[pl.DataFrame], metric: str) -> OrderKept:
    """Of the rows of several choices, and of those whose seeds tell how much chance alone changes the order.

    All have the same losses, boundings and topics. Topics that lack a score somewhere are left out.
    """
    own = [[rows.filter(pl.col("seed") == seed) for seed in rows["seed"].unique().sort()] for rows in seeds_of]
    tables = _tables([*choices, *(one for seeds in own for one in seeds)], metric)
    pairs = list(combinations(range(len(choices)), 2))
    first = len(choices)
    of_seeds: list[tuple[int, int]] = []
    for seeds in own:
        of_seeds += combinations(range(first, first + len(seeds)), 2)
        first += len(seeds)
    random, topics = np.random.default_rng(0), tables.shape[1]
    weights = np.vstack([np.ones((1, topics)), draws(random, topics, RESAMPLES)]) if topics else np.ones((1, 0))
    signs = [_signs(weights @ table) for table in tables]
    across = _least(signs, pairs)
    if not of_seeds or not topics:
        return OrderKept(float(across[0]), None, float("nan"), float("nan"))
    by_seed = _least(signs, of_seeds)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile((across - by_seed)[1:], [tail, 1 - tail])
    return OrderKept(float(across[0]), float(by_seed[0]), float(low), float(high))


def _tables(rows: Sequence[pl.DataFrame], metric: str) -> Floats:
    """Mean scores `(n_rows, n_topics, n_trainings)` over folds and seeds."""
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
    """Which of every two trainings has the higher mean, `(n_resamples, n_pairs)`; rounding alone is a tie."""
    first, second = np.triu_indices(means.shape[1], 1)
    gaps = means[:, first] - means[:, second]
    return np.where(np.abs(gaps) <= 1e-12 * np.abs(means).max(), 0.0, np.sign(gaps))


def _least(signs: Sequence[Floats], pairs: Sequence[tuple[int, int]]) -> Floats:
    """The least Kendall's tau-b of these pairs of orders, in every resample."""
    found = np.ones(len(signs[0]))
    for one, other in pairs:
        agreeing = (signs[one] * signs[other]).sum(1)
        untied = np.sqrt(np.abs(signs[one]).sum(1) * np.abs(signs[other]).sum(1))
        tau = np.divide(agreeing, untied, out=np.ones_like(agreeing), where=untied > 0)
        found = np.minimum(found, tau)
    return found
