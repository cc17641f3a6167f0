"""The list weights that bounds amount to in training, and the lists' influence that these change.

The affine bounds map a metric's value $M_t$ of list $t$ to $(M_t - o_t) / u_t$. The origin $o_t$ has no gradient, so
they train like the unbounded loss with the list weights $1 / u_t$ and do nothing else. The *influence* of a list with
the weight $w_t$ is the range of its loss over all orders, $w_t (M_{max,t} - M_{min,t})$.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.bounds._score_distribution import Gain
from rankbound.bounds.kinds import Bound, Facts, bound
from rankbound.bounds.kinds.affine import Affine, Unbounded
from rankbound.bounds.profiles import Profiles
from rankbound.lists import ArrayLike, Lists, as_tensor, require_grades
from rankbound.metrics import Metric, metric

Floats = npt.NDArray[np.float64]


def list_ranges(of: str | Metric, relevance: ArrayLike, offsets: ArrayLike) -> Floats:
    """Return the largest minus the smallest value of each list over all its orders, `(n_lists,)`.

    Args:
        of: the metric or its text; `nRBP` is the loss of eq. 2.12, whose range is P(N - P).
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits.

    Returns:
        Float64; 0 where the metric is undefined or no order differs from another one in it.

    Raises:
        ValueError: for a text that names no metric, or invalid offsets.

    >>> list_ranges("nRBP", [0, 1, 0, 1], [0, 3, 4])
    array([2., 0.])
    """
    facts = _facts(of, relevance, offsets)
    ranges: Floats = torch.nan_to_num(facts.maximum - facts.minimum).to(torch.float64).numpy()
    return ranges


def bound_weights(of: str | Metric, by: str | Bound, relevance: ArrayLike, offsets: ArrayLike) -> Floats:
    r"""Return the list weights $1 / u_t$ of an affine bound, `(n_lists,)`.

    Args:
        of: the metric or its text.
        by: `none`, whose weights are ones, `min-max`, `expectation` or `expectation-max`.
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits.

    Returns:
        Float64; 0 for lists whose orders do not differ in the metric, which a bound leaves out.

    Raises:
        ValueError: for a text that names no metric or bound, a bound that is not affine, or invalid offsets.

    >>> bound_weights("nRBP", "expectation", [0, 1, 0, 1], [0, 3, 4])
    array([1., 0.])
    """
    kind, facts = bound(by), _facts(of, relevance, offsets)
    informative = (facts.informative & facts.orders_differ).numpy()
    if isinstance(kind, Unbounded):
        return informative.astype(np.float64)
    if not isinstance(kind, Affine):
        raise ValueError(f"bound {kind}: found no list weights; expected an affine bound, such as min-max")
    origin, size = kind.origin_and_unit(facts)
    unit = size.abs().to(torch.float64).numpy()
    usable = informative & kind.is_usable(origin, size).numpy()
    weights: Floats = np.divide(1.0, unit, out=np.zeros_like(unit), where=usable)
    return weights


def _facts(of: str | Metric, relevance: ArrayLike, offsets: ArrayLike) -> Facts:
    grades = as_tensor(relevance, "relevance").detach().contiguous()
    require_grades(grades)
    if grades.dtype == torch.int8:
        # Gains of labels would overflow.
        grades = grades.to(torch.int64)
    return Facts.of_lists(metric(of), grades, Lists.checked(offsets, len(grades)), _no_distribution)


def _no_distribution(values: Tensor, profiles: Profiles, gain: Gain) -> Tensor:
    raise AssertionError("affine bounds use no score distribution")
