"""The smallest, largest and mean value of a metric over all orders of a list, and all facts about lists for bounds.

For binary lists, given by the numbers of items and of relevant items, the metric's closed forms are used. For lists of
grades, the extremes are the values of the orders by descending and by ascending grade, and the mean over all orders is
the metric's value when all items tie.

The extremes assume that a metric never gets worse when an item is exchanged with a better one below it. All metrics of
this library satisfy this, but for AP@k divided by the relevant items that are found, whose extremes are at these orders
as well. For others, such as metrics of diversity, the extremes and the bounds that use them are invalid.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rankbound.kernels.formulas import Floats, Integers
from rankbound.lazy import ArrayLike, Lists, Tensor, torch
from rankbound.metrics import Metric, metric
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.precision import RBP
from rankbound.texts import require

if TYPE_CHECKING:
    from rankbound.bounds.orders import Profile

Counts = int | ArrayLike

CumulativeDistribution = Callable[[Tensor, "Facts", Any], Tensor]
"""The step or smooth CDF of a metric: maps each list's value to the share of random orders with at most that score,
`(n_lists,)`. The last argument, the gain, applies to the smooth CDF only."""

NO_RANGE = 1e-12
"""Values whose difference is at most this share of the larger one are equal but for rounding."""
LONGEST = 2**25
"""The most items of lists whose items or ranks are held in memory, 256 MB an array."""
MOST_ITEMS = 2**31 - 1
"""The most items of any list; two such counts identify a profile by an int64."""


def minimum(of: str | Metric, n: Counts, p: Counts) -> Floats:
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
    return _extremes_of_counts(of, n, p)[0]


def maximum(of: str | Metric, n: Counts, p: Counts) -> Floats:
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
    return _extremes_of_counts(of, n, p)[1]


def expectation(
    of: str | Metric,
    n: Counts | None = None,
    p: Counts | None = None,
    *,
    relevance: ArrayLike | None = None,
    offsets: ArrayLike | None = None,
) -> Floats:
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
    if n is not None and p is not None and (relevance is None or offsets is None):
        sizes, counts = checked_counts(metric(of), n, p)
        return binary_expectation(metric(of), sizes.ravel(), counts.ravel()).reshape(sizes.shape)
    if relevance is not None and offsets is not None and (n is None or p is None):
        return np.asarray(list_expectation(metric(of), *checked_lists(relevance, offsets)).numpy())
    raise ValueError("expectation: expected either n and p, or relevance= and offsets=")


def extremes(of: str | Metric, relevance: ArrayLike, offsets: ArrayLike) -> tuple[Floats, Floats]:
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
    grades, lists = checked_lists(relevance, offsets)
    low, high = list_extremes(metric(of), grades, lists)
    return low.numpy(), high.numpy()


def _per_list(compute: Callable[["Facts"], Tensor]) -> "cached_property[Tensor]":
    """Make a fact `(n_lists,)`, computed when it is first asked for; some lists' facts are taken from those of all."""

    def fact(facts: "Facts") -> Tensor:
        if facts._whole is None:
            from rankbound.lists import waiting

            with waiting(True):
                return compute(facts)
        whole, index = facts._whole
        known: Tensor = getattr(whole, compute.__name__)
        return known.index_select(0, index)

    fact.__doc__ = compute.__doc__
    return cached_property(fact)


class Facts:
    """The facts about each list that bounds use, each `(n_lists,)` and computed when it is asked for.

    A list's profile is its number of items of each grade: (n, p) if its relevance is binary, otherwise its sorted
    grades. Args: the metric, the lists' relevance, and the CDF of the metric, for lists whose orders differ in score
    (only the distribution bound uses it).
    """

    def __init__(
        self, metric: Metric, relevance: Tensor, lists: Lists | None, distribution: CumulativeDistribution | None = None
    ) -> None:
        self.metric, self._relevance, self.distribution = metric, relevance, distribution
        self._lists: Any = lists
        self._whole: tuple[Facts, Tensor] | None = None
        self.looked_up: tuple[Any, ...] = (None,)

    @classmethod
    def of_counts(
        cls, metric: Metric, n: Tensor, p: Tensor, distribution: CumulativeDistribution | None = None
    ) -> "Facts":
        """Return the facts about lists of `n` items, `p` of them relevant and of one grade."""
        facts = cls(metric, n, None, distribution)
        facts.n, facts.p, facts.informative, facts.graded = n, p, p > 0, None
        return facts

    def select(self, index: Tensor) -> "Facts":
        """Return the facts about some of the lists, taken from these, which are computed once."""
        some = Facts(self.metric, self._relevance, self._lists, self.distribution)
        some._whole = self, index
        return some

    @cached_property
    def of_several_scores(self) -> tuple["Facts", Tensor]:
        """The facts about the lists whose orders differ in score, and the indices of these lists."""
        index = torch.nonzero(self.orders_differ).squeeze(1)
        return self.select(index), index

    @_per_list
    def informative(self) -> Tensor:
        """The metric's mask of the informative lists."""
        return self.metric.informative(self._relevance, self._lists)

    @_per_list
    def n(self) -> Tensor:
        """The number of items."""
        sizes: Tensor = self._lists.sizes
        return sizes

    @_per_list
    def p(self) -> Tensor:
        """The number of relevant items."""
        relevant: Tensor = self._lists.sum(self.metric.relevant(self._relevance))
        return relevant.to(torch.int64)

    @cached_property
    def graded(self) -> tuple[Tensor, Lists] | None:
        """The relevance and the lists if the metric uses other grades than 0 and 1, and some list has them."""
        grades = self._relevance
        binary = not self.metric.uses_grades or bool(((grades == 0) | (grades == 1)).all())
        return None if binary else (grades, self._lists)

    @_per_list
    def minimum(self) -> Tensor:
        """The smallest value of any order."""
        return self._extremes[0]

    @_per_list
    def maximum(self) -> Tensor:
        """The largest value of any order."""
        return self._extremes[1]

    @cached_property
    def _extremes(self) -> tuple[Tensor, Tensor]:
        if self.graded is not None:
            return list_extremes(self.metric, *self.graded)
        low, high = binary_extremes(self.metric, *self._counts, self.n.device)
        return self._on_device(low), self._on_device(high)

    @_per_list
    def expectation(self) -> Tensor:
        """The mean over all orders."""
        if self.graded is not None:
            return list_expectation(self.metric, *self.graded, self._extremes)
        low, high = (end.cpu().numpy() for end in self._extremes)
        n, p = self._counts
        return self._on_device(binary_expectation(self.metric, n.clip(min=1), p, (low, high), self.n.device))

    @_per_list
    def orders_differ(self) -> Tensor:
        """A mask of the lists whose score depends on the order; P@10 of five items, for example, doesn't."""
        differs: Tensor = differ(self.minimum, self.maximum)
        return differs

    @_per_list
    def keys(self) -> Tensor:
        """`Profile.key` of every list, int64: at least 0, and ascending with (n, p), for a binary one."""
        keys = self.n.to(torch.int64) << 32 | self.p
        if self.graded is None:
            return keys
        from rankbound.bounds.orders import graded_keys

        relevance, lists = self.graded
        is_graded = lists.sum((relevance != 0) & (relevance != 1)) > 0
        return torch.where(is_graded, graded_keys(relevance, lists), keys)

    @cached_property
    def needed(self) -> set[int]:
        """The distinct `keys`."""
        return set(self.keys.tolist())

    def distinct(self) -> tuple[list["Profile"], Tensor]:
        """Return the distinct profiles, and the index of each list's profile among them `(n_lists,)`."""
        keys, which = torch.unique(self.keys, return_inverse=True)
        example = torch.empty_like(keys).scatter_(0, which, torch.arange(len(which), device=which.device))
        return [self.profile(index) for index in example.tolist()], which

    def profile(self, index: int) -> "Profile":
        """Return the profile of one list."""
        from rankbound.bounds.orders import Profile
        from rankbound.lists import as_floating

        if self._whole is not None:
            whole, places = self._whole
            return whole.profile(int(places[index]))
        n, p = int(self.n[index]), int(self.p[index])
        if self.graded is None or int(self.keys[index]) >= 0:
            return Profile(n, p)
        relevance, lists = self.graded
        start, stop = lists.offsets[index : index + 2].tolist()
        return Profile(n, p, tuple(sorted(as_floating(relevance[start:stop]).tolist(), reverse=True)))

    @property
    def _counts(self) -> tuple[Integers, Integers]:
        return self.n.cpu().numpy(), self.p.cpu().numpy()

    def _on_device(self, values: Floats) -> Tensor:
        return torch.from_numpy(values).to(self.n.device)


def _extremes_of_counts(of: str | Metric, n: Counts, p: Counts) -> tuple[Floats, Floats]:
    sizes, counts = checked_counts(metric(of), n, p)
    low, high = binary_extremes(metric(of), sizes.ravel(), counts.ravel())
    return low.reshape(sizes.shape), high.reshape(sizes.shape)


def checked_counts(of: Metric, n: Counts, p: Counts) -> tuple[Integers, Integers]:
    """Return numbers of items and of relevant items in their common shape; `ValueError` unless these are possible.

    Lists of a metric without a formula for their extremes, or of discounts in a table, have to fit into memory.
    """
    try:
        sizes, counts = np.broadcast_arrays(
            *(np.asarray(one.detach().cpu() if hasattr(one, "detach") else one) for one in (n, p))
        )
    except ValueError:
        raise ValueError("n, p: found arrays whose shapes can't be broadcast, expected two of one shape") from None
    if not (np.issubdtype(sizes.dtype, np.integer) and np.issubdtype(counts.dtype, np.integer)):
        raise ValueError(f"n, p: found dtypes {sizes.dtype} and {counts.dtype}, expected integers")
    if bool(((counts < 0) | (counts > sizes) | (sizes < 1)).any()):
        raise ValueError("n, p: expected 0 <= p <= n and n >= 1 everywhere")
    longest, one = int(sizes.max(initial=0)), np.ones(1, dtype=np.int64)
    require("n", f"a list of {longest:,} items", longest <= MOST_ITEMS, f"at most {MOST_ITEMS:,}")
    sizes, counts = sizes.astype(np.int64), counts.astype(np.int64)
    if isinstance(of, AdditiveMetric) and not isinstance(of, RBP):
        items = longest
    else:
        items = int(sizes.sum()) if of.binary_extremes(one, one) is None else 0
    expected = f"at most {LONGEST:,} for {of}, which adds up their ranks"
    require("n", f"{items:,} items", items <= LONGEST, expected)
    return sizes, counts


def binary_extremes(of: Metric, n: Integers, p: Integers, device: Any = "cpu") -> tuple[Floats, Floats]:
    """Return the extremes of binary lists, `(n_lists,)`; without a closed form, their items are ranked on `device`."""
    closed = of.binary_extremes(n, p)
    if closed is None:
        low, high = list_extremes(of, *_binary_lists(of, n, p, device))
        return low.cpu().numpy(), high.cpu().numpy()
    return of.in_range(np.minimum(*closed)), of.in_range(np.maximum(*closed))


def binary_expectation(
    of: Metric, n: Integers, p: Integers, within: tuple[Floats, Floats] | None = None, device: Any = "cpu"
) -> Floats:
    """Return the mean over all orders; `within` are the extremes, computed unless they are known."""
    low, high = binary_extremes(of, n, p, device) if within is None else within
    mean = of.binary_expectation(n, p)
    if mean is None:
        mean = _means(of, *_binary_lists(of, n, p, device)).cpu().numpy()
    # Adding 0 turns -0.0 into 0.0.
    return np.asarray(mean.clip(low, high) + 0.0)


def list_extremes(of: Metric, relevance: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
    """Return the values of the best and the worst order of each list, the smaller first."""
    from rankbound.lists import as_floating
    from rankbound.ranks import descending_order, hard_ranks

    weights = of.rank_weights(relevance)
    best, worst = (
        of.of_ranks(hard_ranks(descending_order(key, lists), lists, weights), relevance, lists)
        # In floating point, since unsigned integers and booleans can't be negated.
        for key in (as_floating(relevance), -as_floating(relevance))
    )
    return of.in_range(torch.minimum(best, worst)), of.in_range(torch.maximum(best, worst))


def list_expectation(
    of: Metric, relevance: Tensor, lists: Lists, within: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Return the mean over all orders; `within` as for `binary_expectation`."""
    low, high = list_extremes(of, relevance, lists) if within is None else within
    return _means(of, relevance, lists).to(low).clamp(low, high) + 0.0


def _means(of: Metric, relevance: Tensor, lists: Lists) -> Tensor:
    """Return the value of each list with all items tied, or its mean over orders, once per distinct profile."""
    from rankbound.bounds.orders import mean_over_orders
    from rankbound.ranks import tie_blocks

    if of.has_formula_for_ties:
        return of.of_blocks(tie_blocks(torch.zeros_like(relevance, dtype=torch.float64), lists), relevance, lists)
    distinct, which = Facts(of, relevance, lists).distinct()
    means = [mean_over_orders(of, profile) for profile in distinct]
    return torch.tensor(means, dtype=torch.float64, device=which.device).index_select(0, which)


def checked_lists(relevance: ArrayLike, offsets: ArrayLike) -> tuple[Tensor, Lists]:
    """Return checked grades and lists."""
    from rankbound.lists import Lists, as_tensor, require_grades

    grades = as_tensor(relevance, "relevance").detach().contiguous()
    require_grades(grades)
    # Gains of labels would overflow in a byte.
    return (grades.to(torch.int64) if grades.dtype == torch.int8 else grades), Lists.checked(offsets, len(grades))


def _binary_lists(of: Metric, n: Integers, p: Integers, device: Any) -> tuple[Tensor, Lists]:
    """Return one list per pair, relevant items first."""
    from rankbound.bounds.orders import counted_grade
    from rankbound.lists import Lists

    lists = Lists.of_sizes(torch.from_numpy(n).to(device))
    relevant = lists.position < torch.from_numpy(p).to(device)[lists.segment]
    return counted_grade(of) * relevant.to(torch.int64), lists


def differ(low: Any, high: Any) -> Any:
    """Return true where `high` exceeds `low` by more than rounding, of numbers, arrays or tensors; false for NaN."""
    return (high - low > NO_RANGE * abs(low)) & (high - low > NO_RANGE * abs(high))
