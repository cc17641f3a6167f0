r"""Strengths of items from comparisons and rankings: Bradley-Terry, Thurstone and Plackett-Luce, with standard errors.

Each item i has a strength $\theta_i$; only differences count, so their mean is 0. The estimate maximises the
log-likelihood, less $\lambda \sum_i \theta_i^2$ for a `ridge` $\lambda$. Its covariance is the inverse of the observed
information, with the ridge's part, in the space of mean 0.

The maximum is finite if and only if the items can't be split into two groups of which one never lost to the other (Ford
1957; Hunter 2004). Otherwise the groups are named, and no number is returned, unless a ridge shrinks the strengths.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankbound.io.files import needs_extra
from rankbound.kernels.formulas import Floats, Integers, cases_of
from rankbound.texts import quantity, quoted, require

if TYPE_CHECKING:
    import polars as pl

Objective = Callable[[Floats], tuple[float, Floats, Floats]]
"""The log-likelihood of parameters, its gradient, and the observed information."""

_MOST_STEPS = 200
_TOLERANCE = 1e-10
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Strengths:
    """Estimated strengths of items.

    Args:
        items: the items' names, in the order of their first appearance.
        values: `(n_items,)`, the strengths, whose mean is 0.
        covariance: `(n_items, n_items)`, of the estimates.
        log_likelihood: at the estimates, without the ridge.
        model: the name of the model.
        tie: of Davidson's model, the logarithm of its parameter of ties.

    >>> found = rb.preferences.bradley_terry([("a", "b"), ("a", "b"), ("b", "a")])
    >>> round(found.probability("a", "b"), 6)
    0.666667
    """

    items: Sequence[Any]
    values: Floats
    covariance: Floats
    log_likelihood: float
    model: str
    tie: float | None = None

    @property
    def standard_errors(self) -> Floats:
        """The standard errors of the strengths `(n_items,)`."""
        return np.asarray(np.sqrt(np.diag(self.covariance).clip(0)))

    def difference(self, a: Any, b: Any) -> tuple[float, float]:
        """Return the difference of two strengths, and its standard error, which theirs do not tell."""
        i, j = self._place(a), self._place(b)
        variance = self.covariance[i, i] + self.covariance[j, j] - 2 * self.covariance[i, j]
        return float(self.values[i] - self.values[j]), float(np.sqrt(max(variance, 0.0)))

    def probability(self, a: Any, b: Any) -> float:
        """Return the probability that a beats b, given that they don't tie."""
        gap, _ = self.difference(a, b)
        if self.model == "Thurstone":
            from scipy.special import ndtr

            return float(ndtr(gap))
        return float(1 / (1 + np.exp(-gap)))

    def to_polars(self) -> "pl.DataFrame":
        """Return the columns item, strength and standard_error, the strongest first."""
        import polars as pl

        columns = {"item": list(self.items), "strength": self.values, "standard_error": self.standard_errors}
        return pl.DataFrame(columns).sort("strength", descending=True, maintain_order=True)

    def __str__(self) -> str:
        """Return a table, the strongest item first."""
        from rankbound.evaluation import aligned

        rows = [(item, f"{value:.4f}", f"{error:.4f}") for item, value, error in self.to_polars().rows()]
        return aligned([("item", "strength", "standard error"), *rows])

    def _place(self, item: Any) -> int:
        require("item", quoted(item), item in self.items, f"one of the {len(self.items)} that were compared")
        return list(self.items).index(item)


def bradley_terry(wins: Any, ties: Any = (), *, ridge: float = 0.0) -> Strengths:
    r"""Estimate strengths by the model of Bradley and Terry (1952), with ties by that of Davidson (1970).

    $$P(i \succ j) = \frac{\pi_i}{\pi_i + \pi_j + \nu \sqrt{\pi_i \pi_j}}
      \qquad P(i \sim j) = \frac{\nu \sqrt{\pi_i \pi_j}}{\pi_i + \pi_j + \nu \sqrt{\pi_i \pi_j}}$$

    with $\pi_i = e^{\theta_i}$, and $\nu = 0$ without ties.

    Args:
        wins: pairs of winner and loser: tuples, an array of two columns, or a data frame of two columns.
        ties: pairs that tied.
        ridge: the weight of the squared strengths, from 0.

    Returns:
        The strengths, on the logistic scale.

    Raises:
        ValueError: no pair, a pair of an item with itself, ties alone, or groups of items of which one never lost to
            the other (by name), without a ridge.

    >>> rb.preferences.bradley_terry([("a", "b"), ("b", "c"), ("c", "a")]).values + 0.0
    array([0., 0., 0.])
    """
    items, pairs, tied = _numbered(wins=wins, ties=ties)
    if len(tied) and not len(pairs):
        raise ValueError("wins: found none beside ties, expected some: from ties alone, no difference can be estimated")
    n, (i, j), (a, b) = len(items), pairs.T, tied.T
    first, second = np.append(i, a), np.append(j, b)
    is_tie = np.append(np.zeros(len(i)), np.ones(len(a)))

    def objective(parameters: Floats) -> tuple[float, Floats, Floats]:
        half, tie = (parameters[first] - parameters[second]) / 2, parameters[n] if len(tied) else -np.inf
        logits = np.stack([half, -half, np.full_like(half, tie)])
        normaliser = np.logaddexp.reduce(logits)
        win, loss, draw = np.exp(logits - normaliser)
        gap = (win - loss) / 2
        value = np.where(is_tie > 0, tie, half) - normaliser
        gradient, information = _of_gaps(first, second, n, (1 - is_tie) / 2 - gap, (win + loss) / 4 - gap**2)
        cross = np.bincount(first, gap * draw, n) - np.bincount(second, gap * draw, n)
        last = np.append(-cross, (draw * (1 - draw)).sum())
        information = np.block([[information, last[:-1, None]], [last[None, :]]])
        gradient = np.append(gradient, (is_tie - draw).sum())
        return float(value.sum()), gradient[: len(parameters)], information[: len(parameters), : len(parameters)]

    edges = np.concatenate([pairs, tied, tied[:, ::-1]])
    return _estimated(items, edges, objective, "Bradley-Terry", ridge, with_tie=bool(len(tied)))


def thurstone(wins: Any, *, ridge: float = 0.0) -> Strengths:
    r"""Estimate strengths by the model of Thurstone (1927, case V): $P(i \succ j) = \Phi(\theta_i - \theta_j)$.

    The unit is the standard deviation of the difference of two items' normal variables.

    Args:
        wins, ridge: as in `bradley_terry`; ties are not part of the model.

    Returns:
        The strengths, on the probit scale.

    Raises:
        ValueError: as `bradley_terry`.

    >>> found = rb.preferences.thurstone([("a", "b"), ("a", "b"), ("b", "a")])
    >>> round(found.probability("a", "b"), 6)
    0.666667
    """
    with needs_extra("statistics"):
        from scipy.special import log_ndtr
    items, pairs = _numbered(wins=wins)
    i, j = pairs.T

    def objective(parameters: Floats) -> tuple[float, Floats, Floats]:
        gap = parameters[i] - parameters[j]
        log_probability = log_ndtr(gap)
        slope = np.exp(-(gap**2) / 2 - np.log(2 * np.pi) / 2 - log_probability)
        return float(log_probability.sum()), *_of_gaps(i, j, len(items), slope, slope * (slope + gap))

    return _estimated(items, pairs, objective, "Thurstone", ridge)


def plackett_luce(rankings: Iterable[Iterable[Any]], *, ridge: float = 0.0) -> Strengths:
    r"""Estimate strengths from rankings by the model of Plackett (1975) and Luce (1959).

    $$P(i_1 \succ \dots \succ i_m) = \prod_{k=1}^{m-1} \frac{e^{\theta_{i_k}}}{\sum_{l \ge k} e^{\theta_{i_l}}}$$

    Args:
        rankings: rankings of two or more items each, the best first. Items that a ranking leaves out say nothing. If
            the last element is a set, its items are below all others, in an unknown order: `["a", {"b", "c"}]` is a
            choice of a.
        ridge: as in `bradley_terry`.

    Returns:
        The strengths, on the scale of Bradley and Terry's model, which is that of rankings of two items.

    Raises:
        ValueError: no ranking, one of fewer than two items, an item that occurs twice in it, a set that is not the
            last, or groups of items as in `bradley_terry`.

    >>> found = rb.preferences.plackett_luce([["a", "b", "c"], ["c", "a", "b"], ["b", {"a", "c"}]])
    >>> [item for item, *_ in found.to_polars().rows()]
    ['a', 'b', 'c']
    """
    with needs_extra("statistics"):
        from scipy.sparse import csr_array
    place: dict[Hashable, int] = {}
    shapes: dict[tuple[int, int], list[list[int]]] = {}
    for number, ranking in enumerate(rankings, 1):
        *ranked, last = list(ranking) or [()]
        below = sorted(last, key=str) if isinstance(last, set | frozenset) else [last]
        names, n_ranked = [*ranked, *below], len(ranked) + (not isinstance(last, set | frozenset))
        if any(isinstance(one, set | frozenset) for one in ranked):
            raise ValueError(
                f"rankings: found a set inside ranking {number}, expected one at most, as the last element"
            )
        if len(names) < 2 or not n_ranked or len(set(names)) < len(names):
            raise ValueError(f"rankings: found {quoted(names)} as number {number}, expected two or more distinct items")
        indices = [place.setdefault(name, len(place)) for name in names]
        shapes.setdefault((len(names), min(n_ranked, len(names) - 1)), []).append(indices)
    require("rankings", "none", bool(shapes), "one or more")
    # A stage of a ranking chooses its winner among the items from its place on.
    items, flat = list(place), np.concatenate([np.ravel(several) for several in shapes.values()])
    lengths, stages = np.repeat([*shapes], [*map(len, shapes.values())], axis=0).T
    ranking, stage = cases_of(stages)
    sizes, first = lengths[ranking] - stage, (np.cumsum(lengths) - lengths)[ranking] + stage
    of_stage, beyond = cases_of(sizes)
    winner, member, limits = flat[first], flat[first[of_stage] + beyond], np.append(0, np.cumsum(sizes))
    won = np.bincount(winner, minlength=len(items))

    def objective(parameters: Floats) -> tuple[float, Floats, Floats]:
        values = parameters[member]
        highest = np.maximum.reduceat(values, limits[:-1])
        shares = np.exp(values - highest[of_stage])
        sums = np.add.reduceat(shares, limits[:-1])
        shares /= sums[of_stage]
        matrix = csr_array((shares, member, limits), shape=(len(winner), len(items)))
        expected = np.bincount(member, shares, len(items))
        information = np.diag(expected) - (matrix.T @ matrix).toarray()
        value = (parameters[winner] - highest - np.log(sums)).sum()
        return float(value), np.asarray(won - expected, np.float64), information

    edges = np.stack([winner[of_stage], member], axis=1)
    return _estimated(items, edges, objective, "Plackett-Luce", ridge)


def _numbered(**sources: Any) -> tuple[Any, ...]:
    """Return the items of all pairs, and the pairs of each source as their numbers; ValueError for what is no pair."""
    place, numbered = dict[Any, int](), []
    for name, source in sources.items():
        rows = source.rows() if hasattr(source, "rows") else source
        rows = rows.itertuples(index=False) if hasattr(rows, "itertuples") else rows
        pairs = [tuple(row.tolist()) if isinstance(row, np.ndarray) else tuple(row) for row in rows]
        for number, pair in enumerate(pairs, 1):
            if len(pair) != 2 or pair[0] == pair[1]:
                raise ValueError(f"{name}: found {quoted(pair)} as number {number}, expected a pair of different items")
        indices = [[place.setdefault(one, len(place)) for one in pair] for pair in pairs]
        numbered.append(np.array(indices, np.int64).reshape(-1, 2))
    require("wins", "none", bool(place), "one or more pairs of winner and loser")
    return list(place), *numbered


def _of_gaps(i: Integers, j: Integers, n: int, slope: Floats, bend: Floats) -> tuple[Floats, Floats]:
    """Return the gradient and the information of parameters, given those of each difference of two of them."""
    gradient = np.asarray(np.bincount(i, slope, n) - np.bincount(j, slope, n), np.float64)
    crossed = np.bincount(i * n + j, bend, n * n).reshape(n, n)
    crossed = crossed + crossed.T
    return gradient, np.diag(crossed.sum(axis=1)) - crossed


def _estimated(
    items: list[Any], edges: Integers, objective: Objective, model: str, ridge: float, with_tie: bool = False
) -> Strengths:
    """Maximise a concave objective by Newton's method; ValueError for a maximum that is not finite."""
    require("ridge", ridge, 0 <= ridge < np.inf, "a number from 0")
    n = len(items)
    if ridge == 0:
        _require_strongly_connected(items, edges)
    shrunk = np.append(np.ones(n), np.zeros(int(with_tie)))

    def penalised(parameters: Floats) -> tuple[float, Floats, Floats]:
        value, gradient, information = objective(parameters)
        value -= ridge * float((shrunk * parameters**2).sum())
        return value, gradient - 2 * ridge * shrunk * parameters, information + 2 * ridge * np.diag(shrunk)

    parameters = np.zeros(len(shrunk))
    value, gradient, information = penalised(parameters)
    # A constant for all strengths changes nothing; this keeps their mean at 0.
    constant = np.outer(shrunk, shrunk) / n
    for _ in range(_MOST_STEPS):
        step, size = np.linalg.solve(information + constant, gradient), 1.0
        while (new := penalised(parameters + size * step))[0] < value - _TOLERANCE and size > _TOLERANCE:
            size /= 2
        parameters, (value, gradient, information) = parameters + size * step, new
        if np.abs(step).max() < _TOLERANCE * max(1.0, np.abs(parameters).max()):
            break
    else:
        raise ValueError(f"{model}: no maximum found in {_MOST_STEPS} steps; expected one: add comparisons, or a ridge")
    covariance = np.linalg.inv(information + constant) - constant / (1 + 2 * ridge)
    values = parameters[:n] - parameters[:n].mean()
    tie = float(parameters[n]) if with_tie else None
    return Strengths(items, values, covariance[:n, :n], objective(parameters)[0], model, tie)


def _require_strongly_connected(items: list[Any], edges: Integers) -> None:
    """Raise ValueError with the groups of items that don't beat each other, the best first, if there are several."""
    with needs_extra("statistics"):
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components
    graph = coo_array((np.ones(len(edges)), edges.T), shape=(len(items), len(items))).tocsr()
    number, group = connected_components(graph, directed=True, connection="strong")
    if number == 1:
        return
    level, (above, below) = np.zeros(number, np.int64), group[edges.T]
    across = above != below
    for _ in range(number):
        np.maximum.at(level, below[across], level[above[across]] + 1)
    order = np.argsort(level, kind="stable")
    names = [[str(items[at]) for at in np.flatnonzero(group == one)] for one in order]
    shown = [", ".join(part[:_SHOWN]) + (", ..." if len(part) > _SHOWN else "") for part in names[:_SHOWN]]
    raise ValueError(
        f"comparisons: found {quantity(number, 'group')} of items, of which none ever lost to a later one, so that no "
        f"finite strengths are best: {' | '.join(shown)}{' | ...' if number > _SHOWN else ''}; expected wins both ways "
        "between them: add comparisons, estimate each group alone, or shrink the strengths by a ridge"
    )
