r"""The curvature of a loss: the diagonal of its Hessian, the divisor of Newton steps in tree boosting.

For losses of smooth ranks it costs a few times as much as a gradient, in near-linear time. Let $M$ be a metric of
smooth ranks $z_i^a$ (the rank of item $i$, and the weights above it), $x = s/\tau$, and $f$, $F$ the first and second
derivatives of $M$ with respect to the ranks. Then, with $\partial z_i^a/\partial x_k = w_k^a \sigma'(x_k - x_i)$ for
$k \ne i$, and minus the sum over the other items for $k = i$,

$$\frac{\partial^2 M}{\partial x_k^2} = \sum_{i, a} f_i^a\, \frac{\partial^2 z_i^a}{\partial x_k^2}
  + \sum_{i, l, a, b} F_{il}^{ab}\, \frac{\partial z_i^a}{\partial x_k} \frac{\partial z_l^b}{\partial x_k}.$$

If each term of the metric depends on the ranks of one item only, as in nDCG and AP, $F_{il} = 0$ for $i \ne l$, and
sums of $\sigma'$, $\sigma'^2$ and $\sigma''$ over the list suffice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rankbound.kernel_sums import kernel_sums
from rankbound.kernels import SIGMOID_CURVATURE, SIGMOID_SLOPE, SIGMOID_SLOPE_SQUARED, Kernel
from rankbound.lists import Lists

# Mixed second derivatives below this share of the largest one are rounding errors.
SEPARABLE = 1e-9


def curvature_by_autograd(loss: Callable[[Tensor, Lists], Tensor], scores: Tensor, lists: Lists) -> Tensor:
    """Return the diagonal of each list's Hessian `(n_items,)`, by differentiating the gradient.

    Lists are independent, so one Hessian-vector product serves the items at one place of all lists; there are as many
    products as the longest list has items.
    """
    leaf = scores.detach().clone().requires_grad_()
    with torch.enable_grad():
        slope = _gradient(loss(leaf, lists).sum(), leaf)
    diagonal = torch.zeros_like(scores)
    for place in range(_longest(lists)):
        here = lists.position == place
        diagonal = torch.where(here, _product(slope, leaf, here), diagonal)
    return diagonal


@dataclass(frozen=True)
class SmoothRankCurvature:
    """The curvature of functions of the smooth ranks of the items `targets`.

    `scores` have shape `(n_items,)`; there is one vector of `weights` `(n_items,)` per column of ranks `(n_targets,
    c)`.
    """

    scores: Tensor
    lists: Lists
    weights: tuple[Tensor, ...]
    targets: Tensor
    temperature: float
    method: str

    def of(self, inner: Callable[[Tensor, Lists], Tensor], outer: Callable[[Tensor], Tensor], ranks: Tensor) -> Tensor:
        r"""Return that of `outer(inner(ranks))`, `(n_items,)`: $(B \circ M)'' = B'(M)\, M'' + B''(M)\, M'^2$.

        `inner` maps the ranks and the targets' lists to a value per list; `outer` maps each list's value.
        """
        leaf = ranks.detach().clone().requires_grad_()
        with torch.enable_grad():
            value = inner(leaf, self._target_lists)
            # Values are NaN where undefined; the sums must not spread that to other lists.
            first = _gradient(value.nan_to_num().sum(), leaf).nan_to_num()
        products = [_product(column, leaf, torch.ones_like(column)) for column in first.unbind(1)]
        blocks = torch.stack(products, 2).nan_to_num()
        squares = self._squares(blocks) if _separable(first, leaf, blocks) else self._products(first, leaf)
        once, twice = outer_derivatives(outer, value)
        curvature = self.lists.spread(once) * (self._bend(first.detach()) + squares)
        if twice is not None:
            curvature = curvature + self.lists.spread(twice) * self._slope(first.detach()).square()
        # The terms of a lone item cancel only up to rounding.
        alone = self.lists.spread(self.lists.sizes == 1)
        return curvature.masked_fill(alone, 0.0) / self.temperature**2

    def _slope(self, first: Tensor) -> Tensor:
        pulled = self._weighed(SIGMOID_SLOPE, first)
        return pulled.index_add(0, self.targets, (first * (self._above + self._itself)).sum(1), alpha=-1)

    def _bend(self, first: Tensor) -> Tensor:
        own = (first * self._sums(SIGMOID_CURVATURE, self.weights, self.targets)).sum(1)
        # The kernel is odd, and the gap has the opposite sign here.
        return self._weighed(SIGMOID_CURVATURE, -first).index_add(0, self.targets, own)

    def _squares(self, blocks: Tensor) -> Tensor:
        """Return the double sum over pairs of ranks of the same item, with `blocks` `(n_targets, c, c)`."""
        total = torch.zeros_like(self.scores)
        for column, weight in enumerate(self.weights):
            met = self._weighed(SIGMOID_SLOPE_SQUARED, blocks[:, column])
            total += weight * met
        own = self._above[:, :, None] * self._above[:, None, :]
        itself = self._itself[:, :, None] * self._itself[:, None, :]
        return total.index_add(0, self.targets, (blocks * (own - itself)).sum((1, 2)))

    def _products(self, first: Tensor, leaf: Tensor) -> Tensor:
        """Return the double sum over all pairs of ranks, computed for one place of all lists at a time."""
        total = torch.zeros_like(self.scores)
        for place in range(_longest(self.lists)):
            answer = self._answer(place)
            value = self._target_lists.sum((answer * _product(first, leaf, answer)).sum(1))
            total = torch.where(self.lists.position == place, self.lists.spread(value), total)
        return total

    def _answer(self, place: int) -> Tensor:
        """Return the derivatives of the ranks by the score at `place` of their list, `(n_targets, c)`; 0 if none."""
        segment = self._target_lists.segment
        begin, exists = self.lists.offsets[:-1][segment], self.lists.sizes[segment] > place
        item = torch.where(exists, begin + place, begin)
        gap = (self.scores[item] - self.scores[self.targets]) / self.temperature
        weights = torch.stack([weight[item] for weight in self.weights], 1)
        answer = torch.where((item == self.targets)[:, None], -self._above, weights * SIGMOID_SLOPE.at(gap)[:, None])
        return answer * exists[:, None]

    def _weighed(self, kernel: Kernel, pushes: Tensor) -> Tensor:
        """Return each item's weights times the sums of the targets' `pushes` `(n_targets, c)` over its list."""
        spread = [torch.zeros_like(self.scores).index_copy(0, self.targets, push) for push in pushes.unbind(1)]
        sums = self._sums(kernel, tuple(spread), None).unbind(1)
        return torch.stack([weight * total for weight, total in zip(self.weights, sums, strict=True)]).sum(0)

    def _sums(self, kernel: Kernel, weights: tuple[Tensor, ...], targets: Tensor | None) -> Tensor:
        return kernel_sums(
            self.scores, self.lists, kernel, weights, targets=targets, temperature=self.temperature, method=self.method
        )

    @cached_property
    def _itself(self) -> Tensor:
        """The share of the target itself in sums of slopes, `(n_targets, c)`."""
        own = torch.stack([weight.index_select(0, self.targets) for weight in self.weights], 1)
        return 0.25 * own

    @cached_property
    def _above(self) -> Tensor:
        """Minus the derivative of each target's ranks by its own score, `(n_targets, c)`: a sum over other items."""
        return self._sums(SIGMOID_SLOPE, self.weights, self.targets) - self._itself

    @cached_property
    def _target_lists(self) -> Lists:
        marked = torch.zeros_like(self.scores, dtype=torch.bool).index_fill(0, self.targets, True)
        return self.lists.keep(marked)


def outer_derivatives(outer: Callable[[Tensor], Tensor], value: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the first and second derivatives of a function of each list's value; None if the latter are all 0."""
    leaf = value.detach().clone().requires_grad_()
    with torch.enable_grad():
        once = _gradient(outer(leaf).sum(), leaf)
    twice = _product(once, leaf, torch.ones_like(once))
    return once.detach(), twice if bool((twice != 0).any()) else None


def _separable(first: Tensor, leaf: Tensor, blocks: Tensor) -> bool:
    """Return true if second derivatives between different items vanish, tested by a product with other numbers."""
    probe = torch.cos(torch.arange(leaf.numel(), dtype=leaf.dtype, device=leaf.device)).view_as(leaf)
    rest = _product(first, leaf, probe) - (blocks * probe[:, None, :]).sum(2)
    return leaf.numel() == 0 or not bool((rest.abs() > SEPARABLE * blocks.abs().max()).any())


def _gradient(total: Tensor, leaf: Tensor) -> Tensor:
    """Return the gradient, itself differentiable; zeros if `total` is constant."""
    if not total.requires_grad:
        return torch.zeros_like(leaf)
    (slope,) = torch.autograd.grad(total, leaf, create_graph=True, allow_unused=True)
    return torch.zeros_like(leaf) if slope is None else slope


def _product(first: Tensor, leaf: Tensor, direction: Tensor) -> Tensor:
    """Return the Hessian-vector product of the gradient `first` with `direction`; zeros if `first` is constant."""
    if not first.requires_grad:
        return torch.zeros_like(leaf)
    (product,) = torch.autograd.grad(first, leaf, direction.to(first), retain_graph=True, allow_unused=True)
    return torch.zeros_like(leaf) if product is None else product


def _longest(lists: Lists) -> int:
    return int(lists.sizes.max()) if len(lists) else 0
