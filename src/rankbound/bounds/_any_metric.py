"""The scores of any metric over the orders of one list, computed from its function of ranks alone.

The scores are those of all distinct orders if they are few, of all patterns of the first k ranks if the metric has a
cut-off and they are few, or of random orders.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from rankbound.bounds._atoms import EPSILON, PRIME, Atoms, Integers, merge, residues
from rankbound.bounds._sampled import random_sets, ulps_of_sum
from rankbound.bounds._scores import Floats, rank_discounts
from rankbound.bounds._tilted import UNIFORM, TiltedOrders
from rankbound.bounds.profiles import Profile
from rankbound.lists import Lists, on_cpu
from rankbound.metrics import Metric
from rankbound.metrics.average_precision import AveragePrecision, BinaryPreference, InferredAveragePrecision
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.precision import InterpolatedPrecision
from rankbound.ranks import hard_ranks, n_orders, orders_at

FEW_ORDERS = 200_000
"""Up to this many orders, or patterns of the first ranks, are enumerated."""
FEW_ITEMS = 20_000_000
"""Orders are enumerated only if they have at most this many items in total."""
MEAN_SAMPLES = 20_000
"""Random orders for the mean of a metric without a closed form; the standard error is sd / 141."""
OF_FRACTIONS = (AveragePrecision, BinaryPreference, InferredAveragePrecision, InterpolatedPrecision)
"""Metrics whose different values differ by more than rounding: sums of fractions of ranks."""
_CHUNK_ITEMS = 2_000_000
"""Number of items of all orders in memory at once."""

Kinds = Tensor
"""The index of the grade at each rank, among the list's distinct grades in descending order: (n_orders, n_ranks)."""


@lru_cache(maxsize=16384)
@on_cpu
def mean_over_orders(metric: Metric, profile: Profile) -> float:
    """Return the mean over all orders if they are few, otherwise over `MEAN_SAMPLES` random ones; NaN if undefined."""
    orders = Orders(metric, profile)
    values = orders.values_of(orders.all() if orders.are_few() else orders.random(MEAN_SAMPLES, seed=0))
    return float(values.mean())


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

    def atoms_of_all(self) -> Atoms:
        """Return the distribution over all orders."""
        if self._tilted is None:
            return self._atoms(self.all())
        chances = [np.exp(self._tilted.log_chances(kinds.numpy() == 0)) for kinds in self.all()]
        return self._atoms(self.all(), np.concatenate(chances))

    def atoms_of_patterns(self) -> Atoms:
        """Return the distribution over all orders from the patterns of grades in the first k ranks."""
        n_kinds, k = len(self._grades), self._k
        number = torch.arange(n_kinds**k)
        patterns = torch.stack([number // n_kinds**place % n_kinds for place in reversed(range(k))], 1)
        used = torch.stack([(patterns == kind).sum(1) for kind in range(n_kinds)], 1)
        possible = (used <= self._counts).all(1)
        patterns, left = patterns[possible], (self._counts - used)[possible]
        if self._tilted is not None:
            chances = np.exp(self._tilted.log_chances(patterns.numpy() == 0))
            return self._atoms(self._completed(patterns, left), chances)
        # Falling factorials count the draws without replacement.
        taken = torch.arange(k)
        ways = (self._counts[:, None] - taken).clamp(min=1).to(torch.float64).log().cumsum(1)
        ways = torch.cat([ways.new_zeros(n_kinds, 1), ways], 1)
        log_chance = ways.gather(1, used[possible].T).sum(0) - (self.profile.n - taken).to(torch.float64).log().sum()
        return self._atoms(self._completed(patterns, left), log_chance.exp().numpy())

    def atoms_of_random(self, samples: int, seed: int) -> Atoms:
        """Return the distribution over `samples` random orders, which depend on the list and the seed alone."""
        return self._atoms(self.random(samples, seed))

    def all(self) -> Iterator[Kinds]:
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

    def random(self, samples: int, seed: int) -> Iterator[Kinds]:
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

    def values_of(self, orders: Iterator[Kinds]) -> Floats:
        """Return the metric of each order."""
        return np.concatenate([self._of_kinds(kinds)[0] for kinds in orders])

    def _atoms(self, orders: Iterator[Kinds], chances: Floats | None = None) -> Atoms:
        """Return the distribution over orders, equally likely by default; NaN if the metric is undefined for one."""
        values, keys = (np.concatenate(part) for part in zip(*map(self._of_kinds, orders), strict=True))
        if np.isnan(values).any():
            return Atoms(np.array([np.nan]), np.ones(1))
        ulps, scale = ulps_of_sum(self._k), 0.0
        if not isinstance(self.metric, AdditiveMetric):
            # Sums of positive terms are exact relative to the sum, differences only relative to their terms.
            scale = float(np.abs(values).max())
            values = np.where(np.abs(values) <= ulps * EPSILON * scale, 0.0, values)
        return merge(values, chances, keys, ulps=ulps, scale=scale)

    def _of_kinds(self, kinds: Kinds) -> tuple[Floats, Integers | Floats]:
        """Return the metric of each order, and keys that are equal where values are equal but for rounding."""
        # A metric of a user who may stop at each item, by its own class: a subclass may change what it inherits.
        if (stops := vars(type(self.metric)).get("stops")) is not None:
            return self._of_cascade(stops(self.metric, self._grades).tolist(), kinds.numpy())
        if not isinstance(self.metric, AdditiveMetric):
            values = values_of_orders(self.metric, self._grades[kinds])
            return values, np.zeros(len(values)) if type(self.metric) in OF_FRACTIONS else values
        terms, tokens = self._terms
        ranks = np.arange(self.profile.n)
        return terms.gather(0, kinds).sum(1).numpy(), tokens[kinds.numpy(), ranks].sum(axis=1) % PRIME

    def _of_cascade(self, stops: list[float], kinds: Integers) -> tuple[Floats, Integers]:
        """Return the value of each order, given the kinds' probabilities of stopping, and its residue."""
        stop, ratios = np.array(stops), [one.as_integer_ratio() for one in stops]
        of_stop = np.array([above * pow(below, -1, PRIME) % PRIME for above, below in ratios])
        value, going = np.zeros(len(kinds)), np.ones(len(kinds))
        residue, of_going = np.zeros(len(kinds), dtype=np.int64), np.ones(len(kinds), dtype=np.int64)
        for rank, kind in enumerate(kinds.T[: self._k], start=1):
            value += going * stop[kind] / rank
            going *= 1 - stop[kind]
            residue += of_going * of_stop[kind] % PRIME * pow(rank, -1, PRIME) % PRIME
            of_going = of_going * ((1 - of_stop[kind]) % PRIME) % PRIME
        return value, residue % PRIME

    @cached_property
    def _terms(self) -> tuple[Tensor, Integers]:
        """The term of an item of each kind at each rank `(n_kinds, n)`, and their residues."""
        assert isinstance(self.metric, AdditiveMetric)
        self.metric.require_gains_that_fit(self._grades, torch.float64)
        gains = self.metric.gains(self._grades).to(torch.float64)
        discounts = rank_discounts(self.metric, self.profile.n)
        terms = gains[:, None] * torch.from_numpy(discounts) / self._normaliser(self.metric)
        ratios = [gain.as_integer_ratio() for gain in gains.tolist()]
        exact = np.array([above * pow(below, -1, PRIME) % PRIME for above, below in ratios])
        return terms, exact[:, None] * residues(discounts) % PRIME

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
