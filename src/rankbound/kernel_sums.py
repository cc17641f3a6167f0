"""Sums of a kernel of score differences over each list, pair by pair or in near-linear time."""

from numbers import Real

import torch
from torch import Tensor

from rankbound.interpolation import Boxes
from rankbound.kernels import SIGMOID, STEPS, Kernel
from rankbound.lists import Lists, Weights
from rankbound.pairs import pair_sums
from rankbound.scans import ScannedSums
from rankbound.texts import require_one_of

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
        method: as in `rankbound.smooth_rank`. Interpolated sums have errors below 1e-7 of the list's $\sum_j |w_j|$;
            scanned ones are exact.

    Returns:
        `(n_targets, len(weights))` in the scores' dtype, without a gradient.

    Raises:
        ValueError: for a method that doesn't fit the kernel, or a temperature that isn't above 0.
    """
    if targets is None:
        targets = torch.arange(len(scores), device=scores.device)
    method = chosen_method(method, temperature, lists, targets, kernel)
    # Autocast would halve the precision of the scores' differences.
    with torch.no_grad(), torch.autocast(scores.device.type, enabled=False):
        if method == "direct":
            return pair_sums(scores, lists, targets, temperature).sums(kernel, weights)
        if method == "scanned":
            return ScannedSums(scores, lists, targets, temperature).sums(kernel, weights).to(scores.dtype)
        boxes = Boxes(scores, lists, temperature, PRECISE_ORDER)
        moments = boxes.moments(weights, boxes.points())
        return boxes.at(boxes.points(targets), kernel, moments).to(scores.dtype)


def chosen_method(method: str, temperature: float, lists: Lists, targets: Tensor, kernel: Kernel = SIGMOID) -> str:
    """Return `direct`, `interpolated` or `scanned`; `auto` selects the fastest one. Raises as `require_method`."""
    _require_method(method, temperature, kernel)
    if method != "auto":
        return method
    if kernel.exponentials is not None:
        return "scanned"
    if len(lists) == 1:
        n_pairs, limit = lists.n_items * len(targets), PAIRS_OF_ONE_LIST_WORTH_INTERPOLATION
    else:
        n_pairs = int(lists.sizes.index_select(0, lists.segment.index_select(0, targets)).sum())
        limit = PAIRS_WORTH_INTERPOLATION
    return "interpolated" if n_pairs > limit else "direct"


def require_method(method: str, temperature: float, kernel: str = "sigmoid") -> None:
    """Raise `ValueError` for an unknown kernel, a method that doesn't fit it, or a temperature that isn't above 0."""
    require_one_of("kernel", kernel, tuple(STEPS))
    _require_method(method, temperature, STEPS[kernel].value)


def _require_method(method: str, temperature: float, kernel: Kernel) -> None:
    methods = ("auto", "direct", "interpolated" if kernel.exponentials is None else "scanned")
    if method not in methods:
        raise ValueError(f"method: found {method!r}, expected one of {', '.join(methods)}")
    require_temperature(temperature)


def require_temperature(temperature: float) -> None:
    """Raise `ValueError` unless the temperature is a number above 0; a tensor would receive no gradient."""
    if not (isinstance(temperature, Real) and temperature > 0):
        raise ValueError(f"temperature: found {temperature}, expected a number above 0")
