"""Numerically stable sums over lists: of exponentials of any range, and of many terms in single precision."""

import torch
from torch import Tensor

from rankbound.lists import Lists


def at_least_single(scores: Tensor) -> Tensor:
    """Convert half-precision scores, as produced under autocast, to single precision; return others unchanged."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def precise_sum(values: Tensor, lists: Lists) -> Tensor:
    """Return the sum of the values of each list, `(n_lists,)`, computed in double precision.

    In single precision, a sum of a million terms loses its last three digits, and a gradient that is a small difference
    of such sums loses more.
    """
    return lists.sum(values.to(torch.float64)).to(values)


def log_softmax(scores: Tensor, lists: Lists) -> Tensor:
    r"""Return $\log p_i = s_i - \log \sum_j e^{s_j}$ over the list of each item, `(n_items,)`."""
    # A softmax is invariant to shifting the scores.
    shifted = scores - lists.spread(lists.max(scores.detach()))
    total = precise_sum(shifted.exp(), lists)
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
    step, longest = 1, int(lists.sizes.max()) if len(lists) else 0
    while step < longest:
        further = values.index_select(0, (place + step).clamp(max=len(values) - 1))
        values = torch.logaddexp(values, torch.where(left > step, further, -torch.inf))
        step *= 2
    return values
