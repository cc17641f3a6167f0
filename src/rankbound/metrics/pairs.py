r"""Metrics of pairs of items: sums of ranks, and counts of correctly ordered pairs.

Their mean over ties only needs the mean rank of each block. With smooth ranks, they are sums of sigmoids over pairs:
$\sum_i y_i \tilde R_i$ is, up to a constant per list, $\sum_{y_i > y_j} (y_i - y_j)\,\sigma(s_j - s_i)$.
"""

import math
from abc import abstractmethod

import numpy as np

from rankbound.kernels import formulas
from rankbound.kernels.formulas import Array, Floats, Integers
from rankbound.lazy import Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.metrics.base import Metric, Thresholded, Values, one_of, ratio


class RankedPairs(Metric):
    """A metric that is linear in the ranks and in sums over the items above: its mean over ties is its value at theirs.

    If relevance is binary, it depends on the number of wrongly ordered pairs alone (Mann-Whitney U).
    """

    @abstractmethod
    def of_wrong_pairs(self, wrong: Array, n: Array, p: Array) -> Array:
        """Return the value of lists of `n` items, `p` of them of grade 1, with `wrong` pairs in the wrong order."""

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        return self.of_ranks(blocks.mean_ranks(lists, self.rank_weights(relevance)), relevance, lists)

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        ends = [self.of_wrong_pairs(wrong, n, p) for wrong in (0.0 * n, 1.0 * p * (n - p))]
        return np.minimum(*ends), np.maximum(*ends)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        return self.of_wrong_pairs(p * (n - p) / 2, n, p)


class RankSum(Thresholded, RankedPairs):
    r"""The nRBP loss (thesis eq. 2.12), a sum of ranks.

    $$\mathrm{nRBP} = \sum_i y_i (R_i - 1) - \frac{P(P-1)}{2}$$

    from 0 (ideal) to $P(N - P)$; lower is better. With hard ranks it is the number of wrongly ordered (relevant, other)
    pairs, the Mann-Whitney U statistic. NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1; $y_i$ is 1 from there, and 0 below.

    Raises:
        ValueError: for `rel` below 1.

    >>> rb.metric("nRBP")([0.9, 0.5, 0.1], [0, 0, 1], [0, 3])
    array([2.])
    """

    name = "nRBP"
    span = (0.0, math.inf)
    higher_is_better = False
    formula = formulas.RANK_SUM

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance).to(ranks.position)
        p = lists.sum(relevant)
        # Ranks from 0: smaller terms keep more digits of the sum.
        wrong = lists.sum(relevant * (ranks.position - 1)) - p * (p - 1) / 2
        return torch.where(p == 0, torch.nan, wrong)

    def of_wrong_pairs(self, wrong: Array, n: Array, p: Array) -> Array:
        return np.where(p == 0, np.nan, wrong)


class LinearDCG(RankedPairs):
    r"""DCG with a linear discount (Jin and Geng, arXiv 2013, eq. 1).

    $$\mathrm{DCG}^\beta = \sum_i y_i (N - R_i)$$

    >>> rb.metric("LinearDCG")([0.9, 0.5, 0.1], [2, 1, 0], [0, 3])
    array([5.])
    """

    name = "LinearDCG"
    span = (0.0, math.inf)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        return lists.sum(relevance.to(ranks.position) * (lists.spread(ranks.sizes) - ranks.position))

    def of_wrong_pairs(self, wrong: Array, n: Array, p: Array) -> Array:
        return np.asarray(p * n - p * (p + 1) / 2 - wrong)


class LinearNDCG(LinearDCG):
    r"""Linear DCG over that of the ideal order (Jin and Geng, arXiv 2013, eq. 1).

    $$\mathrm{NDCG}^\beta = \frac{\sum_i y_i (N - R_i)}{\max_\pi \sum_i y_i (N - \pi_i)}$$

    NaN where the divisor is 0: no relevant item, or N = 1.

    >>> rb.metric("LinearNDCG")([0.9, 0.5, 0.1], [0, 1, 0], [0, 3])
    array([0.5])
    """

    name = "LinearNDCG"
    span = (0.0, 1.0)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        return super().informative(relevance, lists) & (lists.sizes > 1)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        total, ideal_ranks = _grade_sums(relevance, lists)
        return ratio(super().of_ranks(ranks, relevance, lists), ranks.sizes * total - ideal_ranks)

    def of_wrong_pairs(self, wrong: Array, n: Array, p: Array) -> Array:
        ideal = super().of_wrong_pairs(0.0 * wrong, n, p)
        return ratio(ideal - wrong, ideal)


class PairError(RankedPairs):
    r"""Multipartite error (Jin and Geng, arXiv 2013, eqs. 3, 4): wrongly ordered pairs, by their difference of grades.

    $$R = \sum_{y_i > y_j} (y_i - y_j) \left(1[R_i > R_j] + \tfrac12\, 1[R_i = R_j]\right)
        = \sum_i y_i R_i - \min_\pi \sum_i y_i \pi_i$$

    Lower is better; a tied pair counts half. For binary relevance it is the nRBP loss. NaN without relevant items.

    Args:
        norm: the divisor. `none`; `pairs`, the number of pairs of different grade (eq. 3; the result can exceed 1 where
            grades differ by more than 1); `max`, the worst order's error, which gives a share in [0, 1]. NaN where it
            is 0.

    Raises:
        ValueError: for an unknown norm.

    >>> rb.metric("PairError(norm=max)")([0.9, 0.5, 0.1], [1, 2, 0], [0, 3])
    array([0.25])
    """

    name = "PairError"
    span = (0.0, math.inf)
    higher_is_better = False
    limits = one_of("norm", "none", "pairs", "max")
    norm: str = "none"

    def in_range(self, value: Values) -> Values:
        return super().in_range(value).clip(max=1.0 if self.norm == "max" else math.inf)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        if self.norm == "none":
            return super().informative(relevance, lists)
        return unequal_pairs(relevance, lists, lists.sizes) > 0

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        total, ideal_ranks = _grade_sums(relevance, lists)
        # Ranks from 0: smaller terms keep more digits of the sum.
        found = lists.sum(relevance.to(ranks.position) * (ranks.position - 1))
        error = found - (ideal_ranks - total).to(found)
        if self.norm == "pairs":
            return ratio(error, unequal_pairs(relevance, lists, ranks.sizes))
        if self.norm == "max":
            return ratio(error, (ranks.sizes + 1) * total - 2 * ideal_ranks)
        return torch.where(total == 0, torch.nan, error)

    def of_wrong_pairs(self, wrong: Array, n: Array, p: Array) -> Array:
        return np.where(p == 0, np.nan, wrong) if self.norm == "none" else ratio(wrong, p * (n - p))


class PairMetric(RankedPairs):
    """A function of the number of pairs of different grade, and of those in the wrong order (ties count half).

    It takes one sum over the items per positive grade that occurs.
    """

    span = (0.0, 1.0)

    @abstractmethod
    def of_pairs(self, wrong: Values, unequal: Values, sizes: Values) -> Values:
        """Return the value of lists of `sizes` items with `wrong` of their `unequal` pairs in the wrong order."""

    def of_wrong_pairs(self, wrong: Array, n: Array, p: Array) -> Array:
        return self.of_pairs(wrong, p * (n - p), n)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        return unequal_pairs(relevance, lists, lists.sizes) > 0

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        """Return masks of the items below each positive grade but the largest, for which ranks suffice."""
        return tuple(relevance < grade for grade in _positive_grades(relevance)[:-1])

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        grades, sizes = _positive_grades(relevance), ranks.sizes.to(torch.float64)
        unequal = unequal_pairs(relevance, lists, sizes).to(ranks.position)
        if len(grades) == 0:
            return self.of_pairs(torch.zeros_like(unequal), unequal, sizes)
        lower = torch.stack([*ranks.above, ranks.position - 1])
        own = lower.gather(0, torch.searchsorted(grades, relevance.to(grades).contiguous()).unsqueeze(0)).squeeze(0)
        top = lists.sum((relevance == grades[-1]).to(ranks.position))
        wrong = lists.sum(torch.where(relevance > 0, own, 0.0)) - top * (top - 1) / 2
        return self.of_pairs(wrong, unequal, sizes)


class PairAccuracy(PairMetric):
    r"""The share of correctly ordered pairs among those of different grade; a tie counts half.

    $$\frac{\sum_{y_i > y_j} \left(1[s_i > s_j] + \tfrac12\, 1[s_i = s_j]\right)}{|\{(i, j) : y_i > y_j\}|}$$

    For binary relevance this is the area under the ROC curve (Hanley and McNeil, Radiology 1982), $1 - U / (P(N - P))$
    with the Mann-Whitney statistic U, the nRBP loss. NaN without such a pair. The accuracy of Li and Wu (sec. 4.2)
    differs: it counts a tie as wrong.

    >>> rb.metric("PairAccuracy")([0.9, 0.5, 0.1], [1, 2, 0], [0, 3])
    array([0.66666667])
    """

    name = "PairAccuracy"

    def of_pairs(self, wrong: Values, unequal: Values, sizes: Values) -> Values:
        return 1 - ratio(wrong, unequal)


class Kendall(PairMetric):
    r"""Weighted Kendall statistic against the order by relevance (Murphy 2012, eq. 9.130), in [0, 1], 1 for agreement.

    $$\tau = \frac{\sum_{u<v} w_{uv} [1 + \mathrm{sgn}(s_u - s_v)\, \mathrm{sgn}(y_u - y_v)]}{2 \sum_{u<v} w_{uv}}$$

    A pair that ties in scores or in relevance counts half. NaN where the weights sum to 0: with fewer than two items
    or, for `difference`, only one grade.

    Args:
        weight: with `uniform`, $w_{uv} = 1$, $2\tau - 1$ is Kendall's tau-a, and lists with many equal grades stay near
            1/2; with `difference`, $w_{uv} = |y_u - y_v|$ and $1 - \tau$ is the multipartite error over its largest
            value.

    Raises:
        ValueError: for an unknown weight.

    >>> rb.metric("Kendall(weight=difference)")([0.9, 0.5, 0.1], [1, 2, 0], [0, 3])
    array([0.75])
    """

    name = "Kendall"
    limits = one_of("weight", "uniform", "difference")
    weight: str = "uniform"

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return super().rank_weights(relevance) if self.weight == "uniform" else ()

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        if self.weight == "difference":
            return 1 - PairError(norm="max").of_ranks(ranks, relevance, lists)
        return super().of_ranks(ranks, relevance, lists)

    def of_pairs(self, wrong: Values, unequal: Values, sizes: Values) -> Values:
        if self.weight == "difference":  # binary relevance: every difference is 1
            return 1 - ratio(wrong, unequal)
        share: Values = ratio(unequal / 2 - wrong, sizes * (sizes - 1) / 2)
        return share + 0.5


def _grade_sums(relevance: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
    r"""Return $\sum_i y_i$ and the ideal order's $\sum_i y_i R_i$ of each list."""
    grades = relevance.to(torch.float64)
    total = lists.sum(grades)
    if is_binary(relevance):
        return total, total * (total + 1) / 2
    from rankbound.ranks import descending_order

    return total, lists.sum(grades[descending_order(grades, lists)] * (lists.position + 1))


def _positive_grades(relevance: Tensor) -> Tensor:
    """Return the grades above 0 that occur, ascending, in a dtype that `searchsorted` supports."""
    grades = relevance[relevance > 0]
    levels: Tensor = torch.unique(grades if grades.is_floating_point() else grades.to(torch.int64))
    return levels


def is_binary(relevance: Tensor) -> bool:
    """Return true if all grades are 0 or 1."""
    return bool(((relevance == 0) | (relevance == 1)).all())


def unequal_pairs(relevance: Tensor, lists: Lists, sizes: Tensor) -> Tensor:
    """Count the pairs of different grade in each list of `sizes` items; items not in `relevance` have grade 0."""
    relevant = lists.sum((relevance > 0).to(torch.float64))
    alike = relevant.square()
    if not is_binary(relevance):
        from rankbound.ranks import tie_blocks

        blocks = tie_blocks(relevance.to(torch.float64), lists)
        alike = blocks.lists.sum(blocks.sum((relevance > 0).to(torch.float64)).square())
    return (sizes.to(torch.float64).square() - alike - (sizes - relevant).square()) / 2
