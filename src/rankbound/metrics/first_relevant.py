r"""Metrics of the first relevant item, reciprocal rank and hit at k, and the places of relevant items among ties.

The place $J_k$ of the k-th of $m$ relevant items among $n$ in random order is negative hypergeometric:
$P(J_k = j) = \binom{j-1}{k-1} \binom{n-j}{m-k} / \binom{n}{m}$. Metrics need sums over j; many sums of different
lengths are computed together, a bounded number of terms at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rankbound.kernels import formulas
from rankbound.kernels.formulas import TABLE_SIZE, Floats, Integers
from rankbound.lazy import Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.metrics.base import Thresholded, by_tensors

# Number of terms in memory at once, about 200 bytes each.
TERMS_AT_ONCE = 500_000

# Places whose total probability is below this are omitted.
NEGLIGIBLE = 1e-18


@dataclass(frozen=True, kw_only=True)
class ReciprocalRank(Thresholded):
    r"""Reciprocal rank of the first relevant item (Murphy 2012, MRR; Voorhees, TREC 1999).

    $$\mathrm{RR@}k = \frac{1[R \le k]}{R}, \qquad R = \min\{R_i : y_i \ge \mathrm{rel}\}$$

    NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1.
        cutoff: k; by default all ranks count. The value is 0 if none of the first k items is relevant.

    Raises:
        ValueError: for `rel` or `cutoff` below 1.

    >>> rb.metric("RR")([0.9, 0.5, 0.1], [0, 1, 1], [0, 3])
    array([0.5])
    """

    name = "RR"
    formula = formulas.RECIPROCAL_RANK
    cutoff: int | None = None

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance)
        best = lists.max(torch.where(relevant, ranks.within(self.cutoff) / ranks.position, -1.0))
        return torch.where(best >= 0, best, torch.nan)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        return _of_first_blocks(self.relevant(relevance), blocks, self._mean, torch.nan)

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        last = n - p + 1
        lowest = 1 / last if self.cutoff is None else (last <= self.cutoff) / last
        return np.where(p == 0, np.nan, lowest), np.where(p == 0, np.nan, 1.0)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        return np.where(p == 0, np.nan, by_tensors(self._mean, n, p.clip(1), 0 * n))

    def _mean(self, size: Tensor, relevant: Tensor, above: Tensor) -> Tensor:
        return mean_discount(size, relevant, torch.ones_like(relevant), above, self.cutoff)


@dataclass(frozen=True, kw_only=True)
class Hit(Thresholded):
    r"""Hit at k, also called success or hit rate (Deshpande and Karypis, TOIS 2004).

    $$\mathrm{Hit@}k = 1[\min\{R_i : y_i \ge \mathrm{rel}\} \le k]$$

    It is 1 if one of the first k items is relevant, otherwise 0. With smooth ranks it is the membership of the best
    relevant item, $\sigma((k + \frac12 - \min \tilde R_i)/\tau)$.

    Args:
        rel: the lowest relevant grade, from 1.
        cutoff: k.

    Raises:
        ValueError: for `rel` or `cutoff` below 1.

    >>> rb.metric("Hit@2")([0.9, 0.5, 0.1], [0, 1, 0], [0, 3])
    array([1.])
    """

    name = "Hit"
    formula = formulas.HIT
    cutoff: int

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        return lists.max(torch.where(self.relevant(relevance), ranks.within(self.cutoff), 0.0)).clamp(min=0)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        return _of_first_blocks(self.relevant(relevance), blocks, self._chance, 0.0)

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        return ((p > 0) & (n - p < self.cutoff)).astype(np.float64), (p > 0).astype(np.float64)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        return by_tensors(self._chance, n, p, 0 * n)

    def _chance(self, size: Tensor, relevant: Tensor, above: Tensor) -> Tensor:
        """Return the probability of a hit in a block of `size` items, `relevant` of them relevant, below `above`."""
        places = torch.minimum(size, (self.cutoff - above).clamp(min=0))
        return -torch.expm1(log_chance_of_none(size, relevant, places))


def _of_first_blocks(
    relevant: Tensor, blocks: TieBlocks, value: Callable[[Tensor, Tensor, Tensor], Tensor], otherwise: float
) -> Tensor:
    """Return the value of each list by `(size, relevant, above)` of the block of its first relevant item, if any."""
    inside = blocks.sum(relevant.to(torch.float64))
    first = torch.nonzero((inside > 0) & (blocks.before(inside) == 0)).squeeze(1)
    values = torch.full((len(blocks.lists),), otherwise, dtype=torch.float64, device=inside.device)
    values[blocks.lists.segment[first]] = value(
        blocks.size[first], inside[first].to(torch.int64), blocks.first[first] - 1
    )
    return values


def ragged_sums(lengths: Tensor, terms: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return the sum over place = 0 .. lengths[case] - 1 of `terms(case, place)`, float64 `(n_cases,)`.

    `terms` takes the indices of cases and places, both `(n_terms,)`, and returns the terms.
    """
    from rankbound.lists import Lists

    chunks = torch.div(lengths.cumsum(0), TERMS_AT_ONCE, rounding_mode="floor")
    first, sums = 0, []
    for n_cases in torch.unique_consecutive(chunks, return_counts=True)[1].tolist():
        part = lengths[first : first + n_cases]
        places = Lists.of_sizes(part)
        sums.append(places.sum(terms(first + places.segment, places.position)))
        first += n_cases
    return torch.cat(sums) if sums else lengths.new_zeros(0, dtype=torch.float64)


def mean_discount(
    size: Tensor,
    relevant: Tensor,
    which: Tensor,
    above: Tensor,
    cutoff: int | None,
    discount: Callable[[Tensor], Tensor] = lambda rank: 1 / rank,
) -> Tensor:
    """Return the mean of `discount(above + J)`, by default 1/(above + J), with terms beyond the cut-off 0.

    J is the place of the `which`-th of `relevant` items among `size`. All arguments are integers of shape `(n_cases,)`
    with 1 <= which <= relevant <= size.
    """
    others = size - relevant
    lengths = torch.minimum(others, _likely_others(size, relevant, which)) + 1
    if cutoff is not None:
        lengths = torch.minimum(lengths, cutoff - above - which + 1).clamp(min=0)
    log_orders = log_binomial(size, relevant)

    def terms(case: Tensor, others_above: Tensor) -> Tensor:
        k, m, rest = which[case], relevant[case], others[case] - others_above
        log_ways = log_binomial(k - 1 + others_above, k - 1) + log_binomial(m - k + rest, m - k)
        rank = (above[case] + k + others_above).to(torch.float64)
        return torch.exp(log_ways - log_orders[case]) * discount(rank)

    return ragged_sums(lengths, terms)


def log_chance_of_none(size: Tensor, relevant: Tensor, places: Tensor) -> Tensor:
    r"""Return the log-probability that none of `relevant` items among `size` is in the first `places`, `(n_cases,)`.

    $\binom{n-m}{c} / \binom{n}{c} = \prod_{i<c} (1 - \frac{m}{n-i})$, symmetric in m and c.
    """
    fewer, more = torch.minimum(relevant, places), torch.maximum(relevant, places).to(torch.float64)
    # If m + c > n, one factor is 0, and the factors after it, which would be negative, are clamped.
    return ragged_sums(fewer, lambda case, i: torch.log1p((-more[case] / (size[case] - i)).clamp(min=-1)))


def log_binomial(n: Tensor, k: Tensor) -> Tensor:
    """Return the logarithm of the binomial coefficient n over k, for integers 0 <= k <= n."""
    # Its entries are computed alike if there are enough of them for vector instructions.
    table = _log_factorials(max(TABLE_SIZE, 1 << (int(n.max()) if len(n) else 0).bit_length()), n.device)
    return table.index_select(0, n) - table.index_select(0, k) - table.index_select(0, n - k)


def _likely_others(size: Tensor, relevant: Tensor, which: Tensor) -> Tensor:
    """Return an upper limit of the other items above the `which`-th relevant one, up to a negligible probability.

    There are more than j - k if fewer than k of the first j items are relevant. Their mean number is M = j m / n, so by
    Chernoff's bound the probability is below exp(-(M - k)^2 / (2 M)).
    """
    surprise = -torch.log(torch.tensor(NEGLIGIBLE, dtype=torch.float64, device=size.device))
    mean = which + surprise + torch.sqrt(surprise * (surprise + 2 * which))
    return torch.ceil(mean * size / relevant).to(torch.int64) - which


@lru_cache(maxsize=8)
def _log_factorials(size: int, device: "torch.device") -> Tensor:
    return torch.lgamma(torch.arange(1, size + 1, dtype=torch.float64, device=device))
