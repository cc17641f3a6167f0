"""The smallest, largest and mean value of a metric over all orders of a list.

For binary lists, given by the numbers of items and of relevant items, the metric's closed forms are used. For lists of
grades, the extremes are the values of the orders by descending and by ascending grade, and the mean over all orders is
the metric's value when all items tie.

The extremes assume that a metric never gets worse when an item is exchanged with a better one below it. All metrics of
this library satisfy this. For others, such as metrics of diversity, the extremes and the bounds that use them are
invalid.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.bounds._any_metric import mean_over_orders
from rankbound.bounds.profiles import Profiles, counted_grade
from rankbound.lists import ArrayLike, Lists, as_floating, as_tensor
from rankbound.metrics import Metric, metric
from rankbound.ranks import descending_order, hard_ranks, tie_blocks

Counts = int | ArrayLike


def minimum(of: str | Metric, n: Counts, p: Counts) -> npt.NDArray[np.float64]:
    """Return the smallest value over all orders of `n` items, `p` of them relevant (thesis eqs. 3.2 over IDCG, 3.4).

    `nRBP` is the loss of eq. 2.12, whose smallest value is 0.

    Args:
        of: the metric or its text.
        n: numbers of items, an integer or an integer array.
        p: numbers of relevant items, broadcast with `n`.

    Returns:
        Float64 in the shape of `n` and `p`; NaN where the metric is undefined.

    Raises:
        ValueError: for a text that names no metric, or unless `n` and `p` are integers, 0 <= p <= n and n >= 1.

    >>> float(rb.minimum("P@2", 3, 2))
    0.5
    """
    return _of_counts(of, n, p, lambda m, sizes, counts: binary_extremes(m, sizes, counts)[0])


def maximum(of: str | Metric, n: Counts, p: Counts) -> npt.NDArray[np.float64]:
    """Return the largest value over all orders, `P(N - P)` for the nRBP loss (thesis eq. 3.3).

    Args:
        of, n, p: as for `minimum`.

    Returns:
        As `minimum`.

    Raises:
        ValueError: as `minimum`.

    >>> float(rb.maximum("nRBP", 50, 25))
    625.0
    """
    return _of_counts(of, n, p, lambda m, sizes, counts: binary_extremes(m, sizes, counts)[1])


def expectation(
    of: str | Metric,
    n: Counts | None = None,
    p: Counts | None = None,
    *,
    relevance: ArrayLike | None = None,
    offsets: ArrayLike | None = None,
) -> npt.NDArray[np.float64]:
    """Return the mean over all orders (thesis eqs. 3.8 with P/N, 3.9, 3.10; eq. 3.5 for grades).

    The lists are given either by `n` items, `p` of them relevant (as for `minimum`), or by `relevance` `(n_items,)` and
    `offsets` `(n_lists + 1,)`. A metric without a closed form is averaged over all orders of a list if there are at
    most 200,000 (with at most 20 million items in total), otherwise over 20,000 random ones, with a standard error of
    1/141 of a random order's standard deviation.

    Args:
        of: the metric or its text.
        n, p: the numbers of items and of relevant items, as for `minimum`; or
        relevance: `(n_items,)`, grades from 0, with
        offsets: `(n_lists + 1,)`, the lists' limits.

    Returns:
        Float64 in the shape of `n` and `p`, or `(n_lists,)`; NaN where the metric is undefined.

    Raises:
        ValueError: as `minimum`, unless exactly one of the two forms is given, or for invalid offsets.

    >>> round(float(rb.expectation("AP", 50, 25)), 4)
    0.5357
    """
    if (n is None or p is None) == (relevance is None or offsets is None):
        raise ValueError("expectation: expected either n and p, or relevance= and offsets=")
    if n is not None and p is not None:
        return _of_counts(of, n, p, binary_expectation)
    assert relevance is not None
    assert offsets is not None
    grades, lists = _lists_of(relevance, offsets)
    return list_expectation(metric(of), grades, lists).numpy()


def extremes(
    of: str | Metric, relevance: ArrayLike, offsets: ArrayLike
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the smallest and the largest value of each list over all its orders, float64 `(n_lists,)` each.

    Args:
        of: the metric or its text.
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits.

    Returns:
        Two arrays; NaN where the metric is undefined.

    Raises:
        ValueError: for a text that names no metric, or invalid offsets.

    >>> rb.extremes("P@1", [0, 1, 1, 1], [0, 2, 4])
    (array([0., 1.]), array([1., 1.]))
    """
    grades, lists = _lists_of(relevance, offsets)
    low, high = list_extremes(metric(of), grades, lists)
    return low.numpy(), high.numpy()


def binary_extremes(of: Metric, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    closed = of.binary_extremes(n, p)
    return closed if closed is not None else list_extremes(of, *_binary_lists(of, n, p))


def binary_expectation(of: Metric, n: Tensor, p: Tensor) -> Tensor:
    closed = of.binary_expectation(n, p)
    if closed is not None:
        return closed
    if of.has_formula_for_ties:
        return list_expectation(of, *_binary_lists(of, n, p))
    return _means(of, Profiles(n, p))


def list_extremes(of: Metric, relevance: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
    weights = of.rank_weights(relevance)
    best, worst = (
        of.of_ranks(hard_ranks(descending_order(key, lists), lists, weights), relevance, lists)
        # In floating point, since unsigned integers and booleans can't be negated.
        for key in (as_floating(relevance), -as_floating(relevance))
    )
    return torch.minimum(best, worst), torch.maximum(best, worst)


def list_expectation(of: Metric, relevance: Tensor, lists: Lists) -> Tensor:
    if not of.has_formula_for_ties:
        return _means(of, Profiles.of_lists(of, relevance, lists))
    return of.of_blocks(tie_blocks(torch.zeros_like(relevance, dtype=torch.float64), lists), relevance, lists)


def _means(of: Metric, profiles: Profiles) -> Tensor:
    """Return the mean over all orders of each list, computed once per distinct profile."""
    distinct, which = profiles.distinct()
    means = [mean_over_orders(of, profile) for profile in distinct]
    return torch.tensor(means, dtype=torch.float64, device=which.device).index_select(0, which)


def _of_counts(of: str | Metric, n: Counts, p: Counts, function: Any) -> npt.NDArray[np.float64]:
    sizes, counts = np.broadcast_arrays(*checked_counts(n, p))
    flat = [torch.from_numpy(values.flatten()) for values in (sizes, counts)]
    values: npt.NDArray[np.float64] = function(metric(of), *flat).numpy().reshape(sizes.shape)
    return values


def checked_counts(n: Counts, p: Counts) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return numbers of items and of relevant items; `ValueError` unless they are integers, 0 <= p <= n and n >= 1."""
    sizes, counts = np.asarray(n), np.asarray(p)
    if not (np.issubdtype(sizes.dtype, np.integer) and np.issubdtype(counts.dtype, np.integer)):
        raise ValueError(f"n, p: found dtypes {sizes.dtype} and {counts.dtype}, expected integers")
    if bool(((counts < 0) | (counts > sizes) | (sizes < 1)).any()):
        raise ValueError("n, p: expected 0 <= p <= n and n >= 1 everywhere")
    return sizes.astype(np.int64), counts.astype(np.int64)


def _binary_lists(of: Metric, n: Tensor, p: Tensor) -> tuple[Tensor, Lists]:
    """Return one list per pair, relevant items first."""
    lists = Lists.of_sizes(n)
    return counted_grade(of) * (lists.position < p[lists.segment]).to(torch.int64), lists


def _lists_of(relevance: ArrayLike, offsets: ArrayLike) -> tuple[Tensor, Lists]:
    grades = as_tensor(relevance, "relevance").detach()
    return (grades.to(torch.int64) if grades.dtype == torch.int8 else grades), Lists.checked(offsets, len(grades))
