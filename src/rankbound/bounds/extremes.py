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

from rankbound.bounds.profiles import Profiles, counted_grade, mean_over_orders
from rankbound.lists import ArrayLike, Lists, as_floating, as_tensor, on_cpu, require_grades
from rankbound.metrics import Metric, metric
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.precision import RBP
from rankbound.ranks import descending_order, hard_ranks, tie_blocks

Counts = int | ArrayLike


Extremes = tuple[Tensor, Tensor]


NO_RANGE = 1e-12
"""Values whose difference is at most this share of the larger one are equal but for rounding."""


LONGEST = 2**25
"""The most items of lists whose items or ranks are held in memory, 256 MB an array."""


MOST_ITEMS = 2**31 - 1
"""The most items of any list; two such counts identify a profile by an int64."""


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
        ValueError: for a text that names no metric, or unless `n` and `p` are integers, 0 <= p <= n and n >= 1, or
            for lists of more than 2^31 - 1 items (2^25 for a metric that adds up their ranks).

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


def _of_counts(of: str | Metric, n: Counts, p: Counts, function: Any) -> npt.NDArray[np.float64]:
    sizes, counts = checked_counts(n, p)
    require_memory(metric(of), sizes)
    flat = [torch.from_numpy(values.flatten()) for values in (sizes, counts)]
    values: npt.NDArray[np.float64] = function(metric(of), *flat).numpy().reshape(sizes.shape)
    return values


def checked_counts(n: Counts, p: Counts) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return numbers of items and of relevant items in their common shape; `ValueError` unless these are possible."""
    try:
        sizes, counts = np.broadcast_arrays(_array(n), _array(p))
    except ValueError:
        raise ValueError("n, p: found arrays whose shapes can't be broadcast, expected two of one shape") from None
    if not (np.issubdtype(sizes.dtype, np.integer) and np.issubdtype(counts.dtype, np.integer)):
        raise ValueError(f"n, p: found dtypes {sizes.dtype} and {counts.dtype}, expected integers")
    if bool(((counts < 0) | (counts > sizes) | (sizes < 1)).any()):
        raise ValueError("n, p: expected 0 <= p <= n and n >= 1 everywhere")
    if sizes.size and int(sizes.max()) > MOST_ITEMS:
        raise ValueError(f"n: found a list of {int(sizes.max()):,} items, expected at most {MOST_ITEMS:,}")
    return sizes.astype(np.int64), counts.astype(np.int64)


def _array(counts: Counts) -> npt.NDArray[Any]:
    if isinstance(counts, Tensor):
        counts = counts.detach().cpu()
    return np.asarray(counts)


@on_cpu
def require_memory(of: Metric, sizes: npt.NDArray[np.int64]) -> None:
    """Raise `ValueError` for lists that are too long for a metric without a formula for their extremes and mean."""
    one = np.ones(1, dtype=np.int64)
    has_table = isinstance(of, AdditiveMetric) and not isinstance(of, RBP)
    items = int(sizes.max()) if sizes.size else 0
    if not has_table and of.binary_extremes(one, one) is None:
        items = int(sizes.sum())
    elif not has_table:
        return
    if items > LONGEST:
        raise ValueError(f"n: found {items:,} items, expected at most {LONGEST:,} for {of}, which adds up their ranks")


def _lists_of(relevance: ArrayLike, offsets: ArrayLike) -> tuple[Tensor, Lists]:
    grades = as_tensor(relevance, "relevance").detach().contiguous()
    require_grades(grades)
    return (grades.to(torch.int64) if grades.dtype == torch.int8 else grades), Lists.checked(offsets, len(grades))


def binary_extremes(of: Metric, n: Tensor, p: Tensor) -> Extremes:
    closed = of.binary_extremes(n.cpu().numpy(), p.cpu().numpy())
    if closed is None:
        return list_extremes(of, *_binary_lists(of, n, p))
    return _in_range(of, *(torch.from_numpy(end).to(n.device) for end in closed))


def binary_expectation(of: Metric, n: Tensor, p: Tensor, within: Extremes | None = None) -> Tensor:
    """Return the mean over all orders; `within` are the extremes, computed unless they are known."""
    low, high = binary_extremes(of, n, p) if within is None else within
    closed = of.binary_expectation(n.cpu().numpy(), p.cpu().numpy())
    mean = None if closed is None else torch.from_numpy(closed).to(n.device)
    if mean is None and of.has_formula_for_ties:
        return list_expectation(of, *_binary_lists(of, n, p), (low, high))
    # Adding 0 turns -0.0 into 0.0.
    return (_means(of, Profiles(n, p)) if mean is None else mean).clamp(low, high) + 0.0


def _binary_lists(of: Metric, n: Tensor, p: Tensor) -> tuple[Tensor, Lists]:
    """Return one list per pair, relevant items first."""
    lists = Lists.of_sizes(n)
    return counted_grade(of) * (lists.position < p[lists.segment]).to(torch.int64), lists


def list_extremes(of: Metric, relevance: Tensor, lists: Lists) -> Extremes:
    weights = of.rank_weights(relevance)
    best, worst = (
        of.of_ranks(hard_ranks(descending_order(key, lists), lists, weights), relevance, lists)
        # In floating point, since unsigned integers and booleans can't be negated.
        for key in (as_floating(relevance), -as_floating(relevance))
    )
    return _in_range(of, best, worst)


def list_expectation(of: Metric, relevance: Tensor, lists: Lists, within: Extremes | None = None) -> Tensor:
    """Return the mean over all orders; `within` as for `binary_expectation`."""
    low, high = list_extremes(of, relevance, lists) if within is None else within
    if of.has_formula_for_ties:
        all_tied = tie_blocks(torch.zeros_like(relevance, dtype=torch.float64), lists)
        mean = of.of_blocks(all_tied, relevance, lists)
    else:
        mean = _means(of, Profiles.of_lists(of, relevance, lists))
    return mean.to(low).clamp(low, high) + 0.0


def _in_range(of: Metric, one: Tensor, other: Tensor) -> Extremes:
    """Return the values of the best and the worst order, the smaller first, within the metric's range."""
    return of.in_range(torch.minimum(one, other)), of.in_range(torch.maximum(one, other))


def _means(of: Metric, profiles: Profiles) -> Tensor:
    """Return the mean over all orders of each list, computed once per distinct profile."""
    distinct, which = profiles.distinct()
    means = [mean_over_orders(of, profile) for profile in distinct]
    return torch.tensor(means, dtype=torch.float64, device=which.device).index_select(0, which)


def differ(low: Tensor, high: Tensor) -> Tensor:
    """Return a mask of the lists where `high` exceeds `low` by more than rounding; false where one is NaN."""
    return high - low > NO_RANGE * torch.maximum(low.abs(), high.abs())
