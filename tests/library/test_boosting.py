"""Objectives, metrics by topic and callbacks for LightGBM and XGBoost: what they hand over, and trees grown on it."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import pytest
import torch
import xgboost as xgb

import rankbound as rb
from rankbound.boosting import HESSIANS, LEAST_HESSIAN, STEP, Judgements, RankingObjective
from rankbound.kernels import usable
from tests.library.pages import programs
from tests.library.planted_ratings import lists_of
from tests.library.refusals import refusals

Array = npt.NDArray[Any]
QUIET = {"verbosity": -1, "num_threads": 1, "metric": "none", "num_leaves": 7, "min_data_in_leaf": 10, "seed": 3}
FOREST = {"nthread": 1, "max_depth": 3, "eta": 0.3, "seed": 3, "disable_default_eval_metric": 1}


def planted(n_topics: int = 60, seed: int = 0, *, largest: int = 1) -> tuple[Array, Array, Array]:
    """Features, grades 0 .. `largest` and sizes: two of the five features decide the order inside a topic."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 16, n_topics)
    features = rng.normal(size=(sizes.sum(), 5))
    utility = features[:, 0] - np.abs(features[:, 1]) + 0.3 * rng.normal(size=sizes.sum())
    grades = np.clip(np.floor(utility + largest / 2), 0, largest).astype(np.int64)
    return features, grades, sizes


def lightgbm_data(features: Array, grades: Array, sizes: Array, **others: Any) -> lgb.Dataset:
    return lgb.Dataset(features, grades, group=sizes, free_raw_data=False, params=QUIET, **others).construct()


def xgboost_data(features: Array, grades: Array, sizes: Array) -> xgb.DMatrix:
    data = xgb.DMatrix(features, grades, nthread=1)
    data.set_group(sizes)
    return data


def offsets_of(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)])


CURVED = ["RankNet", "ListNet", "LambdaRank", "hinge", "squared", "RankNet(reduction=sum)"]
SMOOTH = [("nDCG@10", "min-max"), ("AP", "none"), ("nRBP", "distribution(gain=sd)"), ("ADR-MSE", "none")]


@pytest.mark.parametrize("hessian", ["auto", "exact"])
@pytest.mark.parametrize("text", CURVED)
def test_what_is_handed_over_is_the_gradient_and_the_floored_curvature(text: str, hessian: str) -> None:
    features, grades, sizes = planted()
    loss, scores = rb.loss(text), 0.7 * features[:, 0]
    leaf, relevance = torch.from_numpy(scores).requires_grad_(), torch.from_numpy(grades)
    lists = Judgements.of(grades, sizes).lists
    (expected,) = torch.autograd.grad(loss(leaf, relevance, torch.from_numpy(offsets_of(sizes))).sum(), leaf)
    rows = lists.spread(loss.informative(relevance, lists))
    least = LEAST_HESSIAN * expected[rows].abs().mean()
    curvature = loss.curvature(leaf.detach(), relevance, lists)
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


@pytest.mark.parametrize("hessian", HESSIANS)
def test_a_constant_hessian_is_the_mean_gradient_over_the_step_in_any_unit(hessian: str) -> None:
    features, grades, sizes = planted()
    data, loss = lightgbm_data(features, grades, sizes), rb.loss("RankNet")
    gradient, curvature = RankingObjective(loss, hessian, step=0.5)(features[:, 2], data)
    large = RankingObjective(1e4 * loss, hessian, step=0.5)(features[:, 2], data)
    np.testing.assert_allclose(large, [gradient, curvature], rtol=1e-9)
    if hessian == "constant":
        rows = curvature > 0
        np.testing.assert_allclose(curvature[rows], 1)
        assert np.abs(gradient[rows]).mean() == pytest.approx(0.5)


TIED = np.zeros(1000)


@pytest.mark.parametrize(
    ("labels", "scores"),
    [
        # Items this far apart cannot change places: the gradients, below 1e-16, are what rounding leaves.
        ([2, 1, 2], np.array([55.2, -38.4, 4.9])),
        # All ranks are 500: in single precision the gradient is 0, and so must the step be.
        *(((np.arange(1000) % 7 == 0).astype(np.float32), TIED.astype(dtype)) for dtype in (np.float32, np.float64)),
    ],
    ids=["far apart", "single precision", "tied"],
)
@pytest.mark.usefixtures("each_way")
def test_rounding_errors_alone_are_no_steps_and_stay_finite(labels: Any, scores: Any) -> None:
    gradient, hessian = rb.boosting_objective("nDCG@10", "min-max")(labels, scores, None, [len(scores)])
    assert np.isfinite([gradient, hessian]).all()
    assert np.all(hessian > 0)
    if len(scores) == 3:
        np.testing.assert_allclose(hessian, 1)
        assert np.abs(gradient).max() < 0.1


def test_topics_without_information_have_no_say_and_ties_count_by_their_mean() -> None:
    objective = rb.boosting_objective("AP", "min-max")
    grades, sizes = np.array([0, 0, 1, 1, 0, 1, 0]), np.array([2, 2, 3])
    gradient, hessian = objective(grades, np.linspace(0, 1, 7), None, sizes)
    assert gradient[:4].tolist() == hessian[:4].tolist() == [0] * 4
    assert np.all(hessian[4:] > 0)
    with pytest.raises(ValueError, match="label: found no informative topic for AP among 3"):
        objective(0 * grades, np.linspace(0, 1, 7), None, sizes)
    grades, sizes = np.array([1, 0, 0, 0, 0]), np.array([3, 2])
    tied = np.mean([1, 1 / 2, 1 / 3])
    names = rb.boosting_metric("AP", "nRBP")(grades, np.zeros(5), None, sizes)
    assert names == [("AP", pytest.approx(tied), True), ("nRBP", 1.0, False)]
    data = xgboost_data(np.zeros((5, 1)), grades, sizes)
    assert rb.boosting_metric("AP")(np.zeros(5), data) == [("AP", pytest.approx(tied))]
    for labels, weight in ((0 * grades, None), (grades, np.zeros(5))):
        (nothing,) = rb.boosting_metric("AP")(labels, np.zeros(5), weight, sizes)
        assert np.isnan(nothing[1])


@pytest.mark.skipif(not usable(), reason="PyTorch's formulas compute the facts of a batch again")
def test_a_tree_computes_the_facts_of_its_lists_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKBOUND_FAST", "1")
    features, grades, sizes = planted(20)
    loss = rb.loss("nDCG", "min-max")
    asked, facts = [], loss.facts
    monkeypatch.setattr(loss, "facts", lambda *arguments: asked.append(1) or facts(*arguments))
    objective, data = RankingObjective(loss), lightgbm_data(features, grades, sizes)
    for column in features.T:
        objective(column, data)
    assert len(asked) == 1


def test_other_judgements_have_their_own_facts() -> None:
    """An objective that keeps what it knows of the last tree's lists: other labels, groups, and labels written to."""
    _, grades, sizes = planted(20)
    scores = np.linspace(0, 1, len(grades))
    kept = rb.boosting_objective("nDCG", "min-max")
    flipped, regrouped = grades.max() - grades, np.concatenate([sizes[:-2], [sizes[-2:].sum()]])
    halves = grades / 2
    written = ((grades, sizes), (flipped, sizes), (flipped, regrouped), (halves, sizes), (halves, sizes))
    for place, (labels, groups) in enumerate(written):
        halves[:] = halves if place < len(written) - 1 else halves.max() - halves
        fresh = rb.boosting_objective("nDCG", "min-max")
        np.testing.assert_array_equal(kept(labels, scores, None, groups), fresh(labels, scores, None, groups))


LEARNED = [("nDCG@10", "min-max", "auto"), ("AP", "expectation-max", "auto"), ("hinge", "none", "constant")]
LEARNED += [(text, "none", "exact") for text in ("LambdaRank", "RankNet")]


@pytest.mark.parametrize(("text", "bound", "hessian"), LEARNED)
def test_both_libraries_learn_the_planted_order(text: str, bound: str, hessian: str) -> None:
    """nDCG on new topics stands at 0.57 for tied scores, and above 0.9 with the planted order."""
    train, test = planted(150), planted(100, seed=1)
    objective = rb.boosting_objective(text, bound, hessian=hessian)
    first = lgb.train({**QUIET, "objective": objective}, lightgbm_data(*train), 40)
    second = xgb.train({**FOREST}, xgboost_data(*train), 20, obj=objective)
    tied, *found = (
        np.nanmean(rb.metric("nDCG")(scores, test[1], offsets_of(test[2])))
        for scores in (np.zeros(len(test[1])), first.predict(test[0]), second.predict(xgboost_data(*test)))
    )
    assert min(found) > tied + 0.25


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


GRADES, SIZES = np.array([0, 1, 0, 1, 0, 1, 0]), np.array([3, 4])


def weighed(value: float) -> Any:
    return np.where(np.arange(7) == 1, value, 1.0)


BAD_DATA: list[tuple[Callable[[], Any], str]] = [
    (lambda: (np.zeros(7), lgb.Dataset(np.zeros((7, 1)), GRADES, params=QUIET).construct()), "group: found none"),
    (lambda: (np.zeros(7), xgb.DMatrix(np.zeros((7, 1)), GRADES, nthread=1)), "group: found none"),
    (lambda: (GRADES, np.zeros(7), None, [3, 3]), "group: found sizes that add up to 6, expected 7 rows"),
    (lambda: (GRADES - 1, np.zeros(7), None, SIZES), r"relevance: found -1(\.0)?, expected grades from 0"),
    (lambda: (GRADES, weighed(np.nan), None, SIZES), "scores: found nan at item 1"),
    (lambda: (GRADES, np.zeros(3), None, SIZES), "preds: found 3 values, expected"),
    (lambda: (GRADES, np.zeros(7), weighed(-1.0), SIZES), "weight: found -1.0 at 1, expected finite numbers"),
    (lambda: (GRADES, np.zeros(7), weighed(np.nan), SIZES), "weight: found nan at 1, expected finite numbers"),
    (lambda: (GRADES, np.zeros(7), weighed(np.inf), SIZES), "weight: found inf at 1, expected finite numbers"),
    (lambda: (GRADES, np.zeros(7), np.ones(3), SIZES), "weight: found 3 values, expected 7, one a row, or 2"),
]
test_bad_data_are_named = refusals(
    [((of, data), message) for of in (rb.boosting_objective, rb.boosting_metric) for data, message in BAD_DATA],
    lambda given: given[0]("AP")(*given[1]()),
)


def in_cross_validation() -> Any:
    parameters = {**QUIET, "objective": rb.boosting_objective("nDCG", "min-max")}
    folds = rb.lightgbm_folds(planted(45)[2], 3)
    return lgb.cv(parameters, lightgbm_data(*planted(45)), 5, folds=folds, callbacks=[rb.lightgbm_topics({}, "nDCG")])


def as_metric(model: Any, **arguments: Any) -> Any:
    features, grades, _ = planted(5)
    model = model(n_estimators=2, n_jobs=1, eval_metric=rb.boosting_metric("nDCG"))
    return model.fit(features, grades, eval_set=[(features, grades)], verbose=False, **arguments)


test_calls_that_are_refused = refusals(
    [
        (lambda: rb.boosting_objective("AP", hessian="diagonal"), "found diagonal, expected one of auto, exact, con"),
        (lambda: rb.boosting_objective("AP", step=0), "step: found 0"),
        (lambda: rb.boosting_objective(rb.loss("AP"), "min-max"), "bound: found min-max beside a loss"),
        (lambda: rb.boosting_objective("nDGC"), "Did you mean"),
        (lambda: rb.boosting_metric(), "metrics: found none"),
        (lambda: rb.lightgbm_folds(SIZES, 3), "folds: found 3, expected 2 to 2, the number of topics"),
        (lambda: rb.lightgbm_folds(lgb.Dataset(np.zeros((7, 1)), GRADES).construct()), "group: found none, expected a"),
        (in_cross_validation, "lightgbm_topics: found lightgbm.cv, whose folds have other topics each"),
        (lambda: as_metric(xgb.XGBRegressor), "group: found none, expected .* only xgboost.train and xgboost.cv"),
        (lambda: as_metric(xgb.XGBRanker, group=planted(5)[2], eval_group=[planted(5)[2]]), "group: found none, exp"),
    ]
)


def test_scikit_learns_interface() -> None:
    features, grades, sizes = planted()
    objective, record = rb.boosting_objective("nDCG@10", "min-max"), {}
    model = lgb.LGBMRanker(objective=objective, n_estimators=4, num_leaves=7, verbosity=-1, n_jobs=1)
    metrics, callback = rb.boosting_metric("nDCG@10", "AP"), rb.lightgbm_topics(record, "AP")
    held = {"eval_X": features, "eval_y": grades, "eval_group": [sizes]}
    model.fit(features, grades, group=sizes, eval_metric=metrics, callbacks=[callback], **held)
    values = rb.metric("AP")(model.predict(features), grades, offsets_of(sizes))
    np.testing.assert_allclose(record["training"]["AP"][-1], values)
    assert model.evals_result_["training"]["AP"][-1] == pytest.approx(np.nanmean(values))


def own_mean(library: str, name: str, topics: Any, weight: Any, scores: Any) -> float:
    """Return a library's own metric of scores, which the data set holds as starting scores."""
    features, grades, sizes = topics
    if library == "xgboost":
        data = xgboost_data(features, grades, sizes)
        data.set_weight(weight)
        data.set_base_margin(scores)
        parameters = {"objective": "rank:ndcg", "eval_metric": name, "nthread": 1}
        return float(xgb.train(parameters, data, 0).eval(data).split(":")[-1])
    data = lightgbm_data(features, grades, sizes, weight=weight, init_score=scores)
    parameters = {**QUIET, "objective": "lambdarank", "metric": name, "eval_at": [100], "learning_rate": 1e-12}
    found: dict[str, Any] = {}
    lgb.train(parameters, data, 1, valid_sets=[data], callbacks=[lgb.record_evaluation(found)])
    return float(found["training"][f"{name}@100"][0])


@pytest.mark.parametrize("undefined", [0, 3])
@pytest.mark.parametrize(
    ("library", "theirs", "of_undefined"),
    [
        *(("xgboost", theirs, of) for theirs, of in {"ndcg": "1", "ndcg-": "0", "map": "weight", "map-": "0"}.items()),
        *(("lightgbm", theirs, of) for theirs, of in {"ndcg": "1", "map": "weight"}.items()),
    ],
)
def test_weighted_means_are_theirs(library: str, theirs: str, of_undefined: str, undefined: int) -> None:
    """Over topics with a relevant row; what the libraries add for the others (`of_undefined`) is subtracted."""
    ours, largest = ("nDCG", 3) if "ndcg" in theirs else ("AP", 1)
    features, grades, sizes = planted(50, seed=4, largest=largest)
    scores = features[:, 0] + 0.5
    starts = np.cumsum(sizes) - sizes
    grades[starts] = np.maximum(grades[starts], 1)
    grades[: sizes[:undefined].sum()] = 0
    random = np.random.default_rng(0)
    weight = random.random(len(sizes) if library == "xgboost" else len(grades)).astype(np.float32) + 0.1
    of_topics = weight if library == "xgboost" else np.array([part.mean() for part in np.split(weight, starts[1:])])
    added = {"0": 0.0, "1": float(undefined), "weight": float(of_topics[:undefined].sum())}[of_undefined]
    mean = own_mean(library, theirs, (features, grades, sizes), weight, scores)
    expected = (mean * of_topics.sum() - added) / of_topics[undefined:].sum()

    if library == "xgboost":
        data: Any = xgboost_data(features, grades, sizes)
        data.set_weight(weight)
    else:
        data = lightgbm_data(features, grades, sizes, weight=weight)
    assert rb.boosting_metric(ours)(scores, data)[0][1] == pytest.approx(expected, abs=1e-6)
    ((_, value, _),) = rb.boosting_metric(ours)(grades, scores, weight, sizes)
    assert value == pytest.approx(expected, abs=1e-6)
    ((_, unweighted, _),) = rb.boosting_metric(ours)(grades, scores, None, sizes)
    assert abs(unweighted - value) > 1e-4


CUT = {"0125": 0, "34": 0, "012345": 0, "01": 1, "1234": 1, "0235": 2, "45": 1}


@pytest.mark.parametrize(("text", "cut"), CUT.items())
def test_topics_are_cut_if_a_row_is_missing_and_subsets_may_have_groups_of_their_own(text: str, cut: int) -> None:
    features, grades, rows = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 0]), [int(row) for row in text]
    part = lightgbm_data(features, grades, np.array([3, 2, 1])).subset(rows).construct()
    found = []
    for call in (rb.boosting_metric("P@1"), rb.boosting_objective("squared")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(np.zeros(len(rows)), part)
        found += [str(warning.message).split(" topics")[0] for warning in caught]
    assert found == (2 if cut else 0) * [f"group: found {cut} of {len(part.get_group())}"]
    part = lgb.Dataset(np.zeros((7, 1)), GRADES, free_raw_data=False, params=QUIET).construct().subset([0, 1, 2, 5])
    part.construct().set_group([3, 1])
    assert rb.boosting_metric("RR")(np.arange(4.0), part) == [("RR", 0.75, True)]


def test_folds_are_those_of_cross_validation() -> None:
    features, grades, sizes = planted(17)
    limits, data = offsets_of(sizes), lgb.Dataset(features, grades, group=sizes)
    lists = lists_of(sizes, grades, features, "abcde", topics=[str(topic) for topic in range(17)])
    named = rb.cross_validate(lists, 3, seed=5, loss="nDCG", epochs=1).folds
    for (train, test), topics in zip(rb.lightgbm_folds(data, 3, seed=5), named, strict=True):
        rows = [row for topic in map(int, topics) for row in range(limits[topic], limits[topic + 1])]
        assert test.tolist() == rows
        assert sorted([*train, *test]) == list(range(len(grades)))


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_every_topic_of_every_round_is_kept_and_training_stops_early(library: str) -> None:
    train, held, other = planted(80), planted(40, seed=1), planted(30, seed=2)
    objective, metric = rb.boosting_objective("nDCG@5", "min-max"), rb.boosting_metric("nDCG@5")
    record: Any = {"left over": {}}
    history: Any = {}
    if library == "lightgbm":
        data = lightgbm_data(*train)
        valid = {"valid_sets": [lightgbm_data(*part, reference=data) for part in (held, other)]}
        kept = [lgb.record_evaluation(history), rb.lightgbm_topics(record, "nDCG@5", "AP")]
        valid |= {"valid_names": ["held", "other"], "callbacks": [lgb.early_stopping(5, verbose=False), *kept]}
        parameters = {**QUIET, "objective": objective, "learning_rate": 0.5}
        model: Any = lgb.train(parameters, data, 60, feval=metric, **valid)
        best, scores = model.best_iteration - 1, model.predict(held[0])
    else:
        evals = [(xgboost_data(*held), "held"), (xgboost_data(*other), "other")]
        stop = xgb.callback.EarlyStopping(rounds=5, maximize=True, data_name="held")
        valid = {"evals": evals, "evals_result": history, "custom_metric": metric, "verbose_eval": False}
        valid["callbacks"] = [rb.xgboost_topics(record, evals, "nDCG@5", "AP"), stop]
        model = xgb.train({**FOREST, "eta": 0.5}, xgboost_data(*train), 60, obj=objective, **valid)
        best = model.best_iteration
        scores = model.predict(evals[0][0], iteration_range=(0, best + 1))
    rounds = record["held"]["nDCG@5"]
    assert list(record) == ["held", "other"]
    assert len(rounds) == len(record["other"]["AP"]) == len(history["held"]["nDCG@5"]) < 60
    np.testing.assert_allclose([np.nanmean(one) for one in rounds], history["held"]["nDCG@5"], rtol=1e-5)
    values = rb.metric("nDCG@5")(scores, held[1], offsets_of(held[2]))
    np.testing.assert_allclose(rounds[best], values, atol=1e-12)
    assert np.isnan(values).sum() == sum(not part.any() for part in np.split(held[1], offsets_of(held[2])[1:-1]))


def test_the_page_runs_as_it_stands() -> None:
    names: dict[str, Any] = {}
    for example in programs("boosting.md"):
        # One thread each: LightGBM's threads wait for each other busily where other tests run beside.
        one_thread = example.replace('"verbosity": -1', '"verbosity": -1, "num_threads": 1')
        exec(one_thread.replace("verbosity=-1", "verbosity=-1, n_jobs=1"), names)
    assert names["undefined"] == sum(
        not part.any() for part in np.split(names["grades"], np.cumsum(names["sizes"]))[:50]
    )
    assert np.nanmean(names["of_topics"]) > 0.7
    assert names["stopped_on"] == ["nDCG@10"]
    assert 0.5 < names["mean"] < np.mean(names["record"]["valid_0"]["nDCG@10"][-1][~np.isnan(names["of_topics"])])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("text", ["nDCG@10", "RankNet", "AP"])
@pytest.mark.usefixtures("each_way")
def test_every_interface_hands_over_the_same_and_weights_multiply_the_rows_of_their_topics(
    text: str, weighted: bool
) -> None:
    features, grades, sizes = planted(20, largest=1 if text == "AP" else 3)
    of_topics = np.random.default_rng(0).random(len(sizes)).astype(np.float32) + 0.1 if weighted else None
    weight = None if of_topics is None else np.repeat(of_topics, sizes)
    objective, scores = rb.boosting_objective(text), features[:, 0]
    by_xgboost = xgboost_data(features, grades, sizes)
    if weighted:
        by_xgboost.set_weight(of_topics)
    found = [
        objective(scores, lightgbm_data(features, grades, sizes, weight=weight)),
        objective(scores, by_xgboost),
        *(objective(labels, scores, weight, sizes) for labels in (grades, grades.astype(np.float32))),
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-6, atol=1e-12)
    # Up to the unit, which is a mean Hessian of 1.
    expected = np.array(objective(grades, scores, None, sizes)) * (1 if weight is None else weight)
    np.testing.assert_allclose(found[0], expected / expected[1][expected[1] > 0].mean(), rtol=1e-6, atol=1e-9)
