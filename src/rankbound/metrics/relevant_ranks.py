"""Metrics of how the relevant items lie among each other: average precision and reciprocal rank."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics.base import Metric
from rankbound.ranks import Ranks, TieBlocks


@dataclass(frozen=True, kw_only=True)
class AveragePrecision(Metric):
    r"""Average precision (thesis eqs. 2.6, 2.8): the mean over the relevant items of the precision at their ranks.

    $$\mathrm{AP} = \frac{1}{P} \sum_{i: y_i \ge \mathrm{rel}} \frac{A_i}{R_i}$$

    with $A_i$ the rank among the relevant items. NaN without relevant items. A block of ties after rank $t$ with $n$
    items, $m$ of them relevant, and $c$ relevant ones above adds
    $\frac{m}{n}\sum_{j=1}^n \frac{c + 1 + (j-1)(m-1)/(n-1)}{t+j}$ in the mean over its orders.
    """

    name: ClassVar[str] = "AP"
    uses_grades: ClassVar[bool] = False

    rel: int = 1

    def relevant(self, relevance: Tensor) -> Tensor:
        return relevance >= self.rel

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (self.relevant(relevance),)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        (above,) = ranks.above
        relevant = self.relevant(relevance).to(ranks.position)
        count = lists.sum(relevant)
        return lists.sum(relevant * (1 + above) / ranks.position) / torch.where(count == 0, torch.nan, count)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        inside = blocks.sum(self.relevant(relevance).to(torch.float64))
        harmonic = _harmonic_numbers(int(lists.sizes.max()) if len(lists) else 0, lists.device)
        above = blocks.first - 1
        reciprocals = harmonic[above + blocks.size] - harmonic[above]
        others = (inside - 1) / (blocks.size - 1).clamp(min=1)
        terms = (blocks.before(inside) + 1) * reciprocals + others * (blocks.size - blocks.first * reciprocals)
        count = blocks.lists.sum(inside)
        return blocks.lists.sum(inside / blocks.size * terms) / torch.where(count == 0, torch.nan, count)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Thesis eq. 3.4: the worst order's mean of i/(N-P+i); the ideal order scores 1."""
        harmonic = _harmonic_numbers(int(n.max()) if len(n) else 0, n.device)
        lowest = 1 - (n - p) * (harmonic[n] - harmonic[n - p]) / torch.where(p == 0, torch.nan, p)
        return lowest, torch.where(p == 0, torch.nan, torch.ones_like(lowest))

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        """Thesis eq. 3.10 in closed form: ((P-1)/(N-1) (N - H_N) + H_N) / N."""
        harmonic = _harmonic_numbers(int(n.max()) if len(n) else 0, n.device)[n]
        others = (p - 1).to(torch.float64) / (n - 1).clamp(min=1)
        mean = (others * (n - harmonic) + harmonic) / n
        return torch.where(p == 0, torch.nan, mean)


@dataclass(frozen=True, kw_only=True)
class ReciprocalRank(Metric):
    r"""Reciprocal rank (Murphy, MRR): $1/\min\{R_i : y_i \ge \mathrm{rel}\}$; NaN without relevant items.

    In a block of $n$ ties with $m$ relevant ones the first stands at place $j$ with probability
    $\binom{n-j}{m-1}/\binom{n}{m}$.
    """

    name: ClassVar[str] = "RR"
    uses_grades: ClassVar[bool] = False

    rel: int = 1

    def relevant(self, relevance: Tensor) -> Tensor:
        return relevance >= self.rel

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        reciprocals = torch.where(self.relevant(relevance), 1 / ranks.position, 0.0)
        best = lists.max(reciprocals)
        return torch.where(best > 0, best, torch.nan)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        inside = blocks.sum(self.relevant(relevance).to(torch.float64))
        first = torch.nonzero((inside > 0) & (blocks.before(inside) == 0)).squeeze(1)
        value = torch.full((len(lists),), torch.nan, dtype=torch.float64, device=lists.device)
        value[blocks.lists.segment[first]] = _mean_reciprocal_of_first(
            blocks.size[first], inside[first], blocks.first[first] - 1
        )
        return value

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        lowest = torch.where(p == 0, torch.nan, 1 / (n - p + 1).to(torch.float64))
        return lowest, torch.where(p == 0, torch.nan, torch.ones_like(lowest))

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        relevant = p.clamp(min=1)
        mean = _mean_reciprocal_of_first(n, relevant.to(torch.float64), torch.zeros_like(n))
        return torch.where(p == 0, torch.nan, mean)


def _mean_reciprocal_of_first(size: Tensor, relevant: Tensor, above: Tensor) -> Tensor:
    """Mean of 1/(above + J), J the first of `relevant` items among `size` in random order."""
    places = Lists(torch.cat([size.new_zeros(1), size.cumsum(0)]))
    n, m = size[places.segment].to(torch.float64), relevant[places.segment]
    j = places.position + 1.0
    # log of binom(n - j, m - 1) / binom(n, m); places too low for m items have probability 0.
    possible = n - j - m + 1 >= 0
    rest = torch.where(possible, n - j, m - 1)
    log_ways = torch.lgamma(rest + 1) - torch.lgamma(rest - m + 2) + torch.log(m)
    log_chance = log_ways + torch.lgamma(n - m + 1) - torch.lgamma(n + 1)
    chance = torch.where(possible, torch.exp(log_chance), 0.0)
    return places.sum(chance / (above[places.segment] + j))


def _harmonic_numbers(size: int, device: torch.device) -> Tensor:
    """H_0 .. H_size and perhaps further."""
    return _harmonic_table(1 << max(size - 1, 255).bit_length(), device)


@lru_cache(maxsize=8)
def _harmonic_table(size: int, device: torch.device) -> Tensor:
    terms = 1 / torch.arange(1, size + 1, dtype=torch.float64, device=device)
    return torch.cat([terms.new_zeros(1), terms.cumsum(0)])
