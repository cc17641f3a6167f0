"""Click models, propensities and counterfactual estimates: each recovers what was planted."""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import rankbound as rb
from rankbound import clicks
from rankbound.clicks import Cascade, ClickLog, ClickModel, DynamicBayesian, PositionBased
from tests.library.refusals import refusals

MODELS: dict[str, ClickModel] = {
    "position": PositionBased(noise=0.2, eta=0.7),
    "trust": PositionBased(noise=0.2, eta=0.7, trust=0.5),
    "cascade": Cascade(noise=0.2),
    "bayesian": DynamicBayesian(noise=0.2, persistence=0.8, satisfaction=0.7),
}
GRADES, LIMITS = np.array([0, 2, 1, 2, 0, 1, 0]), np.array([0, 4, 4, 7])


def probabilities(model: ClickModel, grades: Any) -> list[float]:
    """The probabilities of a click on each item of one list, by walking down it."""
    attraction = [0.2 + 0.8 * (2.0**grade - 1) / 3 for grade in grades]
    if isinstance(model, PositionBased):
        trust = model.trust if isinstance(model, PositionBased) else 0.0
        rows = enumerate(attraction, 1)
        return [rank**-model.eta * (one + trust / rank * (1 - one)) for rank, one in rows]
    assert isinstance(model, DynamicBayesian)
    found, arrives = [], 1.0
    for one in attraction:
        satisfies = 1.0 if isinstance(model, Cascade) else 0.7 * (one - 0.2) / 0.8
        found.append(arrives * one)
        arrives *= max(1 - one * satisfies, 0.0) * model.persistence
    return found


@pytest.mark.parametrize("name", MODELS)
def test_items_are_clicked_as_often_as_the_model_says(name: str) -> None:
    log = clicks.simulate(MODELS[name], GRADES, LIMITS, sessions=40_000, seed=1)
    _, _, shown, clicked = log.counted()
    expected = np.concatenate([probabilities(MODELS[name], part) for part in (GRADES[:4], GRADES[4:])])
    errors = np.sqrt(expected * (1 - expected) / shown)
    assert (np.abs(clicked / shown - expected) < 4 * errors + 1e-12).all()
    assert len(np.unique(log.lists)) == 2


@pytest.mark.parametrize("name", MODELS)
def test_a_seed_gives_the_same_clicks_and_another_others(name: str) -> None:
    first, again, other = (clicks.simulate(MODELS[name], GRADES, LIMITS, sessions=50, seed=seed) for seed in (1, 1, 2))
    assert (first.clicked == again.clicked).all()
    assert first.clicked.tolist() != other.clicked.tolist()


def test_sessions_show_the_rankers_orders_down_to_a_depth() -> None:
    scores = np.array([[1, 4, 2, 3, 1, 1, 1], [4, 1, 3, 2, 3, 2, 1]])
    log = clicks.simulate(PositionBased(), GRADES, LIMITS, scores=scores, sessions=300, depth=2)
    assert np.diff(log.offsets).tolist() == [2] * 300
    assert log.rank.tolist() == [1, 2] * 300
    orders = {tuple(log.item[start : start + 2].tolist()) for start in log.offsets[:-1]}
    # The first ranker ties the items of the last list, in any order.
    assert orders == {(1, 3), (0, 2)} | {(a, b) for a, b in product((4, 5, 6), repeat=2) if a != b}


QUALITY = [1.0, -1.0, 0.5]


def graded(features: Any) -> Any:
    return (features @ QUALITY > 0.3).astype(int) + (features @ QUALITY > 1.2)


def log_attraction(features: Any) -> Any:
    """The one feature in which the dual ranker's model is true: its softmax is of log attractions."""
    return np.log(PositionBased(noise=0.1).attraction(graded(features)))[:, None]


@cache
def planted(n_lists: int = 400, sessions: int = 60_000, n_rankers: int = 3, eta: float = 1.0) -> tuple[ClickLog, Any]:
    draws = np.random.default_rng(3)
    features = draws.normal(size=(n_lists * 8, 3))
    quality = features @ QUALITY
    grades = graded(features)
    rankers = [quality + 2 * draws.normal(size=len(quality)) for _ in range(n_rankers)]
    limits = np.arange(0, len(grades) + 1, 8)
    model = PositionBased(noise=0.1, eta=eta)
    return clicks.simulate(model, grades, limits, scores=rankers, sessions=sessions, seed=4), features


ESTIMATES: dict[str, tuple[Callable[[ClickLog, Any], Any], float]] = {
    "regression EM by item": (lambda log, _: clicks.regression_em(log), 0.05),
    "regression EM by features": (lambda log, features: clicks.regression_em(log, features), 0.1),
    "intervention harvesting": (lambda log, _: clicks.intervention_harvesting(log), 0.05),
    "dual learning": (lambda log, features: clicks.dual_learning(log, log_attraction(features))[0], 0.05),
}


@pytest.mark.parametrize("eta", [0.5, 1.0])
@pytest.mark.parametrize("name", ESTIMATES)
def test_planted_propensities_are_found(name: str, eta: float) -> None:
    estimate, close = ESTIMATES[name]
    found = estimate(*planted(eta=eta))
    expected = PositionBased(eta=eta).propensities(8)
    assert found[0] == 1
    assert np.abs(found - expected).max() < close
    # The shares of clicks by rank are worse: better items are shown higher.
    log, _ = planted(eta=eta)
    rates = np.bincount(log.rank, log.clicked)[1:] / np.bincount(log.rank)[1:]
    assert np.abs(rates / rates[0] - expected).max() > 1.5 * np.abs(found - expected).max()


@pytest.mark.parametrize("estimate", [clicks.regression_em, clicks.intervention_harvesting])
def test_ranks_that_no_item_connects_are_named(estimate: Callable[[ClickLog], Any]) -> None:
    fixed = clicks.simulate(PositionBased(), GRADES, LIMITS, sessions=100)
    with pytest.raises(ValueError, match="no item was shown in two of these 4 groups of ranks: 1; 2; 3; 4"):
        estimate(fixed)
    swapped = clicks.simulate(PositionBased(), GRADES[:4], [0, 4], scores=[[4, 3, 2, 1], [3, 4, 1, 2]], sessions=99)
    with pytest.raises(ValueError, match="these 2 groups of ranks: 1, 2; 3, 4"):
        estimate(swapped)


def test_the_dual_ranker_orders_as_the_quality_does() -> None:
    log, features = planted()
    _, coefficients = clicks.dual_learning(log, features)
    assert np.corrcoef(features @ coefficients, features @ QUALITY)[0, 1] > 0.98


MANY = {"sessions": 60_000, "seed": 6}


def test_estimates_are_the_attractions_and_naive_ones_are_not() -> None:
    model, scores = PositionBased(noise=0.2), [3, 1, 2, 4, 3, 2, 1]
    log = clicks.simulate(model, GRADES, LIMITS, scores=scores, **MANY)
    attraction, theta = model.attraction(GRADES), model.propensities(4)
    assert np.abs(clicks.estimated_relevance(log, theta) - attraction).max() < 0.05
    assert np.abs(clicks.estimated_relevance(log, np.ones(4)) - attraction).max() > 0.3
    # Doubly robust: wrong priors with right propensities, and right priors where clicks are clipped or cut off.
    wrong = clicks.estimated_relevance(log, theta, prior=np.full(7, 0.5), estimator="dr")
    assert np.abs(wrong - attraction).max() < 0.05
    short = clicks.simulate(model, GRADES, LIMITS, scores=scores, depth=2, **MANY)
    clipped = {"floor": 0.7}
    assert np.abs(clicks.estimated_relevance(short, theta, **clipped) - attraction).max() > 0.3
    right = clicks.estimated_relevance(short, theta, prior=attraction, estimator="dr", **clipped)
    assert np.abs(right - attraction).max() < 0.05


def test_estimates_are_the_written_out_sums() -> None:
    log = clicks.simulate(PositionBased(), GRADES, LIMITS, scores=[3, 1, 2, 4, 3, 2, 1], sessions=7, seed=2)
    theta, prior = np.array([0.9, 0.5, 0.3, 0.2]), np.linspace(0.1, 0.7, 7)
    ips, dr = np.zeros(7), np.zeros(7)
    for session, (start, stop) in enumerate(zip(log.offsets[:-1], log.offsets[1:], strict=True)):
        n = (log.lists == log.lists[session]).sum()
        for row in range(start, stop):
            item, examined = log.item[row], theta[log.rank[row] - 1]
            ips[item] += log.clicked[row] / max(examined, 0.4) / n
            dr[item] += (log.clicked[row] - examined * prior[item]) / max(examined, 0.4) / n
    assert clicks.estimated_relevance(log, theta, floor=0.4) == pytest.approx(ips)
    assert clicks.estimated_relevance(log, theta, floor=0.4, prior=prior, estimator="dr") == pytest.approx(prior + dr)


def test_counterfactual_metrics_are_those_of_the_attractions() -> None:
    model, new = PositionBased(noise=0.2), np.array([1.0, 2.0, 2.0, 4.0, 1.0, 3.0, 2.0])
    log = clicks.simulate(model, GRADES, LIMITS, scores=[3, 1, 2, 4, 3, 2, 1], **MANY)
    attraction, theta = model.attraction(GRADES), model.propensities(4)
    truth = rb.metric("DCG@2")(new, np.ones(7), LIMITS, weights=attraction)
    sums = np.array([attraction[:4].sum(), np.nan, attraction[4:].sum()])
    for estimator, prior in (("ips", None), ("snips", None), ("dr", np.full(7, 0.9))):
        found = clicks.counterfactual("DCG@2", new, log, theta, estimator=estimator, prior=prior)
        expected = truth / sums if estimator == "snips" else truth
        assert found[[0, 2]] == pytest.approx(expected[[0, 2]], abs=0.05)
        assert np.isnan(found[1])
    seldom = clicks.simulate(PositionBased(), GRADES, LIMITS, sessions=1)
    assert np.isnan(clicks.counterfactual("CG@1", np.zeros(7), seldom, np.ones(4))).sum() == 2
    # A factor of the propensities makes no difference to the self-normalised estimate.
    halved = clicks.counterfactual("DCG@2", new, log, theta / 2, estimator="snips")
    assert halved == pytest.approx(clicks.counterfactual("DCG@2", new, log, theta, estimator="snips"), nan_ok=True)


test_what_cannot_be_computed_is_refused = refusals(
    [
        (lambda log: clicks.simulate(PositionBased(), [1, 0], [0, 3]), "expected ascending limits of 2 items"),
        (lambda log: clicks.simulate(PositionBased(), [], [0, 0]), "found no list with items"),
        (lambda log: clicks.simulate(PositionBased(), [1, 0], [0, 2], scores=[1.0]), "expected finite .n_rankers, 2"),
        (lambda log: clicks.estimated_relevance(log, [1.0]), "found 1, expected 4 numbers above 0"),
        (lambda log: clicks.estimated_relevance(log, np.zeros(4)), "numbers above 0"),
        (lambda log: clicks.estimated_relevance(log, np.ones(4), estimator="dr"), "prior: found none"),
        (lambda log: clicks.estimated_relevance(log, np.ones(4), estimator="snips"), "expected one of ips, dr"),
        (lambda log: clicks.counterfactual("nDCG", np.ones(7), log, np.ones(4)), "DCG or CG"),
        (lambda log: clicks.dual_learning(log, np.ones((3, 1))), "found 3 rows, expected 7"),
    ],
    lambda call: call(clicks.simulate(PositionBased(), GRADES, LIMITS, sessions=9)),
)
