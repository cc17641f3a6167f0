r"""Hinges of pairs: WARP, of relevant items, weighted by their ranks and exact or sampled; and the pairwise hinge loss.

Both find the items that violate a margin by sorting instead of pairs. Source of WARP: Murphy, eqs. 9.131 to 9.133;
Weston et al. 2010 and 2011 for the sampling.
"""

import torch
from torch import Tensor

from rankbound.gradients import with_gradient
from rankbound.lists import Lists, may_read
from rankbound.losses.base import ItemSum, times
from rankbound.losses.pairwise import MOST_GRADES_IN_ORDER, PairLoss, Preferences, grade_halves
from rankbound.ranks import descending_order
from rankbound.smooth_ranks import running_sums
from rankbound.texts import require, require_one_of

# Limits the memory of the draws, items times samples.
DRAWS_PER_CHUNK = 1_000_000


class WARPLoss(ItemSum):
    r"""The WARP loss (Murphy 2012, eqs. 9.131 to 9.133; Weston et al. 2010, 2011): hinges, weighted by ranks.

    It is the mean over a list's relevant items of

    $$L(r_i)\, \frac{1}{r_i} \sum_{j \in V_i} (m - s_i + s_j), \qquad L(r) = \sum_{j=1}^{r} \alpha_j$$

    $V_i$ are the violators of item $i$, the irrelevant items $j$ with $s_j > s_i - m$, and $r_i$ is their number; no
    gradient flows through $L(r_i)$. Weston's algorithm estimates this loss from one random violator; here it is exact,
    in O(N log N) for all items. A weight multiplies its relevant item's term; the mean divides by the number of items.

    With `samples`, for each relevant item up to `samples` irrelevant items of its list are drawn, with replacement,
    until one is a violator. If the `q`-th draw is the first violator, it represents all of $V_i$, and $r_i$ is
    estimated by $\lfloor n/q \rfloor$, with `n` the number of irrelevant items. If no draw is a violator, the item's
    loss is 0.

    Args:
        alpha: `harmonic`: $\alpha_j = 1/j$; `constant`: $\alpha_j = 1$.
        cutoff: $k$, written `@k`: $\alpha_j = 0$ for $j > k$. `WARP(alpha=constant)@1` is a surrogate of the error at
            the first rank.
        margin: $m > 0$, in units of the scores.
        rel: the lowest relevant grade.
        samples: draws per relevant item and call; 0 sums over all violators.
        seed: the seed of the draws; a rebuilt loss repeats them.

    Raises:
        ValueError: for an unknown `alpha`, a cut-off below 1, a margin or `rel` that isn't above 0, or a negative
            number of samples.

    >>> rb.loss("WARP(alpha=constant)")(torch.tensor([0.0, 0.5, 2.0]), [1, 0, 0], [0, 3])
    tensor([4.5000])
    """

    name = "WARP"

    def __init__(
        self,
        *,
        alpha: str = "harmonic",
        cutoff: int | None = None,
        margin: float = 1.0,
        rel: float = 1,
        samples: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        require_one_of("alpha", alpha, ("harmonic", "constant"))
        require("cutoff", cutoff, cutoff is None or cutoff >= 1, "at least 1")
        require("margin", margin, margin > 0, "a number above 0")
        require("rel", rel, rel > 0, "a grade above 0")
        require("samples", samples, samples >= 0, "0 (all violators) or a number of draws")
        self.alpha, self.cutoff, self.margin, self.rel = alpha, cutoff, margin, rel
        self.samples, self.seed = samples, seed
        self._without_draws = "samples=0, which takes all violators" if samples else ""
        # On the CPU, so that the draws don't depend on the device.
        self._generator = torch.Generator("cpu").manual_seed(seed)

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        relevant = relevance >= self.rel
        kept = lists.keep(relevant)

        def mean(totals: Tensor) -> Tensor:
            return torch.where(self.informative(relevance, lists), totals / kept.sizes.clamp(min=1), 0.0)

        if self.samples:
            # The loss of each relevant item, from the first violator drawn.
            items, others = torch.nonzero(relevant).squeeze(1), torch.nonzero(~relevant).squeeze(1)
            of_others, segment = lists.keep(~relevant), lists.segment.index_select(0, items)
            begin, count = of_others.offsets.index_select(0, segment), of_others.sizes.index_select(0, segment)
            terms = scores.new_zeros(len(items))
            for part in torch.split(torch.nonzero(count).squeeze(1), max(1, DRAWS_PER_CHUNK // self.samples)):
                shape = len(part), self.samples
                drawn = torch.rand(shape, generator=self._generator, dtype=torch.float64, device="cpu")
                place = begin[part][:, None] + (drawn.to(scores.device) * count[part][:, None]).to(torch.int64)
                hinge = self.margin + (scores[others[place]] - scores[items[part]][:, None])
                violates = hinge.detach() > 0
                # The `argmax` of booleans as integers is the first True.
                first = violates.to(torch.int8).argmax(1)
                estimated = count[part] // (first + 1)
                weight = warp_penalty(estimated, self.alpha, self.cutoff, lists.longest) * violates.any(1)
                terms = terms.index_add(0, part, weight.to(scores) * hinge.gather(1, first[:, None]).squeeze(1))
            return mean(kept.sum(times(terms, None if weights is None else weights[relevant])))
        every = torch.arange(len(scores), device=scores.device)
        violations = Violations(scores.detach(), lists, self.margin)
        hinges, rank = violations.hinges_of(every, (~relevant).to(torch.float64))
        penalty = warp_penalty(rank.to(torch.int64), self.alpha, self.cutoff, lists.longest)
        share = torch.where(relevant, times(penalty / rank.clamp(min=1), weights), 0.0)
        pushed = share * lists.spread(1.0 / kept.sizes.clamp(min=1))
        # An item's gradient is distributed over its violators with the opposite sign.
        slopes = torch.where(relevant, -rank * pushed, violations.by(every, pushed))
        losses = mean(lists.sum((share * hinges).to(scores.dtype)))
        return with_gradient(scores, losses, slopes, lists, torch.zeros_like)

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        """Return 0: the loss is piecewise linear."""
        return torch.zeros_like(scores)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists with a relevant and an irrelevant item."""
        n_relevant = lists.keep(relevance >= self.rel).sizes
        return (n_relevant > 0) & (n_relevant < lists.sizes)


def warp_penalty(ranks: Tensor, alpha: str, cutoff: int | None, highest: int) -> Tensor:
    r"""Return $L(r) = \sum_{j=1}^{r} \alpha_j$ (Murphy eq. 9.133) of ranks from 0 to a highest one, float64.

    $\alpha_j$ is $1/j$ (`harmonic`) or 1 (`constant`), and 0 for $j$ beyond the cut-off.
    """
    length = highest if cutoff is None else min(highest, cutoff)
    weights = torch.ones(length, dtype=torch.float64, device=ranks.device)
    if alpha == "harmonic":
        weights = weights / torch.arange(1, length + 1, device=ranks.device)
    totals = torch.cat([weights.new_zeros(1), weights.cumsum(0)])
    return totals[ranks.clamp(max=len(totals) - 1)]


class HingeLoss(PairLoss):
    r"""Pairwise hinge loss (Herbrich et al. 2000), 0 for pairs whose scores are at least a margin apart.

    $$L = \frac1Z \sum_{y_i > y_j} w_{ij} \max(0, m - (s_i - s_j))$$

    The time is O(N log N) per grade, or O(N log^2 N) for many grades. At exactly the margin, the gradient is 0.

    Args:
        margin: $m \ge 0$, in units of the scores.
        reduction: `mean` divides by the number $Z$ of pairs; for `sum`, $Z = 1$.
        weight: `uniform`, $w_{ij} = 1$, or `difference`, $w_{ij} = y_i - y_j$.

    Raises:
        ValueError: for a margin below 0, or an unknown reduction or weight.

    >>> rb.loss("hinge")(torch.tensor([0.5, 0.25, 3.0]), [1, 0, 2], [0, 3])
    tensor([0.2500])
    """

    name = "hinge"

    def __init__(self, *, margin: float = 1.0, reduction: str = "mean", weight: str = "uniform") -> None:
        super().__init__(reduction=reduction, weight=weight)
        require("margin", margin, margin >= 0, "a number from 0")
        self.margin = margin

    def _totals(self, scores: Tensor, pairs: Preferences) -> Tensor:
        many = not may_read(scores) or len(pairs.distinct) > MOST_GRADES_IN_ORDER
        sums = self._in_halves if many else self._in_order
        losses, slopes = sums(scores.detach(), pairs)
        return with_gradient(scores, pairs.lists.sum(losses).to(scores.dtype), slopes, pairs.lists, torch.zeros_like)

    def _in_order(self, scores: Tensor, pairs: Preferences) -> Tensor:
        """Return the losses of each item's pairs in which it is the better one, and the slopes, `(2, n_items)`."""
        violations = Violations(scores, pairs.lists, self.margin)
        sums = torch.zeros(2, len(scores), dtype=torch.float64, device=scores.device)
        losses, slopes = sums
        grades = pairs.distinct.tolist()
        for grade in grades:
            items = torch.nonzero(pairs.grades == grade).squeeze(1)
            if grade > grades[0]:
                own = None if pairs.of_better is None else pairs.of_better.index_select(0, items)
                hinges, lost = violations.hinges_of(items, pairs.by_step(grade - pairs.grades))
                losses[items] = times(hinges, own)
                slopes[items] -= times(lost, own)
            if grade < grades[-1]:
                slopes[items] += violations.by(items, times(pairs.by_step(pairs.grades - grade), pairs.of_better))
        return sums

    def _in_halves(self, scores: Tensor, pairs: Preferences) -> Tensor:
        """Return what `_in_order` returns; each step pairs the better with the worse items of groups."""
        order, halves = grade_halves(pairs.grades, pairs.lists)
        grades, scores = pairs.grades[order], scores[order]
        own = torch.ones_like(grades) if pairs.of_better is None else pairs.of_better[order]
        sums = torch.zeros(2, len(scores), dtype=torch.float64, device=scores.device)
        losses, slopes = sums
        for groups, late in halves:
            violations = Violations(scores, groups, self.margin)
            if may_read(late):
                better, worse = (torch.nonzero(mask).squeeze(1) for mask in (late, ~late))
            else:
                # All items, of which those in the other half violate nothing, and are not violated.
                better = worse = torch.arange(len(scores), device=scores.device)
            hinges, lost = violations.hinges_of(better, (~late).to(grades))
            pushed = violations.by(worse, own * late)
            if pairs.weight == "difference":
                far = violations.hinges_of(better, grades * ~late)
                hinges, lost = (grades[better] * near - away for near, away in zip((hinges, lost), far, strict=True))
                pushed = violations.by(worse, own * grades * late) - grades[worse] * pushed
            own_of_better, own_of_worse = own[better] * late[better], (~late)[worse]
            losses[better] += own_of_better * hinges
            slopes[better] -= own_of_better * lost
            slopes[worse] += own_of_worse * pushed
        return torch.empty_like(sums).index_copy_(1, order, sums)


class Violations:
    """The violators of each item `i`: the items `j` of its list whose hinge `margin - (s_i - s_j)` is above 0.

    In ascending order of score, they are the items from some place to the end of the list; sums over them are running
    totals of the list, in float64.
    """

    def __init__(self, scores: Tensor, lists: Lists, margin: float) -> None:
        # Scores relative to each list's highest, so that running totals of large scores keep their digits.
        top = lists.max(scores)
        self._height = scores.to(torch.float64) - lists.spread(top).to(torch.float64)
        self._lists, self._margin = lists, margin
        self._order = descending_order(-scores, lists)
        self._place = torch.empty_like(self._order)
        self._place[self._order] = torch.arange(len(scores), device=scores.device)
        # The place of each sorted item's first violator, by bisection of its list; exact for any scores.
        height = self._height.index_select(0, self._order)
        ends = lists.spread(lists.offsets[1:])
        last = lists.spread(lists.offsets[:-1]) - 1  # the last place that is known not to violate
        for power in reversed(range(lists.longest.bit_length())):
            probe = last + 2**power
            there = height.index_select(0, probe.clamp(max=len(height) - 1))
            last = torch.where((probe >= ends) | ((there - height) + margin > 0), last, probe)
        self._first = torch.empty_like(self._order)
        self._first[self._order] = last + 1

    def of(self, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the total of `weights` `(n_items,)` over each target's violators, `(n_targets,)`."""
        sorted_weights = weights.to(torch.float64).index_select(0, self._order)
        starts, longest = self._lists.position == 0, self._lists.longest
        totals = sorted_weights + running_sums(sorted_weights[None], starts, longest)[1][0]
        ends = self._lists.offsets[1:].index_select(0, self._lists.segment.index_select(0, targets))
        first = self._first.index_select(0, targets)
        return torch.where(first < ends, totals.index_select(0, first.clamp(max=len(totals) - 1)), 0.0)

    def hinges_of(self, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weighted sum of the hinges of each target's violators, and the violators' total weight."""
        weight = self.of(targets, weights)
        height = self._height.index_select(0, targets)
        return (self._margin - height) * weight + self.of(targets, weights * self._height), weight

    def by(self, items: Tensor, weights: Tensor) -> Tensor:
        """Return the total of `weights` `(n_items,)` over the items that each of the `items` violates."""
        ends = self._lists.spread(self._lists.offsets[1:])
        begun = torch.zeros_like(self._height)
        first = self._first.clamp(max=len(begun) - 1)
        begun.index_add_(0, first, torch.where(self._first < ends, weights.to(torch.float64), 0.0))
        totals = begun + running_sums(begun[None], self._lists.position == 0, self._lists.longest)[0][0]
        return totals.index_select(0, self._place.index_select(0, items))
