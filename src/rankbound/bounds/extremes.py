"""The smallest, largest and mean value of a metric over all orders of a list.

Binary lists, given by their numbers of items and of relevant items, use the metric's closed forms. Any list of grades
works as well: its extremes are those of the orders by descending and by ascending grade, and its mean over all orders
is the metric's value when all items tie.

The extremes suppose that a metric never gets worse when an item is exchanged with a better one below it. All of ours
are so; for one that is not, say one that rewards variety, they are wrong, and so are the bounds that use them.
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
    """The smallest value over all orders of `n` items of which `p` are relevant (thesis eqs. 3.2 over IDCG, 3.4).

    `n` and `p` are numbers or integer arrays of one shape, with 0 <= p <= n and n >= 1; the result has that shape.
    NaN where the metric is undefined. `nRBP` means the loss of eq. 2.12, whose smallest value is 0.
    """
    return _of_counts(of, n, p, lambda m, sizes, counts: binary_extremes(m, sizes, counts)[0])


def maximum(of: str | Metric, n: Counts, p: Counts) -> npt.NDArray[np.float64]:
    """The largest value over all orders; `P(N - P)` for the nRBP loss (thesis eq. 3.3). Arguments as `minimum`."""
    return _of_counts(of, n, p, lambda m, sizes, counts: binary_extremes(m, sizes, counts)[1])


def expectation(
    of: str | Metric,
    n: Counts | None = None,
    p: Counts | None = None,
    *,
    relevance: ArrayLike | None = None,
    offsets: ArrayLike | None = None,
) -> npt.NDArray[np.float64]:
    """The mean over all orders (thesis eqs. 3.8 with P/N, 3.9, 3.10; eq. 3.5 for grades).

    Either of `n` items of which `p` are relevant (as `minimum`), or of each list of `relevance` with `offsets`. A
    metric without a formula is averaged over all orders of a list that has at most 200,000 (of 20 million items in
    all), else over 20,000 random ones: with a standard error of 1/141 of a random order's standard deviation.
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
    """The smallest and the largest value of each list of grades, over all its orders."""
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
    if _has_formula(of):
        return list_expectation(of, *_binary_lists(of, n, p))
    return _means(of, Profiles(n, p))


def list_extremes(of: Metric, relevance: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
    weights = of.rank_weights(relevance)
    best, worst = (
        of.of_ranks(hard_ranks(descending_order(key, lists), lists, weights), relevance, lists)
        # In floating point, since unsigned integers and booleans have no opposite.
        for key in (as_floating(relevance), -as_floating(relevance))
    )
    return torch.minimum(best, worst), torch.maximum(best, worst)


def list_expectation(of: Metric, relevance: Tensor, lists: Lists) -> Tensor:
    if not _has_formula(of):
        return _means(of, Profiles.of_lists(of, relevance, lists))
    return of.of_blocks(tie_blocks(torch.zeros_like(relevance, dtype=torch.float64), lists), relevance, lists)


def _has_formula(of: Metric) -> bool:
    """Whether the metric has a closed form of its own for ties."""
    return type(of).of_blocks is not Metric.of_blocks


def _means(of: Metric, profiles: Profiles) -> Tensor:
    """The mean over all orders of each list, found once for lists that are alike."""
    distinct, which = profiles.distinct()
    means = torch.tensor([mean_over_orders(of, one) for one in distinct], dtype=torch.float64)
    return means.to(which.device).index_select(0, which)


def _of_counts(of: str | Metric, n: Counts, p: Counts, function: Any) -> npt.NDArray[np.float64]:
    sizes, counts = np.broadcast_arrays(np.asarray(n), np.asarray(p))
    if not (np.issubdtype(sizes.dtype, np.integer) and np.issubdtype(counts.dtype, np.integer)):
        raise ValueError(f"n, p: found dtypes {sizes.dtype} and {counts.dtype}, expected integers")
    if bool(((counts < 0) | (counts > sizes) | (sizes < 1)).any()):
        raise ValueError("n, p: expected 0 <= p <= n and n >= 1 everywhere")
    flat = [torch.from_numpy(values.astype(np.int64).ravel()) for values in (sizes, counts)]
    values: npt.NDArray[np.float64] = function(metric(of), *flat).numpy().reshape(sizes.shape)
    return values


def _binary_lists(of: Metric, n: Tensor, p: Tensor) -> tuple[Tensor, Lists]:
    """One list per pair, its relevant items first."""
    lists = Lists(torch.cat([n.new_zeros(1), n.cumsum(0)]))
    return counted_grade(of) * (lists.position < p[lists.segment]).to(torch.int64), lists


def _lists_of(relevance: ArrayLike, offsets: ArrayLike) -> tuple[Tensor, Lists]:
    grades = as_tensor(relevance, "relevance")
    return (grades.to(torch.int64) if grades.dtype == torch.int8 else grades), Lists.checked(offsets, len(grades))
