"""The standard error of a mean over pairs that share members, and are therefore not independent."""

import math

import numpy as np

from rankbound.compare.scores import Floats, Integers


def standard_error(values: Floats, members: Integers) -> float:
    r"""Return the dyadic cluster-robust standard error of the mean of one value per pair.

    With $r_p$ the residual of pair $p$ of $n$, $i$ a member, and $d$ two members that may form several pairs,

    $$\operatorname{Var} m \approx \frac1{n^2} \sum_{p, q \text{ share a member}} r_p r_q
    = \frac1{n^2} \Big(\sum_i \big(\sum_{p \ni i} r_p\big)^2 - \sum_d \big(\sum_{p = d} r_p\big)^2\Big),$$

    or the variance of independent pairs, $\sum_p r_p^2 / n^2$, if that is larger (with few members the estimate may be
    negative). Bootstrapping the members is no alternative: it triples the variance of pairs that share no member.

    Source: Fafchamps and Gubert 2007, "The formation of risk sharing networks"; Aronow, Samii and Assenova 2015,
    "Cluster-robust variance estimation for dyadic data".

    Args:
        values: `(n_pairs,)`, at least one.
        members: `(n_pairs, 2)`, numbers that identify the members.

    Raises:
        ValueError: `members` has another shape than `(n_pairs, 2)`, or there is no pair.

    Examples:
        >>> right = np.array([1.0, 0.0, 1.0, 0.0])
        >>> standard_error(right, np.array([[1, 2], [3, 4], [5, 6], [7, 8]]))
        0.25
        >>> round(standard_error(right, np.array([[1, 2], [3, 4], [1, 6], [7, 8]])), 4)
        0.3062
    """
    if not len(values) or members.shape != (len(values), 2):
        raise ValueError(f"members: found shape {members.shape}, expected {(len(values), 2)}: the two of each pair")
    residuals = values - math.fsum(values.tolist()) / len(values)
    _, numbered = np.unique(members, return_inverse=True)
    first, second = np.sort(numbered.reshape(-1, 2), axis=1).T
    # A pair of an item with itself has one member.
    of_two = np.where(first == second, 0.0, residuals)
    per_member = np.bincount(first, residuals, numbered.max() + 1) + np.bincount(second, of_two, numbered.max() + 1)
    _, both = np.unique(first * len(per_member) + second, return_inverse=True)
    per_two = np.bincount(both, of_two)
    shared = float((per_member**2).sum() - (per_two**2).sum())
    return math.sqrt(max(shared, float((residuals**2).sum()))) / len(values)
