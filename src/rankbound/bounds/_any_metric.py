"""The scores of any metric over the orders of one list, computed from its function of ranks alone.

The scores are those of all distinct orders if they are few, of all patterns of the first k ranks if the metric has a
cut-off and they are few, or of random orders.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from rankbound.bounds._closed_forms import Atoms
from rankbound.bounds._sampled import random_sets
from rankbound.bounds._scores import Floats, rank_discounts
from rankbound.bounds._tilted import UNIFORM, TiltedOrders
from rankbound.bounds.profiles import Profile
from rankbound.devices import on_cpu
from rankbound.lists import Lists
from rankbound.metrics import Metric
from rankbound.metrics.additive import AdditiveMetric
from rankbound.orders import n_orders, orders_at
from rankbound.ranks import hard_ranks

FEW_ORDERS = 200_000
"""Up to this many orders, or patterns of the first ranks, are enumerated."""
FEW_ITEMS = 20_000_000
"""Orders are enumerated only if they have at most this many items in total."""
MEAN_SAMPLES = 20_000
"""Random orders for the mean of a metric without a closed form; the standard error is sd / 141."""
_CHUNK_ITEMS = 2_000_000
"""Number of items of all orders in memory at once."""

Kinds = Tensor
"""The index of the grade at each rank, among the list's distinct grades in descending order: (n_orders, n_ranks)."""


@lru_cache(maxsize=16384)
@on_cpu
def mean_over_orders(metric: Metric, profile: Profile) -> float:
    """Return the mean over all orders if they are few, otherwise over `MEAN_SAMPLES` random ones; NaN if undefined."""
    orders = Orders(metric, profile)
    return float((orders.all_values() if orders.are_few() else orders.random_values(MEAN_SAMPLES, seed=0)).mean())


class Orders:
    """The orders of one list and their scores under a metric; equally likely, or (binary lists only) tilted."""

    def __init__(self, metric: Metric, profile: Profile, tilt: float = UNIFORM) -> None:
        self.metric, self.profile = metric, profile
        self.tilt = tilt
        self._tilted = None if tilt == UNIFORM else TiltedOrders(profile.n, profile.p, tilt)
        self._relevance = profile.relevance(metric)
        grades, counts = torch.unique(self._relevance, return_counts=True)
        self._grades, self._counts = grades.flip(0), counts.flip(0)
        self.number = n_orders(self._counts.tolist())
        self._k = min(getattr(metric, "cutoff", None) or profile.n, profile.n)

    def are_few(self, most: int = FEW_ORDERS) -> bool:
        """Return true if all orders can be enumerated and are at most `most`."""
        return self.number <= min(most, FEW_ORDERS) and self.number * self.profile.n <= FEW_ITEMS

    def have_few_patterns(self, most: int = FEW_ORDERS) -> bool:
        """Return true if the patterns of the first k ranks can be enumerated and are at most `most`."""
        number = len(self._grades) ** self._k
        return self._k < self.profile.n and number <= min(most, FEW_ORDERS) and number * self.profile.n <= FEW_ITEMS

    def all_values(self) -> Floats:
        """Return the metric of every order."""
        return self._values(self._all())

    def values_and_chances(self) -> Atoms:
        """Return the metric and the probability of every order."""
        orders = TiltedOrders(self.profile.n, self.profile.p, self.tilt)
        chances = [np.exp(orders.log_chances(kinds.numpy() == 0)) for kinds in self._all()]
        return self.all_values(), np.concatenate(chances)

    def values_of_patterns(self) -> Atoms:
        """Return the metric and the probability of every pattern of grades in the first k ranks."""
        n_kinds, k = len(self._grades), self._k
        number = torch.arange(n_kinds**k)
        patterns = torch.stack([number // n_kinds**place % n_kinds for place in reversed(range(k))], 1)
        used = torch.stack([(patterns == kind).sum(1) for kind in range(n_kinds)], 1)
        possible = (used <= self._counts).all(1)
        patterns, left = patterns[possible], (self._counts - used)[possible]
        if self._tilted is not None:
            chances = np.exp(self._tilted.log_chances(patterns.numpy() == 0))
            return self._values(self._completed(patterns, left)), chances
        # Falling factorials count the draws without replacement.
        taken = torch.arange(k)
        ways = (self._counts[:, None] - taken).clamp(min=1).to(torch.float64).log().cumsum(1)
        ways = torch.cat([ways.new_zeros(n_kinds, 1), ways], 1)
        log_chance = ways.gather(1, used[possible].T).sum(0) - (self.profile.n - taken).to(torch.float64).log().sum()
        return self._values(self._completed(patterns, left)), log_chance.exp().numpy()

    def random_values(self, samples: int, seed: int) -> Floats:
        """Return the metric of `samples` random orders, which depend on the list and the seed alone."""
        return self._values(self._random(samples, seed))

    def _all(self) -> Iterator[Kinds]:
        rows = max(1, _CHUNK_ITEMS // max(self.profile.n, 1))
        number = int(self.number)
        for start in range(0, number, rows):
            index = torch.arange(start, min(start + rows, number))
            counts = self._counts.expand(len(index), -1)
            yield orders_at(counts, torch.full_like(index, number), index)

    def _completed(self, patterns: Kinds, left: Tensor) -> Iterator[Kinds]:
        """Yield the patterns of the first ranks, followed by the remaining items in descending order of grade."""
        place = torch.arange(self.profile.n - self._k)
        rows = max(1, _CHUNK_ITEMS // max(self.profile.n, 1))
        for own, rest in zip(torch.split(patterns, rows), torch.split(left, rows), strict=True):
            below = (place[None, :, None] >= rest.cumsum(1)[:, None, :]).sum(2)
            yield torch.cat([own, below], 1)

    def _random(self, samples: int, seed: int) -> Iterator[Kinds]:
        n, p = self.profile.n, self.profile.p
        rows = max(1, _CHUNK_ITEMS // max(n, 1))
        sizes = [min(rows, samples - start) for start in range(0, samples, rows)]
        if self._tilted is not None:
            for flags in self._tilted.drawn(samples, seed):
                yield torch.from_numpy(~flags).to(torch.int64)
            return
        if self.profile.grades is None:
            generator = np.random.default_rng((seed, n, p))
            for size in sizes:
                yield torch.from_numpy(~random_sets(generator, size, n, p)).to(torch.int64)
            return
        generator = np.random.default_rng((seed, n, self.profile.key % 2**64))
        kinds = np.repeat(np.arange(len(self._grades), dtype=np.int64), self._counts.numpy())
        for size in sizes:
            yield torch.from_numpy(generator.permuted(np.tile(kinds, (size, 1)), axis=1))

    def _values(self, orders: Iterator[Kinds]) -> Floats:
        if isinstance(self.metric, AdditiveMetric):
            gains = self.metric.gains(self._grades).to(torch.float64)
            weights = torch.from_numpy(rank_discounts(self.metric, self.profile.n)) / self._normaliser(self.metric)
            return np.concatenate([(gains[kinds] @ weights).numpy() for kinds in orders])
        return np.concatenate([values_of_orders(self.metric, self._grades[kinds]) for kinds in orders])

    def _normaliser(self, metric: AdditiveMetric) -> Tensor:
        normaliser = metric.normaliser(self._relevance, Lists(torch.tensor([0, self.profile.n])))
        return torch.where(normaliser == 0, torch.nan, normaliser)


def values_of_orders(metric: Metric, relevance: Tensor) -> Floats:
    """Return the metric of each row of `relevance` `(n_orders, n)`, grades by rank from the top, float64."""
    rows, n = relevance.shape
    flat, lists = relevance.reshape(-1), Lists(torch.arange(rows + 1) * n)
    ranks = hard_ranks(torch.arange(rows * n), lists, metric.rank_weights(flat))
    kept = metric.relevant(flat)
    ranks = replace(ranks, position=ranks.position[kept], above=tuple(weight[kept] for weight in ranks.above))
    return np.asarray(metric.of_ranks(ranks, flat[kept], lists.keep(kept)).to(torch.float64).numpy())
