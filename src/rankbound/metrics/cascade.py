"""Models of a user who goes down the list: ERR, INSQ and INST of the C/W/L framework, overlap with an ideal list."""

import math
from functools import lru_cache

import numpy as np

from rankbound.kernels import formulas
from rankbound.kernels.formulas import Floats, Integers, cases_of, log_binomial, mean_discount, ragged_sums, reached
from rankbound.lazy import Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.metrics.base import PERSISTENCE, SUMMED_RANKS, Limits, Metric, Scaled, by_arrays, exp2, ratio, scale_to
from rankbound.metrics.cumulative_gain import ScaledGain

# The probability of stopping at the highest grade, 1 - 2^-max, must differ from 1 in single precision too.
LARGEST_SCALE = 20

# The squares of larger numbers of needed items would have no digits left for the ranks.
LARGEST_T = 1e6
NEEDED: Limits = {"T": (lambda needed: 0.5 < needed < LARGEST_T, f"a number above 0.5, below {LARGEST_T:g}")}

# The trigamma function: the terms that are summed, and the Bernoulli numbers B_2, B_4, ... of the series of the rest.
SHIFT = 12
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)


class ERR(Scaled):
    r"""Expected reciprocal rank (Chapelle, Metzler, Zhang and Grinspan, CIKM 2009).

    $$\mathrm{ERR@}k = \sum_{i: R_i \le k} \frac{S_i}{R_i} \prod_{j: R_j < R_i} (1 - S_j), \qquad
      S_i = \frac{2^{y_i} - 1}{2^{\mathrm{max}}}$$

    A user goes down the list and stops at item i with probability $S_i$. 0 without relevant items.

    As a function of ranks, the product is $\exp$ of the sum above of the rank weight $\ln(1 - S)$. In a block of $n$
    ties after rank $t$, the order of the $m$ items with a grade above 0 is independent of their places. The mean over
    the block's orders is therefore $\sum_{k=1}^m (\bar Q_{k-1} - \bar Q_k)\, E[1/(t + J_k)]$ times the product above
    the block, with $\bar Q_k$ the mean product over $k$ of these items and $J_k$ the place of the k-th of them.

    Args:
        max: the highest grade of the scale, 1 to 20, whether it occurs or not.
        cutoff: k; by default all ranks count.

    Raises:
        ValueError: for `max` out of range or `cutoff` below 1, and when called with a grade above `max`.

    >>> rb.metric("ERR(max=2)")([0.9, 0.5, 0.1], [1, 2, 0], [0, 3])
    array([0.53125])
    """

    name = "ERR"
    limits = scale_to(LARGEST_SCALE)
    cutoff: int | None = None

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (torch.log1p(-self.stops(relevance)),)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        (above,) = ranks.above
        terms = self.stops(relevance).to(ranks.position) / ranks.position * torch.exp(above)
        return lists.sum(terms * ranks.within(self.cutoff))

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        grades = torch.unique(relevance[relevance > 0])
        log_goes_on = torch.log1p(-self.stops(grades))
        held = [blocks.sum((relevance == grade).to(torch.float64)) for grade in grades]
        # Integer counts per grade, so that a list's value doesn't depend on the rounding of the lists before it.
        log_above = torch.zeros(len(blocks.first), dtype=torch.float64, device=lists.device)
        for count, log in zip(held, log_goes_on, strict=True):
            log_above += blocks.before(count) * log
        stops = blocks.sum(self.stops(relevance))
        means = stops / blocks.first
        tied = torch.nonzero((blocks.size > 1) & (stops > 0)).squeeze(1)
        if len(tied):
            counts = torch.stack(held)[:, tied].to(torch.int64)
            means[tied] = by_arrays(self._of_ties, counts, log_goes_on, blocks.size[tied], blocks.first[tied] - 1)
        if self.cutoff is not None:
            means = torch.where(blocks.first <= self.cutoff, means, 0.0)
        return blocks.lists.sum(means * torch.exp(log_above))

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        return self._of_run(n - p, p), self._of_run(0 * p, p)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        return self._of_ties(p[None], np.log1p([-1 / 2.0**self.max]), n, 0 * n)

    def stops(self, relevance: Tensor) -> Tensor:
        """Return the probability $S_i$ of stopping at each item, which also tells a distribution how values add up.

        Args:
            relevance: `(n_items,)`, grades from 0 to `max`.

        Returns:
            A float64 tensor `(n_items,)`.

        Raises:
            ValueError: for a grade above `max`.
        """
        grades = relevance.to(torch.float64)
        self.require_gains_that_fit(grades, grades.dtype)
        return (exp2(grades) - 1) / 2.0**self.max

    def _of_run(self, above: Integers, p: Integers) -> Floats:
        """Return the value of `p` consecutive items of grade 1 below `above` items of grade 0."""
        stop = 1 / 2.0**self.max

        def terms(case: Integers, place: Integers) -> Floats:
            return np.asarray(stop * (1 - stop) ** place / (above[case] + 1 + place))

        return ragged_sums(reached(above, p, self.cutoff), terms)

    def _of_ties(self, held: Integers, log_goes_on: Floats, size: Integers, above: Integers) -> Floats:
        """Return the mean over the orders of blocks with `held` items of each grade `(n_grades, n_blocks)`."""
        relevant = depth = held.sum(0)
        if len(held):
            # The number of items after which the probability of going on is negligible.
            slowest = np.where(held > 0, log_goes_on[:, None], -np.inf).max(0)
            depth = np.minimum(depth, np.ceil(math.log(formulas.NEGLIGIBLE) / slowest).astype(np.int64))
        depth = reached(above, depth, self.cutoff)
        survival = _mean_products(held, log_goes_on, depth)
        block, place = cases_of(depth)
        # Each block has one product more than it has terms.
        before = np.arange(len(block)) + block
        stopping = survival[before] - survival[before + 1]
        means = mean_discount(size[block], relevant[block], place + 1, above[block], self.cutoff)
        return np.bincount(block, weights=stopping * means, minlength=len(depth)).astype(np.float64, copy=False)


class INSQ(ScaledGain):
    r"""Inverse squares (Moffat, Scholer and Thomas, ADCS 2012): a user who expects to need T relevant items.

    $$\mathrm{INSQ@}k = \frac{\sum_{i: R_i \le k} w(R_i)\, y_i / \mathrm{max}}{\sum_{r \le k} w(r)}, \qquad
      w(r) = \frac{1}{(r + 2T - 1)^2}$$

    without k, over all ranks from 1 on. The user goes on from rank r with probability $w(r + 1) / w(r)$. 0 without
    relevant items. cwl-eval, and ir_measures by it, stop at rank 1,000: `INSQ@1000` here.

    Args:
        max: the highest grade of the scale, whether it occurs or not.
        T: the gain that the user expects to need, above 1/2, in items of the highest grade.
        cutoff: k; by default all ranks count.

    Raises:
        ValueError: for `max` or `cutoff` below 1 or `T` out of range, and when called with a grade above `max`.

    >>> rb.metric("INSQ(max=1)@2")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3]).round(4)
    array([0.6923])
    """

    name = "INSQ"
    limits = NEEDED
    T: float = 1.0
    cutoff: int | None = None

    def discount_at(self, position: Tensor) -> Tensor:
        return 1 / (position + 2 * self.T - 1) ** 2

    def of_best(self) -> float:
        needed = torch.tensor([2 * self.T, (self.cutoff or 0) + 2 * self.T], dtype=torch.float64)
        all_ranks, beyond = _trigamma(needed).tolist()
        return float(all_ranks if self.cutoff is None else all_ranks - beyond)


class INST(Scaled):
    r"""INST (Moffat, Bailey, Scholer and Thomas, ADCS 2015): INSQ of a user who adapts to the gain so far.

    $$\mathrm{INST@}k = \frac{\sum_{r \le k} W_r\, g_r}{\sum_{r \le k} W_r}, \qquad
      W_{r+1} = W_r \left(\frac{r + 2T - G_r - 1}{r + 2T - G_r}\right)^2, \quad G_r = g_1 + \dots + g_r$$

    with $g_r$ the grade over `max` of the item at rank r, and without k all ranks, which go on with gain 0 below the
    list. 0 without relevant items. cwl-eval, and ir_measures by it, stop at rank 1,000: `INST@1000` here.

    As a function of ranks, with $b_i = R_i - 1 + 2T - G$ of the gain G above item i, and $\psi'$ the trigamma function,

    $$W_{R_i} = \frac{4T^2}{b_i^2} \prod_{j: R_j < R_i} \left(1 - \frac{g_j}{b_j}\right)^2, \qquad
      \sum_r W_r = 4T^2 \psi'(2T) + \sum_i W_{R_i} (h(b_i - g_i) - h(b_i)), \quad h(x) = x^2 \psi'(x + 1)$$

    so that the items of gain 0 need not be known. With smooth ranks, the product is over the items in the order of
    their ranks. The mean over the orders of tied items is exact for up to 200 distinct orders of grades in a list,
    otherwise the mean over 200 random ones.

    Args:
        max, T, cutoff: as in `INSQ`.

    Raises:
        ValueError: as `INSQ`.

    >>> rb.metric("INST(max=1)@2")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3])
    array([0.8])
    """

    name = "INST"
    limits = NEEDED
    T: float = 1.0
    cutoff: int | None = None

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (relevance,)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        from rankbound.ranks import descending_order

        self.require_gains_that_fit(relevance, ranks.position.dtype)
        position, needed = ranks.position, 2 * self.T
        counts = (relevance > 0) & ~torch.isinf(position)
        gain = torch.where(counts, relevance.to(position) / self.max * ranks.within(self.cutoff), 0.0)
        before = torch.where(counts, position - 1 + needed - ranks.above[0] / self.max, needed)
        after = before - gain
        kept = 2 * (torch.log(after) - torch.log(before))
        order = descending_order(-position.detach(), lists)
        above = torch.empty_like(kept).index_copy(0, order, lists.running_sum(kept[order])) - kept
        weight = (needed / before) ** 2 * torch.exp(above)
        total = needed**2 * _trigamma(torch.full_like(lists.sum(gain), needed))
        total = total + lists.sum(weight * (_of_rest(after) - _of_rest(before)))
        if self.cutoff is not None:
            beyond = _trigamma(self.cutoff + needed - lists.sum(gain))
            total = total - needed**2 * torch.exp(lists.sum(kept)) * beyond
        return lists.sum(weight * gain) / total


class Compatibility(Metric):
    r"""Compatibility (Clarke, Vtyurina and Smucker, TOIS 2021): rank-biased overlap with the ideal ranking.

    $$\mathrm{Compat@}k = \frac{\sum_{d=1}^k p^{d-1} |I_d \cap S_d| / d}{\sum_{d=1}^k p^{d-1} \min(d, P) / d}
      = \frac{\sum_i w(\max(R_i, Q_i))}{\sum_i w(Q_i)}, \qquad w(r) = \sum_{d=r}^k p^{d-1} / d$$

    with $S_d$ the first d items of the list and $I_d$ those of the ideal ranking of the P items with a grade above 0:
    by descending grade, items of one grade in the order of the list, which is the ideal ranking of largest overlap.
    $Q_i$ is the rank of item i in it. The sums over i are over these P items. The published program has k = 1000;
    ir_measures has the length of the list or of the ideal ranking, whichever is longer, as here by default. NaN without
    relevant items.

    With smooth ranks, $w$ is linear between whole ranks and $Q$ is that of the order of the ranks. The mean over the
    orders of tied items is exact for up to 200 distinct orders of grades in a list, otherwise the mean over 200 random
    ones.

    Args:
        p: the persistence, $0 \le p < 1$.
        cutoff: k, the depth, which may exceed the list.

    Raises:
        ValueError: for `cutoff` below 1 or above 10,000,000, or a persistence out of range.

    >>> rb.metric("Compat(p=0.5)")([0.9, 0.5, 0.1], [1, 2, 0], [0, 3])
    array([0.4])
    """

    name = "Compat"
    span = (0.0, 1.0)
    limits = PERSISTENCE | SUMMED_RANKS
    p: float = 0.95
    cutoff: int | None = None

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        from rankbound.ranks import descending_order

        relevant, found = relevance > 0, ~torch.isinf(ranks.position)
        # In the ideal ranking, items of one grade are in the order of the list.
        order = descending_order(-ranks.position.detach(), lists)
        order = order[descending_order(relevance.to(torch.float64)[order], lists)]
        ideal = torch.empty_like(ranks.position).index_copy(0, order, (lists.position + 1).to(ranks.position))
        if self.cutoff is None:
            lengths = ranks.sizes - lists.sum((~found).to(torch.float64)), lists.sum(relevant.to(torch.float64))
            depth = torch.maximum(*lengths)
        else:
            depth = torch.full((len(lists),), float(self.cutoff), dtype=torch.float64, device=lists.device)
        deepest = int(depth.max()) if len(lists) else 0
        sums = torch.from_numpy(_sums_of_overlaps(self.p, deepest)).to(ranks.position)
        whole = lists.spread(sums[depth.to(torch.int64)])

        def weight(rank: Tensor) -> Tensor:
            above = (rank - 1).clamp(max=deepest)
            low = above.detach().to(torch.int64)
            return (whole - sums[low] - (above - low) * (sums[low + 1] - sums[low])).clamp(min=0)

        reached = torch.maximum(torch.where(found, ranks.position, 1.0), ideal)
        total = lists.sum(torch.where(relevant & found, weight(reached), 0.0))
        return ratio(total, lists.sum(torch.where(relevant, weight(ideal), 0.0)))


def _trigamma(values: Tensor) -> Tensor:
    """Return the trigamma function, the sum of 1/(x + j)^2 over j from 0, of numbers from 1 on.

    PyTorch's `polygamma(1, x)` has a relative error of 4e-10, and its `zeta` no derivative forwards.
    """
    beyond, total = values + SHIFT, torch.zeros_like(values)
    for bernoulli in reversed(BERNOULLI):
        total = (total + bernoulli) / beyond**2
    total = (total + 0.5 / beyond + 1) / beyond
    for place in range(SHIFT):
        total = total + 1 / (values + place) ** 2
    return total


def _of_rest(values: Tensor) -> Tensor:
    """Return h(x), the sum of the weights of all ranks below one with weight 1, if no more gain comes."""
    return values**2 * _trigamma(values + 1)


def _mean_products(held: Integers, log_goes_on: Floats, depth: Integers) -> Floats:
    """Return the mean product of the probabilities of going on at k random items of a block, for k = 0 .. depth.

    The result holds one block after the other, `(sum(depth + 1),)`. Grades are added one by one: the number of items of
    the new grade among k is hypergeometric. All terms are positive, so nothing cancels.
    """
    products = np.ones(len(depth))
    start, known = np.arange(len(depth)), np.zeros_like(depth)
    for count, log in zip(held, log_goes_on, strict=True):
        sizes = np.minimum(known + count, depth) + 1
        products = _with_one_grade_more(products, start, known, count, log, sizes)
        start, known = np.cumsum(sizes) - sizes, known + count
    return products


def _with_one_grade_more(
    products: Floats, start: Integers, known: Integers, count: Integers, log_goes_on: float, sizes: Integers
) -> Floats:
    """Return the mean products over k of `known` items and `count` of a new grade, for k = 0 .. `sizes` - 1."""
    block, k = cases_of(sizes)
    old, new, start = known[block], count[block], start[block]
    fewest = (k - old).clip(0)
    log_draws = log_binomial(old + new, k)

    def terms(case: Integers, place: Integers) -> Floats:
        of_new = fewest[case] + place
        of_old = k[case] - of_new
        log_ways = log_binomial(new[case], of_new) + log_binomial(old[case], of_old)
        return np.asarray(np.exp(log_ways - log_draws[case] + of_new * log_goes_on) * products[start[case] + of_old])

    return ragged_sums(np.minimum(k, new) - fewest + 1, terms)


@lru_cache(maxsize=16)
def _sums_of_overlaps(p: float, depth: int) -> Floats:
    """Return the sums of p^(d - 1) / d over d = 1 .. x, for x = 0 .. depth, and the last one again."""
    terms = p ** np.arange(float(depth)) / np.arange(1, depth + 1)
    return np.concatenate(([0.0], np.cumsum(np.append(terms, 0.0))))
