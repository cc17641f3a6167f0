"""Profiles of lists, on which score distributions depend, and the scores of any metric over a profile's orders.

A profile is the number of items of each grade: for binary relevance the pair (N, P), for graded relevance the sorted
grades. The scores are computed from the metric's function of ranks alone: those of all distinct orders if they are few,
of all patterns of the first k ranks if the metric has a cut-off and they are few, or of random orders. Metrics that
take few values on binary lists, or that count pairs, have closed forms (`closed_form`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankbound.bounds.exact import EXACT_INTEGERS, rank_sums
from rankbound.bounds.sums import (
    CHUNK_ITEMS,
    EPSILON,
    PRIME,
    UNIFORM,
    Atoms,
    RandomOrders,
    discounts_of,
    merge,
    residues,
    ulps_of_sum,
)
from rankbound.kernels.formulas import Floats, Integers
from rankbound.lists import Lists, on_cpu
from rankbound.metrics import Metric
from rankbound.metrics.average_precision import AveragePrecision, BinaryPreference, InferredAveragePrecision
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.first_relevant import Hit, ReciprocalRank
from rankbound.metrics.pairs import RankedPairs
from rankbound.metrics.precision import InterpolatedPrecision, Precision, RPrecision
from rankbound.ranks import hard_ranks, n_orders

Kinds = Tensor
"""The index of the grade at each rank, among the list's distinct grades in descending order: (n_orders, n_ranks)."""
FEW_ORDERS = 200_000
"""Up to this many orders, or patterns of the first ranks, are enumerated."""
FEW_ITEMS = 20_000_000
"""Orders are enumerated only if they have at most this many items in total."""
MEAN_SAMPLES = 20_000
"""Random orders for the mean of a metric without a closed form; the standard error is sd / 141."""
OF_FRACTIONS = (AveragePrecision, BinaryPreference, InferredAveragePrecision, InterpolatedPrecision)
"""Metrics whose different values differ by more than rounding: sums of fractions of ranks."""
# Upper limit of the search for the lowest grade that a metric counts as relevant.
_MOST_GRADES = 256
# Multipliers of Stafford's 64-bit mix, written as signed integers.
_SCATTER = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_GRADED = torch.iinfo(torch.int64).min


@dataclass(frozen=True)
class Profile:
    """The profile of a list: `n` items, `p` of them relevant; `grades`, descending, if the relevance is graded."""

    n: int
    p: int
    grades: tuple[float, ...] | None = None

    def relevance(self, metric: Metric) -> Tensor:
        """Return the list's grades, descending; a binary list has the lowest grade that the metric counts, and 0."""
        if self.grades is None:
            return counted_grade(metric) * (torch.arange(self.n) < self.p).to(torch.int64)
        grades = torch.tensor(self.grades, dtype=torch.float64)
        return grades.to(torch.int64) if bool((grades == grades.trunc()).all()) else grades

    @property
    def key(self) -> int:
        """An integer that identifies the profile; at least 0 and ascending with (n, p) for a binary one."""
        return int(self.n) << 32 | int(self.p) if self.grades is None else _graded_key(self.grades)

    def __str__(self) -> str:
        if self.grades is None:
            return f"{self.n} items with {self.p} relevant"
        kinds, counts = np.unique(self.grades, return_counts=True)
        return f"{self.n} items with " + ", ".join(
            f"{count} of grade {kind:g}" for kind, count in zip(kinds[::-1], counts[::-1], strict=True)
        )


@lru_cache(maxsize=256)
@on_cpu
def counted_grade(metric: Metric) -> int:
    """Return the lowest grade that the metric counts as relevant."""
    return int(metric.relevant(torch.arange(1, _MOST_GRADES)).to(torch.int8).argmax()) + 1


@lru_cache(maxsize=4096)
@on_cpu
def _graded_key(grades: tuple[float, ...]) -> int:
    lists = Lists(torch.tensor([0, len(grades)]))
    return int(graded_keys(torch.tensor(grades, dtype=torch.float64), lists)[0])


def graded_keys(relevance: Tensor, lists: Lists) -> Tensor:
    """Return a negative hash of each list's grades, independent of their order: the hashed sum of hashed grades.

    The probability of a collision among a million different lists is 1e-7.
    """
    # Adding 0 turns -0.0 into 0.0.
    bits = (relevance.to(torch.float64) + 0.0).view(torch.int64)
    total = torch.zeros_like(lists.sizes).index_add(0, lists.segment, _scattered(bits))
    return _scattered(total + lists.sizes) | _GRADED


def _scattered(bits: Tensor) -> Tensor:
    for odd in _SCATTER:
        bits = (bits ^ (bits >> 30)) * odd
    return bits ^ (bits >> 31)


@lru_cache(maxsize=16384)
@on_cpu
def mean_over_orders(metric: Metric, profile: Profile) -> float:
    """Return the mean over all orders if they are few, otherwise over `MEAN_SAMPLES` random ones; NaN if undefined."""
    orders = Orders(metric, profile)
    drawn = orders.beginning_with(profile.n)[0] if orders.are_few() else orders.random(MEAN_SAMPLES, seed=0)
    return float(np.concatenate([orders.of_kinds(kinds)[0] for kinds in drawn]).mean())


class Orders:
    """The orders of one list and their scores under a metric; equally likely, or (binary lists only) tilted."""

    def __init__(self, metric: Metric, profile: Profile, tilt: float = UNIFORM) -> None:
        self.metric, self.profile = metric, profile
        self._random = RandomOrders(profile.n, profile.p, tilt)
        self._relevance = profile.relevance(metric)
        grades, counts = torch.unique(self._relevance, return_counts=True)
        self._grades, self._counts = grades.flip(0), counts.flip(0).numpy()
        self.number = n_orders(self._counts.tolist())
        self._k = min(getattr(metric, "cutoff", None) or profile.n, profile.n)
        self._rows = max(1, CHUNK_ITEMS // max(profile.n, 1))

    def are_few(self, most: int = FEW_ORDERS) -> bool:
        """Return true if all orders can be enumerated and are at most `most`."""
        return self.number <= min(most, FEW_ORDERS) and self.number * self.profile.n <= FEW_ITEMS

    def exact_atoms(self, most: int = FEW_ORDERS) -> Atoms | None:
        """Return the distribution by a closed form, or over all orders or all patterns if these are at most `most`."""
        n, p, patterns = self.profile.n, self.profile.p, len(self._grades) ** self._k
        atoms = closed_form(self.metric, self._random) if self.profile.grades is None and 0 < p < n else None
        if atoms is not None:
            return atoms
        if self.are_few(most):
            return self.atoms(*self.beginning_with(n))
        has_few_patterns = patterns <= min(most, FEW_ORDERS) and patterns * n <= FEW_ITEMS
        return self.atoms(*self.beginning_with(self._k)) if self._k < n and has_few_patterns else None

    def beginning_with(self, k: int) -> tuple[Iterator[Kinds], Floats | None]:
        """Return one order for each pattern of the first k ranks, and the patterns' chances unless they are equal.

        Patterns are extended rank by rank, and followed by the remaining items in descending order of grade.
        """
        left, log_chance, levels = self._counts[None], np.zeros(1), []
        tilts = np.where(np.arange(left.shape[1]) == 0, self._random.tilt, 1.0)
        for _ in range(k):
            pattern, kind = np.nonzero(left)
            levels.append((pattern.astype(np.int32), kind.astype(np.int32)))
            weights = left * tilts
            log_chance = log_chance[pattern] + np.log(weights[pattern, kind] / weights.sum(1)[pattern])
            left = left[pattern]
            left[np.arange(len(left)), kind] -= 1
        is_equal = k == self.profile.n and self._random.is_uniform
        return self._completed(levels, left), None if is_equal else np.exp(log_chance)

    def _completed(self, levels: list[tuple[Any, Any]], left: Integers) -> Iterator[Kinds]:
        place = np.arange(self.profile.n - len(levels))
        for start in range(0, len(left), self._rows):
            rest = left[start : start + self._rows].cumsum(1)
            kinds = np.empty((len(rest), self.profile.n), dtype=np.int64)
            kinds[:, len(levels) :] = (place[None, :, None] >= rest[:, None, :]).sum(2)
            row = np.arange(start, start + len(rest))
            for rank in reversed(range(len(levels))):
                pattern, kind = levels[rank]
                kinds[:, rank], row = kind[row], pattern[row]
            yield torch.from_numpy(kinds)

    def random(self, samples: int, seed: int) -> Iterator[Kinds]:
        """Yield `samples` random orders, which depend on the list and the seed alone."""
        if self.profile.grades is None:
            for flags in self._random.drawn(samples, seed):
                yield torch.from_numpy(~flags).to(torch.int64)
            return
        generator = np.random.default_rng((seed, self.profile.n, self.profile.key % 2**64))
        kinds = np.repeat(np.arange(len(self._grades), dtype=np.int64), self._counts)
        for start in range(0, samples, self._rows):
            rows = min(self._rows, samples - start)
            yield torch.from_numpy(generator.permuted(np.tile(kinds, (rows, 1)), axis=1))

    def atoms(self, orders: Iterator[Kinds], chances: Floats | None = None) -> Atoms:
        """Return the distribution over orders, equally likely by default; NaN if the metric is undefined for one."""
        values, keys = (np.concatenate(part) for part in zip(*map(self.of_kinds, orders), strict=True))
        if np.isnan(values).any():
            return Atoms(np.array([np.nan]), np.ones(1))
        ulps, scale = ulps_of_sum(self._k), 0.0
        if not isinstance(self.metric, AdditiveMetric):
            # Sums of positive terms are exact relative to the sum, differences only relative to their terms.
            scale = float(np.abs(values).max())
            values = np.where(np.abs(values) <= ulps * EPSILON * scale, 0.0, values)
        return merge(values, chances, keys, ulps=ulps, scale=scale)

    def of_kinds(self, kinds: Kinds) -> tuple[Floats, Integers | Floats]:
        """Return the metric of each order, and keys that are equal where values are equal but for rounding."""
        # A metric of a user who may stop at each item, by its own class: a subclass may change what it inherits.
        if (stops := vars(type(self.metric)).get("stops")) is not None:
            return self._of_cascade(stops(self.metric, self._grades).tolist(), kinds.numpy())
        if not isinstance(self.metric, AdditiveMetric):
            relevance, (rows, n) = self._grades[kinds].reshape(-1), kinds.shape
            lists, kept = Lists(torch.arange(rows + 1) * n), self.metric.relevant(relevance)
            ranks = hard_ranks(torch.arange(rows * n), lists, self.metric.rank_weights(relevance))
            above = tuple(weight[kept] for weight in ranks.above)
            of_kept = replace(ranks, position=ranks.position[kept], above=above)
            of_ranks = self.metric.of_ranks(of_kept, relevance[kept], lists.keep(kept))
            values = np.asarray(of_ranks.to(torch.float64).numpy())
            return values, np.zeros(len(values)) if type(self.metric) in OF_FRACTIONS else values
        terms, tokens = self._terms
        places = np.arange(self.profile.n)
        return terms.gather(0, kinds).sum(1).numpy(), tokens[kinds.numpy(), places].sum(axis=1) % PRIME

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
        discounts = discounts_of(self.metric, self.profile.n)
        normaliser = self.metric.normaliser(self._relevance, Lists(torch.tensor([0, self.profile.n])))
        terms = gains[:, None] * torch.from_numpy(discounts) / torch.where(normaliser == 0, torch.nan, normaliser)
        ratios = [gain.as_integer_ratio() for gain in gains.tolist()]
        exact = np.array([above * pow(below, -1, PRIME) % PRIME for above, below in ratios])
        return terms, exact[:, None] * residues(discounts) % PRIME


def closed_form(metric: Metric, orders: RandomOrders) -> Atoms | None:
    """Return the distribution over random orders of a list with 0 < P < N; `None` without a formula."""
    n, p = orders.n, orders.p
    if isinstance(metric, RankedPairs):
        # A monotonic function of the number of wrongly ordered pairs (Mann-Whitney U).
        if p * (n - p) > EXACT_INTEGERS:
            return None
        probability = rank_sums(orders)
        wrong = np.arange(float(len(probability)))
        values = metric.of_wrong_pairs(wrong, np.full_like(wrong, n), np.full_like(wrong, p))
        ascending = slice(None) if values[0] <= values[-1] else slice(None, None, -1)
        return Atoms(values[ascending].copy(), probability[ascending].copy())
    if type(metric) is RPrecision:
        metric = Precision(cutoff=p)
    if isinstance(metric, AdditiveMetric):
        # The hypergeometric distribution of P@k, recall@k or CG@k, whose discount is a step.
        discounts = discounts_of(metric, n)
        k = int(np.count_nonzero(discounts == discounts[0]))
        if discounts[0] == 0 or discounts[k:].any():
            return None
        hits = np.arange(max(0, k - (n - p)), min(k, p) + 1)
        normaliser = float(metric.binary_normaliser(np.array([p]))[0])
        return Atoms(hits * discounts[0] / normaliser, orders.chances_of_hits(k, hits))
    if type(metric) not in (ReciprocalRank, Hit):
        return None
    chances = orders.chances_of_first()
    last = min(getattr(metric, "cutoff", None) or n, len(chances))
    missed = chances[last:].sum()
    if type(metric) is ReciprocalRank:
        values, own = 1.0 / np.arange(last, 0.0, -1.0), chances[:last][::-1]
    else:
        values, own = np.ones(1), np.array([1.0 - missed])
    if last == len(chances):
        return Atoms(values, own.copy())
    return Atoms(np.concatenate([[0.0], values]), np.concatenate([[missed], own]))
