r"""Clicks: models to simulate with, propensities from logs, and losses and metrics that correct for position bias.

An item with grade y attracts a user who examines it with probability

$$\gamma = \epsilon + (1 - \epsilon) \frac{2^y - 1}{2^{y_{\max}} - 1}$$

(`noise` is $\epsilon$). A click model says which items are examined. In the position-based model, rank r is examined
with the *propensity* $\theta_r$, and $P(\mathrm{click}) = \theta_r \gamma$: a click multiplied by $1 / \theta_r$ is an
unbiased estimate of $\gamma$. A log determines propensities up to a factor; estimates are relative to the first rank.

Everything is computed over all sessions at once, and a seed gives the same clicks everywhere.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from rankbound.io.ragged import rows_of_lists
from rankbound.kernels.formulas import Floats, Integers, Mask, cases_of
from rankbound.metrics import Metric
from rankbound.metrics import metric as metric_of
from rankbound.texts import require, require_one_of

LEAST = 1e-9
_RIDGE = 1e-6
_MIXING = np.uint64(0x9E3779B97F4A7C15)
_NEWTON_STEPS = 3


@dataclass(frozen=True, eq=False)
class ClickLog:
    """The lists that users saw, and their clicks: a row for each item of each session, in the order of ranks.

    Args:
        lists: `(n_sessions,)`, the list of each session.
        item: `(n_rows,)`, the item's place in the flat lists.
        rank: `(n_rows,)`, from 1.
        clicked: `(n_rows,)`, boolean.
        offsets: `(n_sessions + 1,)`, the sessions' limits.
        limits: `(n_lists + 1,)`, the limits of the lists that items are numbered in.

    >>> log = rb.clicks.simulate(rb.clicks.PositionBased(), [1, 0], [0, 2], sessions=3, seed=0)
    >>> log.rank
    array([1, 2, 1, 2, 1, 2])
    """

    lists: Integers
    item: Integers
    rank: Integers
    clicked: Mask
    offsets: Integers
    limits: Integers

    def counted(self) -> tuple[Integers, Integers, Floats, Floats]:
        """Return items and ranks that occur together, with how often they were shown, and clicked."""
        width = int(self.rank.max(initial=0)) + 1
        keys, row = np.unique(self.item * width + self.rank, return_inverse=True)
        shown, clicked = np.bincount(row), np.bincount(row, self.clicked)
        return keys // width, keys % width, shown.astype(np.float64), clicked.astype(np.float64)


@dataclass(frozen=True)
class ClickModel(ABC):
    """A model of examination; `noise` is the attraction of items of grade 0."""

    noise: float = 0.1

    def attraction(self, relevance: Any, highest: float | None = None) -> Floats:
        """Return the probability that an examined item attracts a click; `highest` is the highest grade there is."""
        grades = np.asarray(relevance, np.float64)
        top = max(float(grades.max(initial=0.0)), 1.0) if highest is None else highest
        return np.asarray(self.noise + (1 - self.noise) * (2**grades - 1) / (2**top - 1))

    @abstractmethod
    def clicks(self, attraction: Floats, rank: Integers, offsets: Integers, draws: Generator) -> Mask:
        """Return which items are clicked, in sessions of these limits."""


@dataclass(frozen=True)
class PositionBased(ClickModel):
    r"""Position-based model: rank r is examined with probability $\theta_r = r^{-\eta}$ (Joachims et al. 2017).

    With trust in the ranking, an unattractive item of a high rank is clicked as well (Agarwal et al. 2019):
    $P(\mathrm{click}) = \theta_r (\gamma + \epsilon_r (1 - \gamma))$, $\epsilon_r$ = `trust` / r.

    Args:
        noise: the attraction of items of grade 0.
        eta: the strength of the bias; 0 is none.
        trust: the probability that an unattractive item is clicked when it is examined at rank 1; 0.65 in the paper.

    >>> rb.clicks.PositionBased(eta=1.0).propensities(3).round(2)
    array([1.  , 0.5 , 0.33])
    """

    eta: float = 1.0
    trust: float = 0.0

    def propensities(self, n: int) -> Floats:
        """Return the probabilities of examination of the first n ranks."""
        return np.asarray(np.arange(1, n + 1, dtype=np.float64) ** -self.eta)

    def clicks(self, attraction: Floats, rank: Integers, offsets: Integers, draws: Generator) -> Mask:
        trusted = attraction + self.trust / rank * (1 - attraction)
        return draws.random(len(rank)) < rank**-self.eta * trusted


@dataclass(frozen=True)
class DynamicBayesian(ClickModel):
    r"""Dynamic Bayesian network: a user reads from the top until an item satisfies, or patience ends.

    A clicked item satisfies with probability `satisfaction` times its attraction without noise; otherwise the user goes
    on with probability `persistence` (Chapelle and Zhang 2009).

    Args:
        noise: the attraction of items of grade 0.
        persistence: the probability of going on after an item that does not satisfy.
        satisfaction: the probability that a click on an item of the highest grade satisfies.

    >>> model = rb.clicks.DynamicBayesian(noise=0.0, persistence=1.0, satisfaction=1.0)
    >>> rb.clicks.simulate(model, [1, 1], [0, 2]).clicked
    array([ True, False])
    """

    persistence: float = 0.9
    satisfaction: float = 0.9

    def clicks(self, attraction: Floats, rank: Integers, offsets: Integers, draws: Generator) -> Mask:
        attracted, satisfied, goes_on = draws.random((3, len(rank)))
        clicked = attracted < attraction
        ends = (clicked & (satisfied < self._satisfying(attraction))) | (goes_on >= self.persistence)
        before = np.append(0, np.cumsum(ends))
        # A session's items up to and with the first that ends it are examined.
        examined = before[:-1] == np.repeat(before[offsets[:-1]], np.diff(offsets))
        return np.asarray(clicked & examined)

    def _satisfying(self, attraction: Floats) -> Floats:
        return self.satisfaction * (attraction - self.noise).clip(0) / (1 - self.noise)


@dataclass(frozen=True)
class Cascade(DynamicBayesian):
    """Cascade model: a user reads from the top and stops at the first click (Craswell et al. 2008).

    Args:
        noise: the attraction of items of grade 0.
        persistence: the probability of going on after an item without a click.
        satisfaction: the probability that a click ends the session, whatever the item.

    >>> rb.clicks.simulate(rb.clicks.Cascade(noise=0.0), [0, 1, 1], [0, 3]).clicked
    array([False,  True, False])
    """

    persistence: float = 1.0
    satisfaction: float = 1.0

    def _satisfying(self, attraction: Floats) -> Floats:
        return np.full_like(attraction, self.satisfaction)


def simulate(
    model: ClickModel,
    relevance: Any,
    offsets: Any,
    *,
    scores: Any = None,
    sessions: int = 1,
    depth: int | None = None,
    highest: float | None = None,
    seed: int = 0,
) -> ClickLog:
    """Simulate sessions: each shows a random list, ranked by one of the rankers, whose items are clicked by the model.

    Args:
        model: the click model.
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits.
        scores: `(n_items,)`, or `(n_rankers, n_items)`: rankers of which each session draws one. Ties are broken at
            random in every session. Without scores, lists are shown as they are.
        sessions: the number of sessions.
        depth: how many items a session shows at most; by default all of the list.
        highest: the highest grade there is; by default that of these lists, at least 1.
        seed: the seed of all draws.

    Returns:
        The log.

    Raises:
        ValueError: for arguments of different lengths, lists that are all empty, or scores that are not finite.
    """
    grades, limits = np.asarray(relevance, np.float64), np.asarray(offsets, np.int64)
    if limits[0] != 0 or limits[-1] != len(grades) or (np.diff(limits) < 0).any():
        found = f"{limits[0]} .. {limits[-1]}"
        raise ValueError(f"offsets: found {found}, expected ascending limits of {len(grades)} items")
    draws, filled = np.random.default_rng(seed), np.flatnonzero(np.diff(limits))
    require("offsets", "no list with items", len(filled) > 0, "one or more to show")
    lists = filled[draws.integers(len(filled), size=sessions)]
    sizes = np.diff(limits)[lists]
    session, place = cases_of(sizes)
    item = limits[lists[session]] + place
    if scores is not None:
        table = np.atleast_2d(np.asarray(scores, np.float64))
        if table.ndim != 2 or table.shape[1] != len(grades) or not np.isfinite(table).all():
            raise ValueError(f"scores: found shape {table.shape}, expected finite (n_rankers, {len(grades)})")
        ranker = draws.integers(len(table), size=sessions)
        item = item[np.lexsort((draws.random(len(item)), -table[ranker[session], item], session))]
    shown = place < (deepest := len(grades) if depth is None else depth)
    item, rank, ends = item[shown], place[shown] + 1, np.append(0, np.cumsum(sizes.clip(max=deepest)))
    clicked = model.clicks(model.attraction(grades, highest)[item], rank, ends, draws)
    return ClickLog(lists, item, rank, clicked, ends, limits)


def regression_em(log: ClickLog, features: Any = None, *, rounds: int = 1000, tolerance: float = 1e-6) -> Floats:
    """Estimate propensities of the position-based model by expectation maximisation (Wang et al. 2018).

    Args:
        log: the log.
        features: `(n_items, d)`, of which the attraction is a logistic regression. Without features, each item has an
            attraction of its own, which needs items that were shown at several ranks.
        rounds: the largest number of rounds.
        tolerance: the change of all parameters at which they end.

    Returns:
        The propensities `(n_ranks,)`, relative to that of rank 1.

    Raises:
        ValueError: without features, for ranks that no item connects, with these.
    """
    design = None if features is None else np.column_stack([np.ones(len(features)), np.asarray(features, np.float64)])
    return _maximised(log.counted(), design, rounds, tolerance)


def intervention_harvesting(log: ClickLog, *, rounds: int = 10_000, tolerance: float = 1e-8) -> Floats:
    """Estimate propensities from items that several rankers showed at different ranks (Agarwal et al. 2019, all pairs).

    For each pair of ranks, the items that were shown at both have the same attraction on the average. Each of them
    counts once at either rank, by its share of clicks there.

    Args:
        log: the log, of several rankers.
        rounds, tolerance: as in `regression_em`.

    Returns:
        The propensities `(n_ranks,)`, relative to that of rank 1.

    Raises:
        ValueError: for ranks that no item connects, with these.
    """
    item, rank, shown, clicked = log.counted()
    rate = clicked / shown
    # Rows are sorted by item: those of its other ranks follow within a few places.
    lags = range(1, int(np.bincount(item).max()))
    firsts = [np.flatnonzero(item[:-lag] == item[lag:]) for lag in lags]
    one = np.concatenate([np.empty(0, np.int64), *firsts])
    other = one + np.repeat(np.asarray(lags, np.int64), list(map(len, firsts)))
    pair = rank[one] * (int(rank.max()) + 1) + rank[other]
    # Ranks of no pair stand alone, and are refused below.
    alone = np.setdiff1d(rank, rank[np.append(one, other)])
    ids, ranks = np.concatenate([pair, pair, -alone]), np.concatenate([rank[one], rank[other], alone])
    rates = np.concatenate([rate[one], rate[other], 0.0 * alone])
    return _maximised((ids, ranks, np.ones(len(ids)), rates), None, rounds, tolerance)


def dual_learning(
    log: ClickLog, features: Any, *, epochs: int = 150, learning_rate: float = 0.05, seed: int = 0
) -> tuple[Floats, Floats]:
    """Learn a linear ranker and the propensities together by the dual learning algorithm (Ai et al. 2018).

    Two softmax losses over the clicks of a session: the ranker's has inverse propensities as weights, relative to rank
    1, and that of the propensities has inverse relevance, relative to the item at rank 1.

    The propensities are those of the model if the logarithm of the attraction is linear in the features; otherwise,
    what the ranker cannot tell is taken for position bias.

    Args:
        log: the log.
        features: `(n_items, d)`.
        epochs: steps of Adam, each over the whole log.
        learning_rate: its rate.
        seed: the seed of the ranker's first coefficients.

    Returns:
        The propensities `(n_ranks,)`, relative to that of rank 1, and the ranker's coefficients `(d,)`.

    Raises:
        ValueError: for features of another number of items than the lists have.
    """
    import torch

    from rankbound.lists import Lists
    from rankbound.losses.softmax import log_sum_exp

    columns = torch.as_tensor(np.asarray(features, np.float64))
    require("features", f"{len(columns)} rows", len(columns) == log.limits[-1], f"{log.limits[-1]}, one per item")
    # The distinct rankings that were shown, with their clicks: two have the same key by a chance of 1 in 2^64.
    mixed = (log.item.astype(np.uint64) * _MIXING + log.rank.astype(np.uint64)) * _MIXING
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIXING
    _, distinct, which = np.unique(np.add.reduceat(mixed, log.offsets[:-1]), return_index=True, return_inverse=True)
    rows, offsets = rows_of_lists(log.offsets, distinct)
    row = offsets[which].repeat(np.diff(log.offsets)) + log.rank - 1
    clicks = np.bincount(row, log.clicked, len(rows)).astype(np.float64)
    draws, lists = torch.Generator().manual_seed(seed), Lists(torch.from_numpy(offsets))
    coefficients = (torch.randn(columns.shape[1], generator=draws, dtype=torch.float64) * 0.01).requires_grad_()
    logits = torch.zeros(int(log.rank.max()), dtype=torch.float64, requires_grad=True)
    shown, ranks = columns[torch.from_numpy(log.item[rows])], torch.from_numpy(log.rank[rows] - 1)
    first, counts = torch.from_numpy(offsets[:-1]), torch.from_numpy(clicks)
    optimiser = torch.optim.Adam([coefficients, logits], lr=learning_rate)
    for _ in range(epochs):
        optimiser.zero_grad()
        parts = shown @ coefficients, logits[ranks]
        inverse = [torch.exp(lists.spread(part[first]) - part).detach() for part in parts]
        total = torch.zeros((), dtype=torch.float64)
        for part, weight in zip(parts, reversed(inverse), strict=True):
            total = total - (counts * weight * (part - lists.spread(log_sum_exp(part, lists)))).sum()
        (total / max(clicks.sum(), 1.0)).backward()
        optimiser.step()
    return torch.exp(logits - logits[0]).detach().numpy(), coefficients.detach().numpy()


def estimated_relevance(
    log: ClickLog, propensities: Any, *, floor: float = 0.0, prior: Any = None, estimator: str = "ips"
) -> Floats:
    r"""Estimate the attraction of items from clicks: labels of losses and metrics without position bias.

    With N sessions of an item's list, its clicks $c_t$ and propensities $\theta_t$ where it was shown, clipped from
    below at the floor, $\rho_t = \max(\theta_t, \tau)$, and a `prior` estimate $\hat\gamma$ of another model:

    $$\mathrm{ips} = \frac{1}{N} \sum_t \frac{c_t}{\rho_t}
      \qquad \mathrm{dr} = \hat\gamma + \frac{1}{N} \sum_t \frac{c_t - \theta_t \hat\gamma}{\rho_t}$$

    The first is unbiased if all sessions show the item and no propensity is clipped (Joachims et al. 2017); the second,
    doubly robust one also if the prior is right (Oosterhuis 2023).

    A loss takes ips as `loss(scores, estimate > 0, offsets, weights=estimate)`, without bias for losses that are sums
    of items' terms and have no normaliser, as `DCG(gain=linear)`.

    Args:
        log: the log.
        propensities: `(n_ranks,)`, that of each rank.
        floor: the smallest propensity by which a click is divided, which limits the variance at the price of bias.
        prior: `(n_items,)`, for dr.
        estimator: `ips` or `dr`.

    Returns:
        The estimates `(n_items,)`; NaN for items of lists without a session, and 0 for ips in lists without clicks.

    Raises:
        ValueError: for fewer propensities than ranks, ones that aren't above 0, or dr without a prior.
    """
    require_one_of("estimator", estimator, ("ips", "dr"))
    theta = np.asarray(propensities, np.float64)
    needed = int(log.rank.max(initial=0))
    if len(theta) < needed or not (np.isfinite(theta) & (theta > 0)).all():
        raise ValueError(f"propensities: found {len(theta)}, expected {needed} numbers above 0, one per rank")
    examined = theta[log.rank - 1]
    divisor, n_items = examined.clip(floor), int(log.limits[-1])
    sessions = np.bincount(log.lists, minlength=len(log.limits) - 1).astype(np.float64)
    of_item = np.repeat(np.where(sessions > 0, sessions, np.nan), np.diff(log.limits))
    if estimator == "ips":
        return np.asarray(np.bincount(log.item, log.clicked / divisor, n_items) / of_item)
    if prior is None:
        raise ValueError("prior: found none, expected estimates of the items' attraction, which dr corrects")
    known = np.asarray(prior, np.float64)
    errors = (log.clicked - examined * known[log.item]) / divisor
    return np.asarray(known + np.bincount(log.item, errors, n_items) / of_item)


def counterfactual(
    metric: str | Metric,
    scores: Any,
    log: ClickLog,
    propensities: Any,
    *,
    estimator: str = "ips",
    floor: float = 0.0,
    prior: Any = None,
) -> Floats:
    """Estimate a metric of a ranker that did not show the lists, from the clicks on those of another one.

    Args:
        metric: DCG or CG, or its text; with labels that are attractions, exponential and linear gains are the same.
        scores: `(n_items,)`, of the ranker to evaluate.
        log, propensities, floor, prior: as in `estimated_relevance`.
        estimator: `ips` and `dr` estimate the metric of the items' attractions; `snips` divides ips by the sum of the
            items' estimates, a mean over relevant items that does not depend on a factor of all propensities
            (Swaminathan and Joachims 2015; Yang et al. 2018).

    Returns:
        The estimates `(n_lists,)`; NaN for lists without a session, and for snips without a click.

    Raises:
        ValueError: as `estimated_relevance`, or for a metric that is no sum of gains.
    """
    require_one_of("estimator", estimator, ("ips", "snips", "dr"))
    chosen = metric_of(metric)
    require("metric", chosen, chosen.name in ("DCG", "CG"), "a sum of gains without a normaliser: DCG or CG")
    how = "dr" if estimator == "dr" else "ips"
    labels = estimated_relevance(log, propensities, floor=floor, prior=prior, estimator=how)
    ones, seen = np.ones(len(labels)), ~np.isnan(labels)
    parts = [np.where(seen, sign * labels, 0.0).clip(0) for sign in (1, -1)]
    up, down = (np.asarray(chosen(np.asarray(scores), ones, log.limits, weights=part)) for part in parts)
    sums = np.add.reduceat(np.append(labels, 0.0), log.limits[:-1].clip(max=len(labels)))
    filled = (np.bincount(log.lists, minlength=len(sums)) > 0) & (np.diff(log.limits) > 0)
    divisor = np.where(sums > 0, sums, np.nan) if estimator == "snips" else 1.0
    return np.asarray(np.where(filled, up - down, np.nan) / divisor)


def _maximised(
    counts: tuple[Integers, Integers, Floats, Floats], design: Floats | None, rounds: int, tolerance: float
) -> Floats:
    """Return the propensities of greatest likelihood, given counts of items at ranks; relative to that of rank 1."""
    item, rank, shown, clicked = counts
    n_ranks = int(rank.max())
    if design is None:
        _, item = np.unique(item, return_inverse=True)
        _require_connected(item, rank)
    theta = 1 / np.arange(1, n_ranks + 1)
    gamma = np.full(int(item.max()) + 1 if design is None else len(design), 0.5)
    coefficients, left = np.zeros(0 if design is None else design.shape[1]), shown - clicked
    ridge, of_rank = _RIDGE * np.eye(len(coefficients)), np.bincount(rank - 1, shown, n_ranks)
    of_item = np.bincount(item, shown, len(gamma))
    for _ in range(rounds):
        examined, attracted = theta[rank - 1], gamma[item]
        unclicked = left / (1 - examined * attracted).clip(LEAST)
        new = np.bincount(rank - 1, clicked + unclicked * examined * (1 - attracted), n_ranks)
        new = (new / of_rank.clip(LEAST)).clip(LEAST, 1 - LEAST)
        positive = np.bincount(item, clicked + unclicked * attracted * (1 - examined), len(gamma))
        if design is None:
            relevant = (positive / of_item.clip(LEAST)).clip(LEAST, 1 - LEAST)
        else:
            # A few steps of Newton's method of a logistic regression.
            odds = 1 / (1 + np.exp(-(design @ coefficients).clip(-30, 30)))
            for _ in range(_NEWTON_STEPS):
                curvature = (design * (of_item * odds * (1 - odds))[:, None]).T @ design + ridge
                slope = design.T @ (positive - of_item * odds) - _RIDGE * coefficients
                coefficients = coefficients + np.linalg.solve(curvature, slope)
                odds = 1 / (1 + np.exp(-(design @ coefficients).clip(-30, 30)))
            relevant = odds
        change = max(np.abs(new / new[0] - theta / theta[0]).max(), np.abs(relevant - gamma).max())
        theta, gamma = new, relevant
        if change < tolerance:
            break
    return np.asarray(theta / theta[0])


def _require_connected(item: Integers, rank: Integers) -> None:
    """Raise ValueError unless every rank is connected with the first by items that were shown at several ranks."""
    label, before = np.arange(int(rank.max()) + 1), np.empty(0, np.int64)
    while not np.array_equal(label, before):
        before, of_item = label.copy(), np.full(int(item.max()) + 1, len(label))
        np.minimum.at(of_item, item, label[rank])
        np.minimum.at(label, rank, of_item[item])
    parts = [np.unique(rank[label[rank] == one]).tolist() for one in np.unique(label[rank])]
    if len(parts) > 1:
        shown = "; ".join(", ".join(map(str, part[:5])) + (", ..." if len(part) > 5 else "") for part in parts[:5])
        raise ValueError(
            f"log: no item was shown in two of these {len(parts)} groups of ranks: {shown}; expected items that "
            "connect all ranks, as several rankers or swaps show them, or features (regression_em, dual_learning)"
        )
