"""Average precision, and its relatives for incomplete judgements: infAP and bpref."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from rankbound.kernels import formulas
from rankbound.kernels.formulas import Floats, Integers
from rankbound.kernels.ties import HARMONIC_SIZE, harmonic_difference, harmonic_tail, precision_terms, reached
from rankbound.lazy import Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.metrics.base import POOLED, Array, Thresholded, Values, by_arrays, formula_of, ratio

DIVISORS = ("relevant", "cutoff", "found")

# The smoothing of Yilmaz and Aslam, as trec_eval has it.
EPSILON = 1e-5


@dataclass(frozen=True, kw_only=True)
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
    divisor: str = "relevant"
    cutoff: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("divisor", self.divisor in DIVISORS, f"one of {', '.join(DIVISORS)}")
        is_cut = self.divisor == "relevant" or self.cutoff is not None
        self._require("divisor", is_cut, f"a cut-off, as in AP(divisor={self.divisor})@10")

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
        terms = by_arrays(partial(precision_terms, cutoff=self.cutoff), *numbers)
        return ratio(blocks.lists.sum(terms), self._divisor_of(blocks.lists.sum(inside)))

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats] | None:
        """Return the worst order's mean of i/(N-P+i) (thesis eq. 3.4) and the ideal order's 1, or min(P, k)/Z at k."""
        if self.divisor == "found":
            return None
        counted, z = reached(n - p, p, self.cutoff), self._divisor_of(p)
        return ratio(counted * mean_worst_share(n - p, counted), z), ratio(reached(0 * p, p, self.cutoff), z)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats | None:
        """Return thesis eq. 3.10 in closed form: the value where all items tie."""
        if self.divisor == "found":
            return None
        return ratio(precision_terms(0 * n, n, p, 0 * n, self.cutoff), self._divisor_of(p))

    def _divisor_of(self, p: Values) -> Values:
        return p if self.divisor == "relevant" or self.cutoff is None else p.clip(max=self.cutoff)


@dataclass(frozen=True, kw_only=True)
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
        return self.relevant(relevance), relevance >= 0, relevance >= POOLED

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        above, judged, pooled = ranks.above
        relevant = self.relevant(relevance).to(ranks.position)
        precision = (above + EPSILON) / (judged + 2 * EPSILON)
        return ratio(lists.sum(relevant * (1 + pooled * precision) / ranks.position), lists.sum(relevant))


@dataclass(frozen=True, kw_only=True)
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
    plain = 1 - m / c * harmonic_difference(others, count)
    corrections = harmonic_tail(m + c + 0.5) - harmonic_tail(m + 0.5)
    careful = 0.5 / (m + 0.5) + m / c * (_less_log1p((c / (m + 0.5)).clip(max=1)) - corrections)
    return np.where(count == 0, 0.0, np.where((others >= HARMONIC_SIZE) & (others > count), careful, plain))


def _less_log1p(u: Floats) -> Floats:
    r"""Return $u - \ln(1 + u)$ for 0 <= u <= 1, with $\ln(1 + u) = 2\,\mathrm{artanh}\, z$, $z = u / (2 + u)$."""
    z, tail = u / (2 + u), np.zeros_like(u)
    for odd in range(35, 1, -2):
        tail = (tail + 1 / odd) * z**2
    return z * (u - 2 * tail)
