"""Losses of a list's softmax: cross-entropies with a target from the relevance, ListNet, and ListMLE.

The sums that they share stand at the end: of exponentials of any range, and of many terms in single precision.
"""

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rankbound.gradients import with_gradient
from rankbound.kernels import GpuKernel, Kernel
from rankbound.kernels.formulas import TARGETS
from rankbound.lists import Lists, may_read
from rankbound.losses.base import ItemSum, RankingLoss
from rankbound.losses.pointwise import GAINS, gains_of
from rankbound.metrics.cumulative_gain import largest_grade
from rankbound.ranks import tie_blocks
from rankbound.texts import require, require_one_of

# About 100 MB in a training step.
MOST_PERMUTATIONS = 1_000_000


class CrossEntropyLoss(ItemSum):
    r"""Cross-entropy $-\sum_i t_i \log p_i$ of $p = \mathrm{softmax}(s)$ against a target $t$ that sums to 1.

    Time and memory are linear. The loss is 0 for a list without relevant items. Weights of items multiply the target,
    $-\sum_i w_i t_i \log p_i$.
    """

    def targets(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the target of each item, `(n_items,)`; 0 in uninformative lists."""
        raise NotImplementedError

    def _target(self) -> tuple[str, float] | None:
        """Return the target's name in `TARGETS` and the lowest relevant grade, for kernels; None without one there."""
        return None

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        if (target := self._target()) is None:
            return None
        from rankbound.kernels.losses import cross_entropy

        name, rel = target
        largest = float(largest_grade(torch.float64)) if name == "exp2" else math.inf
        return cross_entropy, TARGETS.index(name), float(rel), largest

    def _gpu_kernel(self) -> GpuKernel | None:
        if (target := self._target()) is None:
            return None
        from rankbound.kernels.gpu import cross_entropy

        def run(scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> tuple[Tensor, Tensor]:
            if may_read(relevance):
                # Refuses what the formula refuses.
                self.targets(relevance, lists)
            losses: tuple[Tensor, Tensor] = cross_entropy(scores, relevance, lists, weights, *target)
            return losses

        return run, math.inf

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        with torch.no_grad():
            targets, log_chances = self.targets(relevance, lists).to(scores), log_softmax(scores, lists)
            total = self.informative(relevance, lists).to(scores)
            if weights is not None:
                targets = targets * weights
                total = lists.sum(targets)
            losses = lists.sum(targets * -log_chances)
            chances, total = log_chances.exp(), lists.spread(total)

        def hessian_product(direction: Tensor) -> Tensor:
            return total * chances * (direction - lists.spread(lists.sum(chances * direction)))

        return with_gradient(scores, losses, total * chances - targets, lists, hessian_product)

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor | None:
        """Return $p_i (1 - p_i)$, which doesn't depend on the target."""
        chance = log_softmax(scores.detach(), lists).exp()
        return torch.where(lists.spread(self.informative(relevance, lists)), chance * (1 - chance), 0.0)


class SoftmaxLoss(CrossEntropyLoss):
    r"""Softmax cross-entropy (Bruch et al., ICTIR 2019).

    $$L = -\sum_i \frac{g(y_i)}{\sum_j g(y_j)} \log \frac{e^{s_i}}{\sum_j e^{s_j}}$$

    Relevant items share the target in proportion to their gains; with one relevant item, it is `multinomial`.

    Args:
        gain: `linear` is $y$, `exp2` is $2^y - 1$.

    Raises:
        ValueError: for an unknown gain.

    >>> rb.loss("softmax")(torch.tensor([0.9, 0.5, 0.1]), [2, 1, 0], [0, 3])
    tensor([0.8846])
    """

    name = "softmax"

    def __init__(self, *, gain: str = "linear") -> None:
        super().__init__()
        require_one_of("gain", gain, GAINS)
        self.gain = gain

    def targets(self, relevance: Tensor, lists: Lists) -> Tensor:
        gains = gains_of(relevance, self.gain, torch.float64, self.text)
        total = lists.sum(gains)
        return gains / lists.spread(torch.where(total > 0, total, 1.0))

    def _target(self) -> tuple[str, float]:
        return self.gain, 0.0


class XENDCGLoss(CrossEntropyLoss):
    r"""XE-NDCG (Bruch, WWW 2021): cross-entropy whose target leaves some chance to irrelevant items.

    $$L = -\sum_i \frac{2^{y_i} - \gamma_i}{\sum_j (2^{y_j} - \gamma_j)} \log \frac{e^{s_i}}{\sum_j e^{s_j}},
      \qquad 0 \le \gamma_i \le 1$$

    With $\gamma_i = 1$ for all items, it is `softmax(gain=exp2)`.

    Args:
        gamma: $\gamma_i$ of all items.
        draw: draw each $\gamma_i$ in each call, uniformly from 0 to 1, as the author does; `gamma` is not used then.
        seed: the seed of the draws; a rebuilt loss repeats them.

    Raises:
        ValueError: for a gamma outside 0 to 1, and when called with grades whose gains are too large.

    >>> rb.loss("XE-NDCG")(torch.tensor([0.9, 0.5, 0.1]), [2, 1, 0], [0, 3])
    tensor([0.9331])
    """

    name = "XE-NDCG"

    def __init__(self, *, gamma: float = 0.5, draw: bool = False, seed: int = 0) -> None:
        super().__init__()
        require("gamma", f"{gamma:g}", 0 <= gamma <= 1, "a number from 0 to 1")
        self.gamma, self.draw, self.seed = gamma, draw, seed
        self._without_draws = "draw=false" if draw else ""
        # On the CPU, so that the draws don't depend on the device.
        self._generator = torch.Generator("cpu").manual_seed(seed)

    def targets(self, relevance: Tensor, lists: Lists) -> Tensor:
        gains = gains_of(relevance, "exp2", torch.float64, self.text)
        gamma: Tensor | float = self.gamma
        if self.draw:
            gamma = torch.rand(len(gains), generator=self._generator, dtype=torch.float64, device="cpu")
            gamma = gamma.to(gains.device, non_blocking=True)
        gains = (gains + 1 - gamma) * lists.spread(self.informative(relevance, lists))
        total = lists.sum(gains)
        return gains / lists.spread(torch.where(total > 0, total, 1.0))


class MultinomialLoss(CrossEntropyLoss):
    r"""Multinomial logistic loss with one relevant item per list (Murphy 2012, eq. 9.125).

    $$L = -\log p_c, \qquad p_c = \frac{e^{s_c}}{\sum_{c'} e^{s_{c'}}}$$

    with $c$ the relevant item.

    Args:
        rel: the lowest grade that counts as relevant.

    Raises:
        ValueError: when called with a list of two or more relevant items; use `softmax` for these.

    >>> rb.loss("multinomial")(torch.tensor([0.9, 0.5, 0.1]), [0, 1, 0], [0, 3])
    tensor([1.1513])
    """

    name = "multinomial"

    def __init__(self, *, rel: int = 1) -> None:
        super().__init__()
        self.rel = rel

    def targets(self, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = (relevance >= self.rel).to(torch.float64)
        counts = lists.sum(relevant)
        if may_read(counts) and bool((counts > 1).any()):
            where = int(torch.nonzero(counts > 1)[0, 0])
            raise ValueError(
                f"relevance: found {int(counts[where])} relevant items in list {where}, expected at most one for the "
                f"loss {self.text}; use softmax for several"
            )
        return relevant

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists with a relevant item."""
        return lists.sum((relevance >= self.rel).to(torch.float64)) > 0

    def _target(self) -> tuple[str, float] | None:
        return ("one", self.rel) if self.rel >= 1 else None


class ListNetLoss(CrossEntropyLoss):
    r"""ListNet (Cao et al., ICML 2007): cross-entropy of two distributions over top-k permutations.

    $$L = -\sum_\pi P_y(\pi) \log P_s(\pi), \qquad
      P_s(\pi) = \prod_{t=1}^{k} \frac{e^{s_{\pi(t)}}}{\sum_{j \notin \{\pi(1), \dots, \pi(t-1)\}} e^{s_j}}$$

    over the $m!/(m-k)!$ ways to fill the first $k$ ranks; $P_y$ is the same with relevance instead of scores. With
    $k = 1$, both are softmaxes (Murphy 2012, before eq. 9.125) and the time is linear. Larger $k$ enumerates all
    permutations and suits short lists only.

    Args:
        cutoff: k.

    Raises:
        ValueError: for k below 1, and when called with lists of more than a million permutations in total.

    >>> rb.loss("ListNet@1")(torch.tensor([0.9, 0.5, 0.1]), [2, 1, 0], [0, 3])
    tensor([0.9212])
    """

    name = "ListNet"

    def __init__(self, *, cutoff: int = 1) -> None:
        super().__init__()
        require("cutoff", cutoff, cutoff >= 1, "at least 1")
        self.cutoff = cutoff

    def targets(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the target of the first rank, the softmax of the relevance."""
        chances = log_softmax(relevance.to(torch.float64), lists).exp()
        return torch.where(lists.spread(self.informative(relevance, lists)), chances, 0.0)

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        if self.cutoff == 1:
            return super().of_weighted_lists(scores, relevance, lists, weights)
        if weights is not None:
            return RankingLoss.of_weighted_lists(self, scores, relevance, lists, weights)
        sizes = np.diff(lists.limits).tolist()
        # In logarithms, since the number for a long list has millions of digits.
        log_ways = [math.lgamma(n + 1) - math.lgamma(max(n - self.cutoff, 0) + 1) for n in sizes]
        highest = max(log_ways, default=0.0)
        power = (highest + math.log(math.fsum(math.exp(one - highest) for one in log_ways) or 1)) / math.log(10)
        if power > math.log10(MOST_PERMUTATIONS) + 1e-9:
            raise ValueError(
                f"cutoff: found {self.cutoff} for lists of up to {max(sizes)} items, which have 10^{power:.1f} top-k "
                f"permutations in total, expected at most {MOST_PERMUTATIONS:,}; ListNet@1 accepts lists of any length"
            )
        # Double precision for sums of up to a million small terms.
        exact, relevance = scores.to(torch.float64), relevance.to(torch.float64)
        informative = self.informative(relevance, lists)
        losses = exact.new_zeros(len(lists))
        # Each row is a way to fill the ranks so far, and `chance` its target probability. Rows that differ only in the
        # last rank are siblings, drawn from the same remaining items.
        chance = lists.spread(informative.double())
        for last, parent, owner, siblings in lists._known(("ways", self.cutoff), partial(_ways, lists, self.cutoff)):
            chance = chance.index_select(0, parent) * log_softmax(relevance.index_select(0, last), siblings).exp()
            log_chance = log_softmax(exact.index_select(0, last), siblings)
            losses = losses.index_add(0, owner, -chance * log_chance)
        return losses.to(scores)

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor | None:
        return super().curvature(scores, relevance, lists) if self.cutoff == 1 else None

    def _target(self) -> tuple[str, float] | None:
        return ("softmax", 0.0) if self.cutoff == 1 else None


def _ways(lists: Lists, cutoff: int) -> list[tuple[Tensor, Tensor, Tensor, Lists]]:
    """Return the ways to fill the ranks of each list, rank by rank: their last items, old rows, lists and siblings."""
    rows, owner = torch.arange(lists.n_items, device=lists.device)[:, None], lists.segment
    ways = [(rows[:, 0], rows[:, 0], owner, lists)]
    for _ in range(1, cutoff):
        # Each row is extended by each unused item of its list.
        every = Lists.of_sizes(lists.sizes.index_select(0, owner))
        item = every.position + every.spread(lists.offsets.index_select(0, owner))
        rows = torch.cat([rows.index_select(0, every.segment), item[:, None]], 1)
        unused = (rows[:, :-1] != item[:, None]).all(1)
        rows, parent = rows[unused], every.segment[unused]
        owner = owner.index_select(0, parent)
        ways.append((rows[:, -1], parent, owner, every.keep(unused)))
    return ways


class ListMLELoss(ItemSum):
    r"""ListMLE (Xia et al., ICML 2008): negative log-likelihood of the order by relevance in the Plackett-Luce model.

    $$L = \sum_i w_i \left( \log \sum_{j: y_j \le y_i} e^{s_j} - s_i \right)$$

    Items of one grade aren't ordered among themselves: each is drawn from all items of its grade and below, which is
    Breslow's (1974) treatment of ties. The loss therefore doesn't depend on the order of rows; without ties it is the
    published sum. $w_i = 1$ without a cut-off. With a cut-off, only the draws of the first $k$ ranks count: $w_i$ is
    the share of the ranks of the item's grade that lie among the first $k$. Weights of items multiply $w_i$.

    The time is linear in $N$, plus a sort by relevance and $\log_2$(grades) passes over the grades. The loss is 0 for a
    list without relevant items.

    Args:
        cutoff: k; by default all draws count.

    Raises:
        ValueError: for k below 1.

    >>> rb.loss("ListMLE")(torch.tensor([0.9, 0.5, 0.1]), [2, 1, 0], [0, 3])
    tensor([1.2643])
    """

    name = "ListMLE"

    def __init__(self, *, cutoff: int | None = None) -> None:
        super().__init__()
        require("cutoff", cutoff, cutoff is None or cutoff >= 1, "at least 1")
        self.cutoff = cutoff

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        with torch.no_grad():
            draws = _Draws(scores, relevance, lists, self.cutoff, self.informative(relevance, lists), weights)
            losses, slopes = draws.losses().to(scores), draws.slopes().to(scores)
        return with_gradient(scores, losses, slopes, lists, draws.hessian_product)

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        from rankbound.kernels.losses import list_mle

        return list_mle, self.cutoff or 0

    @torch.no_grad()
    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        informative = self.informative(relevance, lists)
        draws = _Draws(scores, relevance, lists, self.cutoff, informative)
        return draws.curvature().to(scores)


class _Draws:
    """The draws of all items of each grade from the remaining items, whose log-sum is `_left`, per block of a grade.

    Computed in double precision, which preserves the difference between two items with scores far below a third.
    """

    def __init__(
        self,
        scores: Tensor,
        relevance: Tensor,
        lists: Lists,
        cutoff: int | None,
        informative: Tensor,
        weights: Tensor | None = None,
    ) -> None:
        # Small integers are exact in single precision, which sorts fastest.
        small = relevance.dtype in (torch.bool, torch.int8, torch.uint8, torch.int16)
        self._blocks, self._lists = tie_blocks(relevance.to(torch.float32) if small else relevance, lists), lists
        self._scores = scores.to(torch.float64).index_select(0, self._blocks.order)
        self._within = self._blocks.items
        self._left = log_sum_exp_from(log_sum_exp(self._scores, self._within), self._blocks.lists)
        size, share = self._blocks.size, self._blocks.lists.spread(informative).to(torch.float64)
        if cutoff is not None:
            # The share of each block's ranks that lie within the cut-off.
            within = (cutoff + 1 - self._blocks.first).clamp(min=0).minimum(size)
            share = share * (within / size.clamp(min=1).to(torch.float64))
        self._share, total = share.index_select(0, self._blocks.block), share * size
        if weights is not None:
            self._share = self._share * weights.to(share).index_select(0, self._blocks.order)
            total = self._within.sum(self._share)
        self._log_weight = total.log()

    def losses(self) -> Tensor:
        left = self._left.index_select(0, self._blocks.block)
        return self._lists.sum(self._share * (left - self._scores))

    def slopes(self) -> Tensor:
        """Return the expected number of draws of each item minus the actual number."""
        return self._in_order_of_rows(self._drawn() - self._share)

    def curvature(self) -> Tensor:
        """Return the variance of the number of draws of each item: the sum of p(1 - p) over the draws it can be in."""
        twice = (2 * self._scores + self._log_sum_to(self._log_weight - 2 * self._left)).exp()
        return self._in_order_of_rows((self._drawn() - twice).clamp(min=0))

    def hessian_product(self, direction: Tensor) -> Tensor:
        """Return, for each item, the sum over its draws of weight times p times (direction minus its mean)."""
        # The Hessian maps equal numbers to 0. Above the list's lowest, all have logarithms.
        exact = direction.to(torch.float64)
        height = (exact - self._lists.spread(self._lists.min(exact))).index_select(0, self._blocks.order)
        weighted = log_sum_exp(self._scores + height.log(), self._within)
        log_mean = log_sum_exp_from(weighted, self._blocks.lists) - self._left
        expected = (self._scores + self._log_sum_to(self._log_weight - self._left + log_mean)).exp()
        return self._in_order_of_rows(height * self._drawn() - expected)

    def _drawn(self) -> Tensor:
        """Return the expected number of draws of each item, in sorted order."""
        return (self._scores + self._log_sum_to(self._log_weight - self._left)).exp()

    def _log_sum_to(self, values: Tensor) -> Tensor:
        """Return the log-sum of the blocks' `values` from the highest grade to each item's own, in sorted order."""
        blocks = self._blocks.lists
        turned = Lists._of_sizes(blocks.sizes.flip(0), len(values), blocks.longest)
        sums = log_sum_exp_from(values.flip(0), turned)
        return sums.flip(0).index_select(0, self._blocks.block)

    def _in_order_of_rows(self, values: Tensor) -> Tensor:
        return torch.empty_like(values).index_copy_(0, self._blocks.order, values)


def log_softmax(scores: Tensor, lists: Lists) -> Tensor:
    r"""Return $\log p_i = s_i - \log \sum_j e^{s_j}$ over the list of each item, `(n_items,)`."""
    # A softmax is invariant to shifting the scores.
    shifted = scores - lists.spread(lists.max(scores.detach()))
    total = lists.sum(shifted.exp())
    # The logarithm of an empty list's sum, 0, would have a NaN gradient.
    return shifted - lists.spread(torch.where(lists.sizes > 0, total, 1.0).log())


def log_sum_exp(values: Tensor, lists: Lists) -> Tensor:
    r"""Return $\log \sum_j e^{v_j}$ of each list, `(n_lists,)`; minus infinity for an empty list."""
    # A list of minus infinities has no top to subtract.
    top = lists.max(values.detach()).nan_to_num(neginf=0.0)
    return top + lists.sum((values - lists.spread(top)).exp()).log()


def log_sum_exp_from(values: Tensor, lists: Lists) -> Tensor:
    r"""Return $\log \sum_{j \ge i} e^{v_j}$ over the items of the list from each place to the end, `(n_items,)`.

    Sums are doubled in length by adding two of them, with exponentials of their difference only. Scores 1e4 apart thus
    keep their digits, which a shift by the list's highest score would lose.
    """
    left = lists.spread(lists.sizes) - lists.position
    place = torch.arange(len(values), device=values.device)
    step = 1
    while step < lists.longest:
        further = values.index_select(0, (place + step).clamp(max=len(values) - 1))
        values = torch.logaddexp(values, torch.where(left > step, further, -torch.inf))
        step *= 2
    return values
