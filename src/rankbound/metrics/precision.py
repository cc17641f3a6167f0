"""Precision, recall and the first relevant item.

P@k, Recall@k, F@k, rank-biased, R- and interpolated precision; average precision and its relatives for incomplete
judgements, infAP and bpref; reciprocal rank and hit at k.
"""

import math
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from rankbound.kernels import formulas
from rankbound.kernels.formulas import Array, Floats, Integers
from rankbound.lazy import Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.metrics import base
from rankbound.metrics.base import PERSISTENCE, Limits, Thresholded, Values, by_arrays, formula_of, one_of, ratio
from rankbound.metrics.cumulative_gain import AdditiveMetric

# The smoothing of Yilmaz and Aslam, as trec_eval has it.
EPSILON = 1e-5

# Relative error of a product such as 0.1 * 30 = 3.0000000000000004, which must need 3 relevant items, not 4.
ROUNDING = 1e-9

# The squares of smaller numbers are finite.
LARGEST_BETA = 1e150
BETA: Limits = {"beta": (lambda beta: 0 < beta < LARGEST_BETA, f"a finite number above 0, below {LARGEST_BETA:g}")}


class BinaryAdditiveMetric(Thresholded, AdditiveMetric):
    """An additive metric with gain 1 for relevant items (at least grade `rel`) and 0 for others."""

    def gains(self, relevance: Tensor) -> Tensor:
        return self.relevant(relevance).to(torch.float64)

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        return self.binary_normaliser(lists.sum(self.gains(relevance)))

    def binary_normaliser(self, p: Values) -> Values:
        return 0.0 * p + 1.0


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
    limits = BETA
    beta: float = 1.0
    cutoff: int

    def binary_normaliser(self, p: Values) -> Values:
        weight = self.beta**2
        return (weight * p + self.cutoff) / (1 + weight) * (p > 0)


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
    limits = PERSISTENCE
    p: float

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
    limits: ClassVar[Limits] = {"recall": (lambda recall: 0 <= recall <= 1, "a recall from 0 to 1")}
    recall: float

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

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        last = n - p + 1
        lowest = 1 / last if self.cutoff is None else (last <= self.cutoff) / last
        return np.where(p == 0, np.nan, lowest), np.where(p == 0, np.nan, 1.0)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        return np.where(p == 0, np.nan, formulas.mean_reciprocal_rank(n, p.clip(1), 0 * n, self.cutoff))


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

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        return ((p > 0) & (n - p < self.cutoff)).astype(np.float64), (p > 0).astype(np.float64)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        return formulas.chance_of_hit(n, p, 0 * n, self.cutoff)


class AveragePrecision(Thresholded):
    r"""Average precision (thesis eqs. 2.6, 2.8): the mean over the relevant items of the precision at their ranks.

    $$\mathrm{AP@}k = \frac{1}{Z} \sum_{i: y_i \ge \mathrm{rel},\, R_i \le k} \frac{A_i}{R_i}$$

    with $A_i$ the rank among the relevant items. NaN without relevant items. In the mean over its orders, a block of
    $n$ tied items after rank $t$, $m$ of them relevant, with $c$ relevant items above adds
    $\frac{m}{n}\sum_{j=1}^{\min(n, k-t)} \frac{c + 1 + (j-1)(m-1)/(n-1)}{t+j}$. For the divisor `found`, the mean is
    exact for up to 200 distinct orders of grades in a list, otherwise that over 200 random ones.

    Args:
        rel: the lowest relevant grade, from 1.
        divisor: Z of a value at k: `relevant`, the number P of all relevant items, as in trec_eval's `map_cut`;
            `cutoff`, $\min(P, k)$, as in LightGBM and XGBoost; `found`, the number of relevant items among the first
            k, as in torchmetrics, with 0 for none.
        cutoff: k; by default all ranks count.

    Raises:
        ValueError: for `rel` or `cutoff` below 1, an unknown divisor, or one without a cut-off, where all are one.

    >>> rb.metric("AP")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3])
    array([0.83333333])
    """

    name = "AP"
    formula = formulas.AP
    limits = one_of("divisor", "relevant", "cutoff", "found")
    divisor: str = "relevant"
    cutoff: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.divisor != "relevant" and self.cutoff is None:
            found = f"divisor={self.divisor}"
            raise ValueError(f"metric AP: found {found}, expected a cut-off, as in AP({found})@10")

    @property
    def has_formula_for_ties(self) -> bool:
        return self.divisor != "found"

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (self.relevant(relevance),)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        (above,) = ranks.above
        relevant = self.relevant(relevance).to(ranks.position)
        within = relevant * ranks.within(self.cutoff)
        total, p = lists.sum(within * (1 + above) / ranks.position), lists.sum(relevant)
        if self.divisor != "found":
            return ratio(total, self._divisor_of(p))
        found = lists.sum(within)
        return torch.where(p == 0, torch.nan, total / torch.where(found == 0, 1.0, found))

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        if self.divisor == "found" or (relevance.is_cpu and formula_of(self)):
            return super().of_blocks(blocks, relevance, lists)
        inside = blocks.sum(self.relevant(relevance).to(torch.float64))
        numbers = blocks.first - 1, blocks.size, inside, blocks.before(inside)
        terms = by_arrays(partial(formulas.precision_terms, cutoff=self.cutoff), *numbers)
        return ratio(blocks.lists.sum(terms), self._divisor_of(blocks.lists.sum(inside)))

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats] | None:
        """Return the worst order's mean of i/(N-P+i) (thesis eq. 3.4) and the ideal order's 1, or min(P, k)/Z at k."""
        if self.divisor == "found":
            return None
        counted, z = formulas.reached(n - p, p, self.cutoff), self._divisor_of(p)
        return ratio(counted * mean_worst_share(n - p, counted), z), ratio(formulas.reached(0 * p, p, self.cutoff), z)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats | None:
        """Return thesis eq. 3.10 in closed form: the value where all items tie."""
        if self.divisor == "found":
            return None
        return ratio(formulas.precision_terms(0 * n, n, p, 0 * n, self.cutoff), self._divisor_of(p))

    def _divisor_of(self, p: Values) -> Values:
        return p if self.divisor == "relevant" or self.cutoff is None else p.clip(max=self.cutoff)


class InferredAveragePrecision(Thresholded):
    r"""Inferred average precision (Yilmaz and Aslam, CIKM 2006), as in trec_eval.

    $$\mathrm{infAP} = \frac{1}{P} \sum_{i: y_i \ge \mathrm{rel}} \frac{1}{R_i}
      \left(1 + D_i\, \frac{A_i + \epsilon}{J_i + 2 \epsilon}\right)$$

    with, among the items above item i, the pooled ones $D_i$, the judged ones $J_i$ and the relevant ones $A_i$, and
    $\epsilon = 10^{-5}$. In the evaluation of a run, items that the qrels hold are pooled, and judged unless their
    relevance is negative; a relevant item that the run lacks adds 0. In a list, all items are pooled and judged, and
    the value is AP but for $\epsilon$. NaN without relevant items. The mean over the orders of tied items is exact for
    up to 200 distinct orders of grades in a list, otherwise the mean over 200 random ones.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1.

    >>> rb.metric("infAP")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3]).round(4)
    array([0.8333])
    """

    name = "infAP"
    unjudged = "marked"

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return self.relevant(relevance), relevance >= 0, relevance >= base.POOLED

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        above, judged, pooled = ranks.above
        relevant = self.relevant(relevance).to(ranks.position)
        precision = (above + EPSILON) / (judged + 2 * EPSILON)
        return ratio(lists.sum(relevant * (1 + pooled * precision) / ranks.position), lists.sum(relevant))


class BinaryPreference(Thresholded):
    r"""Binary preference (Buckley and Voorhees, SIGIR 2004), as in trec_eval.

    $$\mathrm{bpref} = \frac{1}{P} \sum_{i: y_i \ge \mathrm{rel}}
      \left(1 - \frac{\min(B_i, P)}{\min(P, N - P)}\right)$$

    with $B_i$ the number of other items above item i; a term is 1 if all N items are relevant. In the evaluation of a
    run, only judged items count, in B as in N; N includes those that the run lacks, and a relevant item that it lacks
    adds 0. NaN without relevant items. In the mean over its orders, each relevant item of a block with q other items
    below c others has 0 to q of them above, each number with probability $1/(q + 1)$.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1.

    >>> rb.metric("Bpref")([0.9, 0.5, 0.3, 0.1], [1, 0, 1, 0], [0, 4])
    array([0.75])
    """

    name = "Bpref"
    unjudged = "left out"

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (~self.relevant(relevance),)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance).to(ranks.position)
        p = lists.sum(relevant)
        most = lists.spread(torch.minimum(p, ranks.sizes - p).clamp(min=1))
        terms = relevant * (1 - ranks.above[0] / most).clamp(min=0)
        return ratio(lists.sum(torch.where(torch.isinf(ranks.position), 0.0, terms)), p)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        inside = blocks.sum(self.relevant(relevance).to(torch.float64))
        p = blocks.lists.sum(inside)
        others = blocks.size - inside
        most = blocks.lists.spread(torch.minimum(p, lists.sizes - p).clamp(min=1))
        terms = inside * by_arrays(_mean_term, most, blocks.before(others), others)
        return ratio(blocks.lists.sum(terms), p)

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        undefined = np.where(p == 0, np.nan, 0.0)
        return undefined + (p == n), undefined + 1

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        most = np.minimum(p, n - p).clip(1)
        return np.where(p == 0, np.nan, _mean_term(most, 0 * n, n - p))


def _mean_term(most: Array, above: Array, others: Array) -> Array:
    """Return the mean of max(0, 1 - (above + x) / most) over x = 0 .. others."""
    left = (most - above).clip(0)
    count = np.minimum(others + 1, left)
    return np.asarray(count * (left - (count - 1) / 2) / most / (others + 1))


def mean_worst_share(others: Integers, count: Integers) -> Floats:
    r"""Return the mean of i/(others + i) over i = 1 .. count, $1 - \frac{M}{C} (H_{M+C} - H_M)$; 0 if C = 0.

    For M > C the value is near 0, and cancellation is avoided by the form, with $u = C/(M + 1/2)$,
    $\frac{1/2}{M + 1/2} + \frac{M}{C}(u - \ln(1 + u) - c(M + C) + c(M))$.
    """
    m: Floats = others.astype(np.float64)
    c: Floats = count.clip(1).astype(np.float64)
    plain = 1 - m / c * formulas.harmonic_difference(others, count)
    # u - ln(1 + u), with ln(1 + u) = 2 artanh z, z = u / (2 + u).
    u = (c / (m + 0.5)).clip(max=1)
    z, tail = u / (2 + u), np.zeros_like(u)
    for odd in range(35, 1, -2):
        tail = (tail + 1 / odd) * z**2
    corrections = formulas.harmonic_tail(m + c + 0.5) - formulas.harmonic_tail(m + 0.5)
    careful = 0.5 / (m + 0.5) + m / c * (z * (u - 2 * tail) - corrections)
    return np.where(count == 0, 0.0, np.where((others >= formulas.HARMONIC_SIZE) & (others > count), careful, plain))
