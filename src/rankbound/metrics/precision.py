"""Precision and recall: P@k, Recall@k, F@k, R-precision, interpolated precision, and rank-biased precision."""

import math
from dataclasses import dataclass, replace

import numpy as np

from rankbound.kernels import formulas
from rankbound.kernels.formulas import Floats, Integers
from rankbound.lazy import Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.metrics.base import Thresholded, Values, ratio
from rankbound.metrics.cumulative_gain import AdditiveMetric

# Relative error of a product such as 0.1 * 30 = 3.0000000000000004, which must need 3 relevant items, not 4.
ROUNDING = 1e-9

# The squares of smaller numbers are finite.
LARGEST_BETA = 1e150


@dataclass(frozen=True, kw_only=True)
class BinaryAdditiveMetric(Thresholded, AdditiveMetric):
    """An additive metric with gain 1 for relevant items (at least grade `rel`) and 0 for others."""

    def gains(self, relevance: Tensor) -> Tensor:
        return self.relevant(relevance).to(torch.float64)

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        return self.binary_normaliser(lists.sum(self.gains(relevance)))

    def binary_normaliser(self, p: Values) -> Values:
        return 0.0 * p + 1.0


@dataclass(frozen=True, kw_only=True)
class Precision(BinaryAdditiveMetric):
    r"""Precision at k (Murphy 2012, eq. 9.126): the share of relevant items among the first k ranks.

    $$\mathrm{P@}k = \frac{1}{k} \left|\{i : y_i \ge \mathrm{rel},\ R_i \le k\}\right|$$

    The divisor is $k$ even if $N < k$.

    Args:
        rel: the lowest relevant grade, from 1.
        cutoff: k.

    Raises:
        ValueError: for `rel` or `cutoff` below 1.

    >>> rb.metric("P@2")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3])
    array([0.5])
    """

    name = "P"
    formula = formulas.PRECISION
    cutoff: int

    def binary_normaliser(self, p: Values) -> Values:
        return 0.0 * p + self.cutoff


@dataclass(frozen=True, kw_only=True)
class Recall(BinaryAdditiveMetric):
    r"""Recall at k (thesis sec. 3.4): the share of the relevant items in the first k ranks.

    $$\mathrm{Recall@}k = \frac{1}{P} \left|\{i : y_i \ge \mathrm{rel},\ R_i \le k\}\right|$$

    NaN without relevant items. Some authors call `Hit@k` recall.

    Args:
        rel: the lowest relevant grade, from 1.
        cutoff: k.

    Raises:
        ValueError: for `rel` or `cutoff` below 1.

    >>> rb.metric("Recall@1")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3])
    array([0.5])
    """

    name = "Recall"
    formula = formulas.RECALL
    cutoff: int

    def binary_normaliser(self, p: Values) -> Values:
        return p


@dataclass(frozen=True, kw_only=True)
class FMeasure(BinaryAdditiveMetric):
    r"""F-measure at k (van Rijsbergen 1979; Manning, Raghavan and Schütze 2008, eq. 8.5), of P@k and Recall@k.

    $$F_\beta\mathrm{@}k
      = \frac{(1 + \beta^2)\, \mathrm{P@}k\, \mathrm{Recall@}k}{\beta^2\, \mathrm{P@}k + \mathrm{Recall@}k}
      = \frac{(1 + \beta^2) \left|\{i : y_i \ge \mathrm{rel},\ R_i \le k\}\right|}{\beta^2 P + k}$$

    0 if no relevant item is among the first k; NaN without relevant items. `SetF` is that of a retrieved set.

    Args:
        rel: the lowest relevant grade, from 1.
        beta: $\beta > 0$; values above 1 emphasise recall.
        cutoff: k.

    Raises:
        ValueError: for `rel` or `cutoff` below 1, or `beta` out of range.

    >>> rb.metric("F@2")([0.9, 0.5, 0.1], [1, 0, 0], [0, 3])
    array([0.66666667])
    """

    name = "F"
    beta: float = 1.0
    cutoff: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("beta", 0 < self.beta < LARGEST_BETA, f"a finite number above 0, below {LARGEST_BETA:g}")

    def binary_normaliser(self, p: Values) -> Values:
        weight = self.beta**2
        return (weight * p + self.cutoff) / (1 + weight) * (p > 0)


@dataclass(frozen=True, kw_only=True)
class RBP(BinaryAdditiveMetric):
    r"""Rank-biased precision (thesis eq. 2.4; Moffat and Zobel, TOIS 2008).

    $$\mathrm{RBP} = (1 - p) \sum_i y_i\, p^{R_i - 1}$$

    Args:
        rel: the lowest relevant grade, from 1; $y_i$ is 1 from there, and 0 below.
        p: the persistence, $0 \le p < 1$.

    Raises:
        ValueError: for `rel` below 1 or a persistence out of range.

    >>> rb.metric("RBP(p=0.5)")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3])
    array([0.625])
    """

    name = "RBP"
    formula = formulas.RBP
    p: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("p", 0 <= self.p < 1, "a persistence in [0, 1)")

    def discount_at(self, position: Tensor) -> Tensor:
        return (1 - self.p) * self.p ** (position - 1)

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        best, divisor = self._of_first(p), self.binary_normaliser(p)
        return ratio(np.exp(self._log_power(n - p)) * best, divisor), ratio(best, divisor)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        return ratio(self._of_first(n) * p / n, self.binary_normaliser(p))

    def _of_first(self, ranks: Values) -> Values:
        """Return the sum of the discounts of the first ranks, 1 - p^ranks, without cancellation."""
        if isinstance(ranks, np.ndarray):
            return -np.expm1(self._log_power(ranks))
        return -torch.expm1(torch.xlogy(ranks, self.p))

    def _log_power(self, ranks: Integers) -> Floats:
        """Return the logarithm of p^ranks; of 0^0 = 1, too."""
        log = math.log(self.p) if self.p else -math.inf
        return np.multiply(ranks, log, out=np.zeros(ranks.shape), where=ranks != 0)


@dataclass(frozen=True, kw_only=True)
class NormalizedRBP(RBP):
    r"""RBP over the largest RBP that $P$ relevant items allow (thesis eq. 2.5).

    $$\mathrm{nRBP} = \frac{\mathrm{RBP}}{1 - p^P}$$

    NaN without relevant items. Without p, `nRBP` is the loss `RankSum`.

    Args:
        rel: the lowest relevant grade, from 1.
        p: the persistence, $0 \le p < 1$.

    Raises:
        ValueError: for `rel` below 1 or a persistence out of range.

    >>> rb.metric("nRBP(p=0.5)")([0.9, 0.5, 0.1], [1, 0, 0], [0, 3])
    array([1.])
    """

    name = "nRBP"
    formula = formulas.RBP
    normalised = True

    def binary_normaliser(self, p: Values) -> Values:
        return self._of_first(p)


@dataclass(frozen=True, kw_only=True)
class RPrecision(Thresholded):
    r"""R-precision (Buckley and Voorhees, Retrieval System Evaluation, 2005): the precision at rank P.

    $$\mathrm{Rprec} = \frac{1}{P} \left|\{i : y_i \ge \mathrm{rel},\ R_i \le P\}\right|$$

    with P the number of relevant items (in a run's evaluation, those that it lacks included). It equals the recall at
    rank P. NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1.

    >>> rb.metric("Rprec")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3])
    array([0.5])
    """

    name = "Rprec"

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance).to(ranks.position)
        p = lists.sum(relevant)
        return ratio(lists.sum(relevant * ranks.within(lists.spread(p))), p)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        inside = blocks.sum(self.relevant(relevance).to(torch.float64))
        p = blocks.lists.sum(inside)
        places = torch.minimum(blocks.size, (blocks.lists.spread(p) - blocks.first + 1).clamp(min=0))
        return ratio(blocks.lists.sum(inside * places / blocks.size), p)

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        return ratio((2 * p - n).clip(0), p), ratio(p, p)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        return np.where(p == 0, np.nan, p / n)


@dataclass(frozen=True, kw_only=True)
class InterpolatedPrecision(Thresholded):
    r"""Interpolated precision at recall r (Manning, Raghavan and Schütze 2008, eq. 8.7).

    It is the largest precision at any rank whose recall is at least `recall`. With $A_i$ the rank of item i among the P
    relevant items,

    $$\mathrm{IPrec}(r) = \max \left\{ \frac{A_i}{R_i} : y_i \ge \mathrm{rel},\ A_i \ge \lceil r P \rceil \right\}$$

    NaN without relevant items. The mean over the orders of tied items is exact for up to 200 distinct orders of grades
    in a list, otherwise the mean over 200 random ones. With smooth ranks, a term counts by
    $\sigma((A_i + \frac12 - \lceil r P \rceil)/\tau)$.

    trec_eval requires $\lfloor r P + 0.9 \rfloor$ items, one fewer where $r P$ exceeds a whole number by less than 0.1,
    or by 0.1 if that rounds down: at recall 0.7, it requires two of three relevant items.

    Args:
        rel: the lowest relevant grade, from 1.
        recall: r, from 0 to 1.

    Raises:
        ValueError: for `rel` below 1 or a recall out of range.

    >>> rb.metric("IPrec(recall=0.5)")([0.9, 0.5, 0.1], [0, 1, 1], [0, 3])
    array([0.66666667])
    """

    name = "IPrec"
    recall: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("recall", 0 <= self.recall <= 1, "a recall from 0 to 1")

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (self.relevant(relevance),)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance)
        needed = torch.ceil(self.recall * (1 - ROUNDING) * lists.sum(relevant.to(torch.float64)))
        found = 1 + ranks.above[0]
        # Membership of the ranks from `needed` down, by that of the ranks up to `needed` turned around.
        reached = replace(ranks, position=-found).within(-lists.spread(needed).to(found))
        largest = lists.max(torch.where(relevant, reached * found / ranks.position, -1.0))
        return torch.where(largest >= 0, largest, torch.nan)
