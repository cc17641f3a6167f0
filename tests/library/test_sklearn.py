"""Rankers as estimators of scikit-learn: its own checks, and what pipelines, searches and cross-validation do."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankbound as rb
from rankbound.interop.sklearn import RankerEstimator
from tests.library.refusals import refusals

rng = np.random.default_rng(0)
QID = np.repeat(np.arange(24), 6)
X = rng.normal(size=(len(QID), 3)).astype(np.float32)
Y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=len(QID)), [0.3, 1.0])
FRAME = pd.DataFrame(X, columns=["price", "stars", "age"])
SHUFFLED = rng.permutation(len(QID))
SHORT: dict[str, Any] = {"epochs": 5, "learning_rate": 0.1}


def estimator(**recipe: Any) -> RankerEstimator:
    return RankerEstimator(**SHORT | recipe)


@parametrize_with_checks([RankerEstimator(epochs=2, validation_share=0)])
def test_scikit_learns_own_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    """All of them, for an estimator that is neither a classifier nor a regressor; without queries, rows are one list.

    That of arrays of other libraries runs where SCIPY_ARRAY_API is set.
    """
    check(estimator)


def test_it_is_the_ranker_of_the_same_recipe() -> None:
    lists = rb.read_lists(FRAME.assign(topic=QID, relevance=Y))
    ranker = rb.train_ranker(lists, bound="min-max", **SHORT)
    fitted = estimator(bound="min-max").fit(FRAME, Y, qid=QID)
    np.testing.assert_array_equal(fitted.predict(FRAME), ranker.score(X))
    assert list(fitted.ranker_.feature_names) == list(fitted.feature_names_in_) == list(FRAME)
    expected = rb.evaluate("nDCG@10", ranker.score(X), Y, rb.Lists.from_ids(QID))["nDCG@10"].nanmean()
    assert fitted.score(FRAME, Y, qid=QID) == pytest.approx(float(expected), abs=1e-12)
    assert fitted.get_params()["bound"] == "min-max"
    assert clone(fitted).get_params() == fitted.get_params()
    assert repr(estimator(loss="AP")) == "RankerEstimator(epochs=5, learning_rate=0.1, loss='AP')"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(FRAME), fitted.predict(FRAME))


@pytest.mark.parametrize("scale", ["standard", "query", "none"])
@pytest.mark.parametrize(
    ("features", "queries"),
    [
        (X, QID),
        (FRAME, pd.Series(QID, index=range(7, 7 + len(QID)))),
        (pl.DataFrame(FRAME), pl.Series(QID)),
        (FRAME, QID.astype(str)),
        (FRAME.assign(qid=QID), None),
        (pl.DataFrame(FRAME.assign(qid=QID)), None),
        (X.astype(np.float64).tolist(), QID.tolist()),
    ],
    ids=["arrays", "pandas", "polars", "texts", "a column", "a column of polars", "lists"],
)
def test_queries_come_in_any_way_and_order(features: Any, queries: Any, scale: str) -> None:
    expected = estimator(scale=scale).fit(X, Y, qid=QID)
    fitted = estimator(scale=scale).fit(features, Y, qid=queries)
    np.testing.assert_allclose(fitted.predict(features, queries), expected.predict(X, QID), rtol=1e-6)
    assert fitted.score(features, Y, queries) == pytest.approx(expected.score(X, Y, QID))
    mixed = expected.predict(X[SHUFFLED], QID[SHUFFLED])
    np.testing.assert_allclose(mixed, expected.predict(X, QID)[SHUFFLED], rtol=1e-5)
    assert expected.score(X[SHUFFLED], Y[SHUFFLED], QID[SHUFFLED]) == pytest.approx(expected.score(X, Y, QID))


@pytest.mark.parametrize("make", [lambda frame: frame, pl.DataFrame], ids=["pandas", "polars"])
def test_missing_values_and_categories_are_those_of_the_ranker(make: Callable[[Any], Any]) -> None:
    """Columns of a categorical type, as for other estimators that take them; what was not fitted is unknown."""
    rows = FRAME.assign(brand=pd.Categorical(rng.choice(["acme", "bolt", "core"], len(QID))))
    rows.loc[::7, ["price", "brand"]] = None
    fitted = estimator(missing_features="indicator").fit(make(rows), Y, qid=QID)
    lists = rb.read_lists(rows.assign(topic=QID, relevance=Y), missing_features="keep")
    ranker = rb.train_ranker(lists, missing_features="indicator", **SHORT)
    np.testing.assert_array_equal(fitted.predict(make(rows)), ranker.score(rows))
    new = rows.assign(brand=rows["brand"].astype(str)).iloc[:5]
    np.testing.assert_allclose(
        fitted.predict(new.assign(brand=new["brand"].astype("category"))), ranker.score(rows)[:5]
    )
    numbers = rows.drop(columns="brand")
    assert np.isfinite(estimator(missing_features="mean").fit(make(numbers), Y, QID).predict(make(numbers))).all()
    with pytest.raises(ValueError, match="NaN"):
        estimator().fit(numbers, Y, QID)
    with pytest.raises(
        ValueError, match=r"^X: could not convert string to float: .* X\.astype\(\{'brand': 'category'\}\)"
    ):
        estimator().fit(make(rows.assign(brand="acme")), Y, QID)


def by_hand(model: RankerEstimator) -> list[float]:
    folds = GroupKFold(3).split(X, Y, QID)
    return [clone(model).fit(X[a], Y[a], QID[a]).score(X[b], Y[b], QID[b]) for a, b in folds]


def test_cross_validation_of_groups_by_a_column() -> None:
    rows = FRAME.assign(qid=QID)
    assert cross_val_score(estimator(), rows, Y, groups=QID, cv=GroupKFold(3)).tolist() == by_hand(estimator())
    search = GridSearchCV(estimator(), {"loss": ["nDCG", "RankNet"], "bound": ["none"]}, cv=GroupKFold(2))
    assert search.fit(rows, Y, groups=QID).best_estimator_.ranker_.recipe.loss in ("nDCG", "RankNet")


def test_cross_validation_and_pipelines_by_metadata() -> None:
    given = {"qid": QID, "groups": QID}
    with sklearn.config_context(enable_metadata_routing=True):
        model = estimator().set_fit_request(qid=True).set_score_request(qid=True)
        assert cross_val_score(model, X, Y, params=given, cv=GroupKFold(3)).tolist() == by_hand(estimator())
        pipeline = make_pipeline(StandardScaler(), model)
        assert pipeline.fit(X, Y, qid=QID).score(X, Y, qid=QID) > 0.7
        # The ranker scales features itself.
        of_pipeline = cross_val_score(pipeline, X, Y, params=given, cv=GroupKFold(3)).tolist()
    assert of_pipeline == pytest.approx(by_hand(estimator()), abs=1e-3)


def test_a_pipeline_without_routing_passes_queries_by_its_steps_name() -> None:
    pipeline = make_pipeline(StandardScaler(), estimator()).fit(X, Y, rankerestimator__qid=QID)
    assert rb.evaluate("nDCG@10", pipeline.predict(X), Y, rb.Lists.from_ids(QID))["nDCG@10"].nanmean() > 0.7
    with pytest.raises(
        ValueError, match=r"^qid: found none, but the estimator was fitted with queries: pass.*set_config"
    ):
        pipeline.score(X, Y)


test_what_does_not_fit_is_refused = refusals(
    [
        (lambda: RankerEstimator(losses="nDCG"), "unexpected keyword argument 'losses'"),
        (lambda: estimator(loss="nothing").fit(X, Y, QID), "nothing"),
        (lambda: estimator().fit(X, Y), "^qid: found none, so that all rows are one list, .*pass qid=, or valid"),
        (lambda: estimator().fit(X, Y, QID[1:]), r"^qid: found shape \(143,\), expected \(144,\)"),
        (lambda: estimator().fit(X, Y, [None, *QID[1:]]), "^qid: found None, expected a name"),
        (lambda: estimator().fit(X, Y, [float("nan"), *QID[1:]]), "^qid: found nan, expected a name"),
        (lambda: estimator().fit(FRAME.assign(qid=QID), Y, QID), "^qid: found beside a column `qid` of X"),
        (lambda: estimator().fit(X, Y - 1.5, QID), "^y: found relevance -1.5, expected grades from 0"),
        (lambda: estimator().fit(X, Y * 0, QID), "no training topic is informative"),
        (lambda: estimator(model="matrix-factorization").fit(X, Y, QID), "^model: found matrix-factorization, which"),
        (lambda: estimator(scale="query").fit(X, Y, QID).predict(X), "^qid: found none, but the estimator was fitted"),
        (lambda: estimator().fit(X, Y, QID).score(X, Y, QID, np.ones(144)), "^sample_weight: found weights"),
        (lambda: estimator().fit(X, Y, QID).score(X, Y[1:], QID), "^y: found 143 labels, expected 144"),
        (lambda: estimator().fit(FRAME, Y, QID).predict(FRAME[["stars", "price", "age"]]), "feature names should"),
    ],
    error=(ValueError, TypeError),
)  # fmt: skip
