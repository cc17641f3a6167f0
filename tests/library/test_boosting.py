"""Objectives for LightGBM and XGBoost: what they hand over, and that trees grown on it learn a planted order."""

import copy
import pickle
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import torch
import xgboost as xgb
from planted_topics import FOREST, QUIET, lightgbm_data, offsets_of, planted, xgboost_data

import rankbound as rb
from rankbound.boosting import HESSIANS, LEAST_HESSIAN, STEP, Judgements, RankingObjective
from rankbound.fused import usable
from rankbound.losses import RankingLoss

CURVED = ["RankNet", "ListNet", "LambdaRank", "hinge", "squared", "RankNet(reduction=sum)"]
SMOOTH = [("nDCG@10", "min-max"), ("AP", "none"), ("nRBP", "distribution(gain=sd)"), ("ADR-MSE", "none")]


@pytest.mark.parametrize("hessian", ["auto", "exact"])
@pytest.mark.parametrize("text", CURVED)
def test_what_is_handed_over_is_the_gradient_and_the_floored_curvature(text: str, hessian: str) -> None:
    features, grades, sizes = planted()
    scores = 0.7 * features[:, 0]
    loss = rb.loss(text)
    leaf, relevance = torch.from_numpy(scores).requires_grad_(), torch.from_numpy(grades)
    lists = Judgements.of(grades, sizes).lists
    (expected,) = torch.autograd.grad(loss(leaf, relevance, torch.from_numpy(offsets_of(sizes))).sum(), leaf)
    rows = lists.spread(loss.informative(relevance, lists))
    least = LEAST_HESSIAN * expected[rows].abs().mean()
    curvature = loss.curvature(leaf.detach(), relevance, lists)
    assert curvature is not None
    floored = torch.where(rows, torch.maximum(curvature, expected.abs().clamp(min=least) / STEP), 0.0)

    found = rb.boosting_objective(text, hessian=hessian)(scores, lightgbm_data(features, grades, sizes))
    unit = float(floored[rows].mean())
    np.testing.assert_allclose(found[0], expected / unit, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found[1], floored / unit, rtol=1e-6, atol=1e-9)
    assert np.all(found[1][rows.numpy()] > 0)


@pytest.mark.parametrize(("text", "bound"), SMOOTH)
def test_losses_without_a_closed_form_have_a_constant_hessian(text: str, bound: str) -> None:
    features, grades, sizes = planted()
    data, loss = lightgbm_data(features, grades, sizes), rb.loss(text, bound)
    found, constant = (RankingObjective(loss, hessian)(features[:, 0], data) for hessian in ("auto", "constant"))
    np.testing.assert_array_equal(found, constant)
    for curveless in (loss, loss + rb.loss("RankNet")):
        with pytest.raises(ValueError, match=r"hessian: found exact for .* no closed form .* auto or constant"):
            RankingObjective(curveless, "exact")


@pytest.mark.parametrize(("text", "hessian"), [("nDCG", "constant"), ("RankNet", "exact")])
def test_every_interface_is_handed_the_same(text: str, hessian: str) -> None:
    features, grades, sizes = planted(largest=3)
    scores = features[:, 0].astype(np.float32)
    objective = rb.boosting_objective(text, "expectation-max" if text == "nDCG" else "none", hessian=hessian)
    plain = objective(scores.astype(np.float64), lightgbm_data(features, grades, sizes))
    for other in (
        objective(grades.astype(np.float32), scores.astype(np.float64), None, sizes.astype(np.int32)),
        objective(scores, xgboost_data(features, grades, sizes)),
    ):
        for mine, its in zip(plain, other, strict=True):
            np.testing.assert_allclose(its, mine, rtol=1e-3, atol=1e-4)


def test_a_constant_hessian_is_the_mean_gradient_over_the_step() -> None:
    features, grades, sizes = planted()
    objective = rb.boosting_objective("AP", hessian="constant", step=0.5)
    gradient, hessian = objective(features[:, 0], lightgbm_data(features, grades, sizes))
    rows = hessian > 0
    np.testing.assert_allclose(hessian[rows], 1)
    assert np.abs(gradient[rows]).mean() == pytest.approx(0.5)


def test_topics_without_information_have_no_say() -> None:
    objective = rb.boosting_objective("AP", "min-max")
    grades, sizes = np.array([0, 0, 1, 1, 0, 1, 0]), np.array([2, 2, 3])
    gradient, hessian = objective(grades, np.linspace(0, 1, 7), None, sizes)
    assert gradient[:4].tolist() == hessian[:4].tolist() == [0] * 4
    assert np.all(hessian[4:] > 0)
    with pytest.raises(ValueError, match="label: found no informative topic for AP among 3"):
        objective(0 * grades, np.linspace(0, 1, 7), None, sizes)


def test_long_tied_lists_beyond_a_smooth_cutoff_stay_finite() -> None:
    """All ranks are 500: in single precision the gradient is 0, and so must the step be."""
    objective = rb.boosting_objective("nDCG@10", "min-max")
    grades, tied = np.arange(1000) % 7 == 0, np.zeros(1000, dtype=np.float32)
    for scores in (tied, tied.astype(np.float64)):
        gradient, hessian = objective(grades.astype(np.float32), scores, None, np.array([1000]))
        assert np.isfinite(gradient).all()
        assert np.isfinite(hessian).all()
        assert np.all(hessian > 0)


class Times(RankingLoss):
    """Another loss in another unit."""

    def __init__(self, loss: RankingLoss, factor: float) -> None:
        super().__init__()
        self.loss, self.factor = loss, factor

    def of_lists(self, *arguments: Any) -> torch.Tensor:
        return self.factor * self.loss.of_lists(*arguments)

    def curvature(self, *arguments: Any) -> torch.Tensor:
        return self.factor * self.loss.curvature(*arguments)

    def informative(self, *arguments: Any) -> torch.Tensor:
        return self.loss.informative(*arguments)

    @property
    def text(self) -> str:
        return f"{self.factor} {self.loss.text}"


@pytest.mark.parametrize("hessian", HESSIANS)
def test_the_unit_of_the_loss_does_not_count(hessian: str) -> None:
    features, grades, sizes = planted()
    data, loss = lightgbm_data(features, grades, sizes), rb.loss("RankNet")
    mine = RankingObjective(loss, hessian)(features[:, 2], data)
    large = RankingObjective(Times(loss, 1e4), hessian)(features[:, 2], data)
    np.testing.assert_allclose(large, mine, rtol=1e-9)


def test_weights_of_rows_and_of_topics() -> None:
    features, grades, sizes = planted(20)
    topic_weight = np.linspace(0.5, 2, len(sizes)).astype(np.float32)
    objective = rb.boosting_objective("AP")
    plain = objective(features[:, 0], lightgbm_data(features, grades, sizes))
    rows = lightgbm_data(features, grades, sizes, weight=np.repeat(topic_weight, sizes))
    topics = xgboost_data(features, grades, sizes)
    topics.set_weight(topic_weight)
    for data in (rows, topics):
        weighed = objective(features[:, 0], data)
        for before, after in zip(plain, weighed, strict=True):
            ratio = after[before != 0] / (before * np.repeat(topic_weight, sizes))[before != 0]
            np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)
    with pytest.raises(ValueError, match="weight: found 3 values, expected 7, one per row, or 2"):
        objective(np.array([0, 1, 0, 1, 0, 1, 0]), np.zeros(7), np.ones(3), np.array([3, 4]))


@pytest.mark.skipif(not usable(), reason="PyTorch's formulas compute the facts of a batch again")
def test_a_tree_computes_the_facts_of_its_lists_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKBOUND_FAST", "1")
    features, grades, sizes = planted(20)
    loss = rb.loss("nDCG", "min-max")
    asked, facts = [], loss.facts
    monkeypatch.setattr(loss, "facts", lambda *arguments: asked.append(1) or facts(*arguments))
    objective, data = RankingObjective(loss), lightgbm_data(features, grades, sizes)
    objective(features[:, 0], data)
    objective(features[:, 1], data)
    assert len(asked) == 1


def test_other_judgements_have_their_own_facts() -> None:
    """An objective that keeps what it knows of the last tree's lists: other labels, groups, and labels written to."""
    _, grades, sizes = planted(20)
    scores = np.linspace(0, 1, len(grades))
    kept = rb.boosting_objective("nDCG", "min-max")
    flipped, regrouped = grades.max() - grades, np.concatenate([sizes[:-2], [sizes[-2:].sum()]])
    halves = grades / 2
    for labels, groups in ((grades, sizes), (flipped, sizes), (flipped, regrouped), (halves, sizes)):
        fresh = rb.boosting_objective("nDCG", "min-max")
        np.testing.assert_array_equal(kept(labels, scores, None, groups), fresh(labels, scores, None, groups))
    halves[:] = halves.max() - halves
    fresh = rb.boosting_objective("nDCG", "min-max")
    np.testing.assert_array_equal(kept(halves, scores, None, sizes), fresh(halves, scores, None, sizes))


@pytest.mark.parametrize("step", [0.2, 1.0])
@pytest.mark.parametrize("text", ["RankNet", "LambdaRank"])
def test_no_leaf_is_larger_than_the_step(text: str, step: float) -> None:
    features, grades, sizes = planted()
    parameters = {**QUIET, "objective": rb.boosting_objective(text, step=step), "learning_rate": 1.0}
    model = lgb.train(parameters, lightgbm_data(features, grades, sizes), 15)
    leaves = model.trees_to_dataframe().query("left_child.isnull()")["value"].abs()
    assert 0 < leaves.max() <= step * (1 + 1e-6)


@pytest.mark.parametrize(
    ("text", "bound", "hessian"),
    [
        ("nDCG@10", "min-max", "auto"),
        ("AP", "expectation-max", "auto"),
        ("LambdaRank", "none", "exact"),
        ("RankNet", "none", "exact"),
        ("hinge", "none", "constant"),
    ],
)
def test_both_libraries_learn_the_planted_order(text: str, bound: str, hessian: str) -> None:
    """nDCG on new topics stands at 0.57 for tied scores, and above 0.9 with the planted order."""
    train, test = planted(150), planted(100, seed=1)
    objective = rb.boosting_objective(text, bound, hessian=hessian)
    first = lgb.train({**QUIET, "objective": objective}, lightgbm_data(*train), 40)
    second = xgb.train({**FOREST}, xgboost_data(*train), 20, obj=objective)
    ndcg, offsets = rb.metric("nDCG"), offsets_of(test[2])
    constant = np.nanmean(ndcg(np.zeros(len(test[1])), test[1], offsets))
    for scores in (first.predict(test[0]), second.predict(xgboost_data(*test))):
        assert np.nanmean(ndcg(scores, test[1], offsets)) > constant + 0.25


def test_the_same_seed_grows_the_same_trees() -> None:
    data = planted()
    parameters = {**QUIET, "bagging_fraction": 0.7, "bagging_freq": 1}

    def grow() -> str:
        objective = rb.boosting_objective("nDCG", "min-max")
        return lgb.train({**parameters, "objective": objective}, lightgbm_data(*data), 5).model_to_string()

    assert grow() == grow()


@pytest.mark.parametrize("text", ["nDCG", "nDCG@10"])
def test_objectives_are_copied_pickled_and_readable(text: str) -> None:
    features, grades, sizes = planted(10)
    objective = rb.boosting_objective(text, "distribution(gain=sd)" if text == "nDCG" else "min-max", step=2)
    mine = objective(grades, features[:, 0], None, sizes)
    for other in (copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))):
        np.testing.assert_array_equal(other(grades, features[:, 0], None, sizes), mine)
        assert repr(other) == repr(objective)
    assert text in repr(objective)
    assert repr(objective).endswith("hessian=auto, step=2)")
    assert repr(rb.boosting_metric("nDCG@10", "AP")) == "TopicMetrics(nDCG@10, AP)"


def test_bad_input_is_named() -> None:
    features, grades, sizes = planted(5)
    objective = rb.boosting_objective("AP")
    scores = features[:, 0]
    with pytest.raises(ValueError, match="group: found none"):
        objective(scores, lgb.Dataset(features, grades, params=QUIET).construct())
    with pytest.raises(ValueError, match="group: found none"):
        objective(scores, xgb.DMatrix(features, grades, nthread=1))
    with pytest.raises(ValueError, match=rf"group: found sizes that add up to {sum(sizes) - 1}, expected {sum(sizes)}"):
        objective(grades, scores, None, sizes - np.eye(5, dtype=int)[0])
    with pytest.raises(ValueError, match=r"relevance: found -1\.0, expected grades from 0"):
        objective(grades - 1, scores, None, sizes)
    with pytest.raises(ValueError, match="scores: found nan at item 0"):
        objective(grades, np.where(np.arange(len(scores)) == 0, np.nan, scores), None, sizes)
    with pytest.raises(ValueError, match="preds: found 3 values, expected"):
        objective(grades, scores[:3], None, sizes)
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"weight: found {wrong} at 1, expected finite numbers from 0"):
            objective(grades, scores, np.where(np.arange(len(scores)) == 1, wrong, 1.0), sizes)
    with pytest.raises(ValueError, match="hessian: found 'diagonal', expected one of auto, exact, constant"):
        rb.boosting_objective("AP", hessian="diagonal")
    with pytest.raises(ValueError, match="step: found 0"):
        rb.boosting_objective("AP", step=0)
    with pytest.raises(ValueError, match="bound: found min-max beside a loss"):
        rb.boosting_objective(rb.loss("AP"), "min-max")
    with pytest.raises(ValueError, match="Did you mean"):
        rb.boosting_objective("nDGC")
