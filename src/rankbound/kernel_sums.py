"""Sums of a kernel of score differences over each list, pair by pair or in near-linear time."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from rankbound.fused.formulas import COSTS, COSTS_OF_REFERENCE
from rankbound.interpolation import Boxes
from rankbound.kernels import Kernel
from rankbound.lists import Lists, Weights
from rankbound.pairs import pair_sums

# With this many polynomials per box, second derivatives (poles of third order) are as precise as other kernels.
PRECISE_ORDER = 12


def kernel_sums(
    scores: Tensor,
    lists: Lists,
    kernel: Kernel,
    weights: Weights,
    *,
    targets: Tensor | None = None,
    temperature: float = 1.0,
    method: str = "auto",
) -> Tensor:
    r"""Return $\sum_j w_j\, k((s_j - s_i)/\tau)$ over all items `j` of the list of `i`, including `i` itself.

    Args:
        scores: `(n_items,)`, floating point and finite.
        lists: the lists of the batch.
        kernel: $k$, one of `rankbound.kernels` or your own.
        weights: $w$, one or more vectors `(n_items,)`; `None` stands for ones.
        targets: indices of the items `i`; all if `None`.
        temperature: $\tau > 0$, in units of the scores.
        method: as in `rankbound.smooth_rank`. Interpolated sums have errors below 1e-7 of the list's $\sum_j |w_j|$.

    Returns:
        `(n_targets, len(weights))` in the scores' dtype, without a gradient.

    Raises:
        ValueError: for an unknown method, or a temperature that isn't above 0.
    """
    if targets is None:
        targets = torch.arange(len(scores), device=scores.device)
    # Autocast would halve the precision of the scores' differences.
    with torch.no_grad(), torch.autocast(scores.device.type, enabled=False):
        sums = scores.new_empty(len(targets), len(weights))
        for share in shares_of(scores, lists, targets, len(weights), temperature, method):
            own, parts = share.of_items(scores), tuple(map(share.of_items, weights))
            sums[share.targets] = _sums(own, share, kernel, parts, temperature).to(scores.dtype)
        return sums


def _sums(scores: Tensor, share: "Share", kernel: Kernel, weights: Weights, temperature: float) -> Tensor:
    if share.method == "direct":
        return pair_sums(scores, share.lists, share.own_targets, temperature).sums(kernel, weights)
    boxes = Boxes(scores, share.lists, temperature, PRECISE_ORDER)
    return boxes.at(boxes.points(share.own_targets), kernel, boxes.moments(weights, boxes.points()))


@dataclass(frozen=True)
class Share:
    """The lists of a batch whose sums are computed by one method.

    Attributes:
        method: `direct` or `interpolated`.
        items: the indices of the lists' items among all, or all.
        lists: the lists' limits among their items.
        targets: the places of the lists' targets among all targets, or all.
        own_targets: the indices of the lists' targets among their items.
    """

    method: str
    items: Tensor | slice
    lists: Lists
    targets: Tensor | slice
    own_targets: Tensor

    def of_items(self, values: Tensor | None) -> Any:
        """Return the entries of these items of `values` `(n_items,)`; None of None."""
        return values if values is None or isinstance(self.items, slice) else values.index_select(0, self.items)


def shares_of(
    scores: Tensor,
    lists: Lists,
    targets: Tensor,
    n_fields: int,
    temperature: float,
    method: str,
) -> list[Share]:
    """Return the lists that are summed by each method; `auto` selects the faster one for each list, by it alone.

    A list's sums therefore don't depend on the others of its batch. Raises as `require_method`.
    """
    require_method(method, temperature)
    if method != "auto":
        return [Share(method, slice(None), lists, slice(None), targets)]
    # In double precision, it is the choice of the compiled kernels (`rankbound.fused.boxes.pays`), with whose values
    # those of the reference then agree to rounding. In single precision, the error of interpolation is below rounding,
    # and the reference chooses by its own costs.
    costs = COSTS if scores.dtype == torch.float64 else COSTS_OF_REFERENCE
    return split(interpolation_pays(scores, lists, targets, n_fields, temperature, costs), lists, targets)


def interpolation_pays(
    scores: Tensor,
    lists: Lists,
    targets: Tensor,
    n_fields: int,
    temperature: float,
    costs: tuple[float, float, float],
) -> Tensor:
    """Return a mask of the lists for which `n_fields` kinds of sums cost less by interpolation, `(n_lists,)`.

    The costs are those of a pair, an item and a row of boxes.
    """
    pair, item, row = costs
    longest = int(lists.sizes.max()) if len(lists) else 0
    if longest**2 * pair <= n_fields * (longest * item + row):
        return torch.zeros_like(lists.sizes, dtype=torch.bool)
    lowest = (lists.min(scores.to(torch.float64)) - lists.max(scores.to(torch.float64))) / temperature
    n_targets = torch.bincount(lists.segment.index_select(0, targets), minlength=len(lists))
    rows = torch.minimum(lists.sizes.to(torch.float64), 1.0 - lowest / 2.0).clamp(min=0)
    return n_targets * lists.sizes * pair > n_fields * (lists.sizes * item + rows * row)


def split(interpolated: Tensor, lists: Lists, targets: Tensor) -> list[Share]:
    """Return the shares of the lists of a mask `(n_lists,)`, and of the others."""
    if not bool(interpolated.any()):
        return [Share("direct", slice(None), lists, slice(None), targets)]
    if bool(interpolated.all()):
        return [Share("interpolated", slice(None), lists, slice(None), targets)]
    shares = []
    for method, chosen in (("direct", ~interpolated), ("interpolated", interpolated)):
        of_items = lists.spread(chosen)
        items = torch.nonzero(of_items).squeeze(1)
        own = torch.nonzero(of_items.index_select(0, targets)).squeeze(1)
        places = (of_items.cumsum(0) - 1).index_select(0, targets.index_select(0, own))
        shares.append(Share(method, items, Lists.of_sizes(lists.sizes[chosen]), own, places))
    return shares


def require_method(method: str, temperature: float) -> None:
    """Raise `ValueError` for an unknown method, or a temperature that isn't above 0."""
    methods = ("auto", "direct", "interpolated")
    if method not in methods:
        raise ValueError(f"method: found {method!r}, expected one of {', '.join(methods)}")
    require_temperature(temperature)


def require_temperature(temperature: float) -> None:
    """Raise `ValueError` unless the temperature is a number above 0; a tensor would receive no gradient."""
    if not (isinstance(temperature, Real) and temperature > 0):
        raise ValueError(f"temperature: found {temperature}, expected a number above 0")
