"""Sums of a smooth kernel of score differences over each list, pair by pair or in linear time."""

import torch
from torch import Tensor

from rankbound.interpolation import Boxes
from rankbound.kernels import Kernel
from rankbound.lists import Lists, Weights
from rankbound.pairs import pair_sums

METHODS = ("auto", "direct", "interpolated")

# Numbers of (target, item) pairs above which interpolation is faster, measured on batches of 32 lists and on one list,
# whose pairs fill a matrix.
PAIRS_WORTH_INTERPOLATION = 30_000
PAIRS_OF_ONE_LIST_WORTH_INTERPOLATION = 700_000

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
        ValueError: for an unknown method or a temperature that isn't above 0.
    """
    if targets is None:
        targets = torch.arange(len(scores), device=scores.device)
    method = chosen_method(method, temperature, lists, targets)
    # Autocast would halve the precision of the scores' differences.
    with torch.no_grad(), torch.autocast(scores.device.type, enabled=False):
        if method == "direct":
            return pair_sums(scores, lists, targets, temperature).sums(kernel, weights)
        boxes = Boxes(scores, lists, temperature, PRECISE_ORDER)
        moments = boxes.moments(weights, boxes.points())
        return boxes.at(boxes.points(targets), kernel, moments).to(scores.dtype)


def chosen_method(method: str, temperature: float, lists: Lists, targets: Tensor) -> str:
    """Return `direct` or `interpolated`; `auto` selects the faster one. Raises as `require_method`."""
    require_method(method, temperature)
    if method != "auto":
        return method
    if len(lists) == 1:
        n_pairs, limit = lists.n_items * len(targets), PAIRS_OF_ONE_LIST_WORTH_INTERPOLATION
    else:
        n_pairs = int(lists.sizes.index_select(0, lists.segment.index_select(0, targets)).sum())
        limit = PAIRS_WORTH_INTERPOLATION
    return "interpolated" if n_pairs > limit else "direct"


def require_method(method: str, temperature: float) -> None:
    """Raise `ValueError` for an unknown method or a temperature that isn't above 0."""
    if method not in METHODS:
        raise ValueError(f"method: found {method!r}, expected one of {', '.join(METHODS)}")
    if not temperature > 0:
        raise ValueError(f"temperature: found {temperature}, expected a number above 0")
