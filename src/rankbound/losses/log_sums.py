"""Sums over lists that keep their digits: of exponentials at any gap, and of a million terms in single precision."""

import torch
from torch import Tensor

from rankbound.lists import Lists


def at_least_single(scores: Tensor) -> Tensor:
    """Scores of half precision, as layers under autocast give them, in single precision; others as they are."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def precise_sum(values: Tensor, lists: Lists) -> Tensor:
    """Sum of the values of each list, `(n_lists,)`, added up in double precision.

    One by one in single precision, a million terms lose the sum's last three digits, and a gradient that is a small
    difference of such sums loses more.
    """
    return lists.sum(values.to(torch.float64)).to(values)


def log_softmax(scores: Tensor, lists: Lists) -> Tensor:
    r"""$\log p_i = s_i - \log \sum_j e^{s_j}$ over the list of each item, `(n_items,)`."""
    # Nothing that is a softmax can tell the scores from their distances to the list's highest.
    shifted = scores - lists.spread(lists.max(scores.detach()))
    total = precise_sum(shifted.exp(), lists)
    # An empty list sums to 0, whose logarithm nobody reads but whose gradient would be NaN.
    return shifted - lists.spread(torch.where(lists.sizes > 0, total, 1.0).log())


def log_sum_exp(values: Tensor, lists: Lists) -> Tensor:
    r"""$\log \sum_j e^{v_j}$ of each list, `(n_lists,)`; minus infinity for an empty one."""
    top = lists.max(values.detach())
    return top + lists.sum((values - lists.spread(top)).exp()).log()


def log_sum_exp_from(values: Tensor, lists: Lists) -> Tensor:
    r"""$\log \sum_{j \ge i} e^{v_j}$ over the items of the list from each place to the end, `(n_items,)`.

    Sums of twice as many places are made of two, so that no exponential is ever taken of anything but a difference of
    two sums: scores 1e4 apart keep their digits, which a shift by the list's highest would lose.
    """
    left = lists.spread(lists.sizes) - lists.position
    place = torch.arange(len(values), device=values.device)
    step, longest = 1, int(lists.sizes.max()) if len(lists) else 0
    while step < longest:
        further = values.index_select(0, (place + step).clamp(max=len(values) - 1))
        values = torch.logaddexp(values, torch.where(left > step, further, -torch.inf))
        step *= 2
    return values
