"""Metrics by topic and callbacks for LightGBM and XGBoost, their interfaces together, and the page that shows them."""

import re
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from planted_topics import FOREST, QUIET, lightgbm_data, offsets_of, planted, xgboost_data

import rankbound as rb


def test_scikit_learns_interface() -> None:
    features, grades, sizes = planted()
    objective, record = rb.boosting_objective("nDCG@10", "min-max"), {}
    model = lgb.LGBMRanker(objective=objective, n_estimators=4, num_leaves=7, verbosity=-1, n_jobs=1)
    metrics, callback = rb.boosting_metric("nDCG@10", "AP"), rb.lightgbm_topics(record, "AP")
    model.fit(
        features,
        grades,
        group=sizes,
        eval_X=features,
        eval_y=grades,
        eval_group=[sizes],
        eval_metric=metrics,
        callbacks=[callback],
    )
    values = rb.metric("AP")(model.predict(features), grades, offsets_of(sizes))
    np.testing.assert_allclose(record["training"]["AP"][-1], values)
    assert model.evals_result_["training"]["AP"][-1] == pytest.approx(np.nanmean(values))


def test_metrics_count_ties_by_their_mean_and_skip_topics_without_a_value() -> None:
    grades, sizes = np.array([1, 0, 0, 0, 0]), np.array([3, 2])
    tied = np.mean([1, 1 / 2, 1 / 3])
    names = rb.boosting_metric("AP", "nRBP")(grades, np.zeros(5), None, sizes)
    assert names == [("AP", pytest.approx(tied), True), ("nRBP", 1.0, False)]
    data = xgboost_data(np.zeros((5, 1)), grades, sizes)
    assert rb.boosting_metric("AP")(np.zeros(5), data) == [("AP", pytest.approx(tied))]
    (nothing,) = rb.boosting_metric("AP")(0 * grades, np.zeros(5), None, sizes)
    assert np.isnan(nothing[1])
    with pytest.raises(ValueError, match="metrics: found none"):
        rb.boosting_metric()


def test_lightgbm_keeps_every_topic_of_every_round_and_stops_early() -> None:
    train, validation = planted(80), planted(40, seed=1)
    record: Any = {"left over": {}}
    data = lightgbm_data(*train)
    held = [lightgbm_data(*part, reference=data) for part in (validation, planted(30, seed=2))]
    model = lgb.train(
        {**QUIET, "objective": rb.boosting_objective("nDCG@5", "min-max"), "learning_rate": 0.5},
        data,
        60,
        valid_sets=held,
        valid_names=["held", "other"],
        feval=rb.boosting_metric("nDCG@5"),
        callbacks=[lgb.early_stopping(5, verbose=False), rb.lightgbm_topics(record, "nDCG@5", "AP")],
    )
    rounds = record["held"]["nDCG@5"]
    assert list(record) == ["held", "other"]
    assert len(rounds) == len(record["other"]["AP"]) < 60
    best = rounds[model.best_iteration - 1]
    offsets = offsets_of(validation[2])
    values = rb.metric("nDCG@5")(model.predict(validation[0]), validation[1], offsets)
    np.testing.assert_allclose(best, values, atol=1e-12)
    assert np.isnan(best).sum() == sum(not part.any() for part in np.split(validation[1], offsets[1:-1]))
    assert model.best_score["held"]["nDCG@5"] == pytest.approx(np.nanmean(best))


def test_xgboost_keeps_every_topic_of_every_round_and_stops_early() -> None:
    data, validation = xgboost_data(*planted(80)), planted(40, seed=1)
    held, record, history = xgboost_data(*validation), {}, {}
    model = xgb.train(
        {**FOREST, "eta": 0.5},
        data,
        40,
        obj=rb.boosting_objective("AP", "min-max"),
        evals=[(held, "held")],
        evals_result=history,
        custom_metric=rb.boosting_metric("AP"),
        verbose_eval=False,
        callbacks=[
            rb.xgboost_topics(record, [(held, "held")], "AP", "nDCG@5"),
            xgb.callback.EarlyStopping(rounds=5, maximize=True),
        ],
    )
    rounds = record["held"]["AP"]
    assert len(rounds) == len(record["held"]["nDCG@5"]) == len(history["held"]["AP"])
    np.testing.assert_allclose([np.nanmean(one) for one in rounds], history["held"]["AP"], rtol=1e-5)
    best = model.predict(held, iteration_range=(0, model.best_iteration + 1))
    values = rb.metric("AP")(best, validation[1], offsets_of(validation[2]))
    np.testing.assert_allclose(rounds[model.best_iteration], values)


def test_the_page_runs_as_it_stands() -> None:
    page = Path(__file__).parents[2] / "docs" / "boosting.md"
    names: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        # One thread each: LightGBM's threads wait for each other busily where other tests run beside.
        one_thread = example.replace('"verbosity": -1', '"verbosity": -1, "num_threads": 1')
        exec(one_thread.replace("verbosity=-1", "verbosity=-1, n_jobs=1"), names)
    assert names["undefined"] == sum(
        not part.any() for part in np.split(names["grades"], np.cumsum(names["sizes"]))[:50]
    )
    assert np.nanmean(names["of_topics"]) > 0.7
