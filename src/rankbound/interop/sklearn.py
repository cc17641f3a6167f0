"""Rankers in the form of scikit-learn, for its pipelines, cross-validation and searches; needs the extra `sklearn`."""

import inspect
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound.errors import DataError
from rankbound.io.files import needs_extra
from rankbound.io.judged import Array, JudgedLists
from rankbound.metrics import metric as parse_metric
from rankbound.texts import quoted
from rankbound.training.ranker import Ranker, train_ranker
from rankbound.training.recipe import PAIR_MODELS, Recipe

with needs_extra("data"):
    import polars as pl

    from rankbound.io.table_columns import CATEGORIES, Table, by_topic
with needs_extra("sklearn"):
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import (
        check_array,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )

QUERY = "qid"
"""The column of a data frame that names the queries of its rows, as for XGBoost's ranker."""

_LISTS = (
    "pass qid= to it, too, or a data frame with a column `qid`; through scikit-learn's cross_val_score, searches and "
    "pipelines, qid comes by the data frame, or after sklearn.set_config(enable_metadata_routing=True) by "
    "set_fit_request(qid=True), set_predict_request(qid=True) and set_score_request(qid=True)"
)


class RankerEstimator(BaseEstimator):  # type: ignore[misc,unused-ignore]
    """A ranker as an estimator of scikit-learn: `RankerEstimator(loss="nDCG", bound="min-max").fit(X, y, qid=qid)`.

    The parameters are those of `rankbound.Recipe`, and `device` as in `rankbound.train_ranker`. `rankbound.Ranker`, the
    result of the training, is the attribute `ranker_`.

    Missing values are NaN, for which `missing_features` says what to do. Categories are the columns of a data frame
    whose type says so (pandas: `astype("category")`).

    Rows of a query need not be adjacent. The queries are named by `qid`, or by a column `qid` of a data frame, which is
    no feature; without either, all rows are one list. For cross-validation, split whole queries, as `GroupKFold` does.

    Args:
        recipe: the parameters. Training on one list needs `validation_share=0`, as no list can be held out.

    Raises:
        TypeError: for a parameter that is none of the recipe's.

    Attributes:
        ranker_: the trained ranker, after `fit`.
        n_features_in_, feature_names_in_: the features of `fit`, the latter if it had a data frame.
    """

    def __init__(self, **recipe: Any) -> None:
        bound = self._signature.bind(None, **recipe)
        bound.apply_defaults()
        for name, value in bound.kwargs.items():
            setattr(self, name, value)

    _signature = inspect.Signature(
        [
            inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            *inspect.signature(Recipe).parameters.values(),
            inspect.Parameter("device", inspect.Parameter.KEYWORD_ONLY, default="auto", annotation=str),
        ]
    )
    # Parameters are found there, as the texts of estimators are.
    __init__.__signature__ = _signature  # type: ignore[attr-defined]

    def fit(self, X: Any, y: Any, qid: Any = None) -> "RankerEstimator":
        """Train the ranker.

        Args:
            X: `(n_items, d)`, features: an array or a data frame.
            y: `(n_items,)`, relevance labels from 0.
            qid: `(n_items,)`, the query of each item, numbers or texts.

        Returns:
            The estimator.

        Raises:
            ValueError: as `rankbound.train_ranker`, or for arguments that don't fit each other.
        """
        recipe = {setting.name: getattr(self, setting.name) for setting in fields(Recipe)}
        if recipe["model"] in PAIR_MODELS:
            raise ValueError(f"model: found {recipe['model']}, which reads no features: use rankbound.train_ranker")
        X, qid = _apart(X, qid)
        if qid is None and recipe["validation_share"] > 0:
            raise ValueError(
                "qid: found none, so that all rows are one list, and no list can be held out: pass qid=, or "
                "validation_share=0 to train on one list"
            )
        rows, grades, categories = self._checked(X, y, is_fit=True)
        columns = getattr(self, "feature_names_in_", np.arange(1, rows.shape[1] + 1))
        lists, _ = _judged(qid, rows, grades, list(map(str, columns)), categories)
        if (grades < 0).any():
            raise ValueError(f"y: found relevance {grades.min()}, expected grades from 0")
        try:
            self.ranker_: Ranker = train_ranker(lists, device=self.device, **recipe)
        except DataError as error:
            raise ValueError(str(error)) from error
        self._has_queries = qid is not None
        return self

    def predict(self, X: Any, qid: Any = None) -> npt.NDArray[Any]:
        """Return the scores of items, `(n_items,)`; higher is better. Only `scale="query"` and
        `model="attention"` need their queries.

        Raises:
            ValueError: as `rankbound.Ranker.score`, or for arguments that don't fit each other.
        """
        check_is_fitted(self)
        X, qid = _apart(X, qid)
        rows, _, categories = self._checked(X)
        self._require_queries(qid, needed=self.ranker_.recipe.scores_lists)
        lists, order = _judged(qid, rows, np.zeros(len(rows), np.int8), self.ranker_.feature_names, categories)
        scores = np.empty(len(rows), np.float32)
        scores[order] = self.ranker_.score(lists)
        return scores

    def score(self, X: Any, y: Any, qid: Any = None, sample_weight: None = None) -> float:
        """Return the mean of the recipe's metric over the queries where it is defined.

        Raises:
            ValueError: as `predict`, without queries for an estimator that was fitted with some, or for weights, which
                the mean does not have; pipelines pass none by that name.
        """
        check_is_fitted(self)
        if sample_weight is not None:
            raise ValueError("sample_weight: found weights, but the mean over queries has none")
        scores = self.predict(X, qid)
        _, qid = _apart(X, qid)
        self._require_queries(qid, needed=True)
        grades = check_array(column_or_1d(y), ensure_2d=False)
        order, _, offsets = _lists(qid, len(scores))
        if len(grades) != len(scores):
            raise ValueError(f"y: found {len(grades)} labels, expected {len(scores)}, one per row of X")
        values = parse_metric(self.ranker_.recipe.metric)(scores[order], grades[order], offsets)
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else float("nan")

    def _checked(self, X: Any, y: Any = None, is_fit: bool = False) -> tuple[Array, Array, dict[str, list[str]]]:
        """Return checked features, labels (to fit by) and the categories of a data frame's columns of that type."""
        keeps = self.missing_features != "refuse"
        # Of pandas, a data frame that has categories.
        has_categories = hasattr(X, "iloc") and any(str(kind) == "category" for kind in getattr(X, "dtypes", ()))
        frame = X if isinstance(X, pl.DataFrame) else pl.from_pandas(X) if has_categories else pl.DataFrame()
        typed = [name for name, kind in frame.schema.items() if isinstance(kind, CATEGORIES)]
        if not typed:
            finite = {"dtype": np.float32, "ensure_all_finite": "allow-nan" if keeps else True}
            try:
                if is_fit:
                    return *validate_data(self, X, y, y_numeric=True, ensure_min_samples=2, **finite), {}
                return validate_data(self, X, reset=False, **finite), np.empty(0), {}
            except ValueError as error:
                if not hasattr(X, "columns") or "could not convert string" not in str(error):
                    raise
                way = "columns of categories have that type: X.astype({'brand': 'category'})"
                raise ValueError(f"X: {error}, expected numbers; {way}") from error
        validate_data(self, X, skip_check_array=True, reset=is_fit)
        own = typed if is_fit else list(self.ranker_.encoding.categories)
        values, categories = Table(frame, "X", "row", 0).matrix(frame.columns, own, keeps)
        grades = np.empty(0)
        if is_fit:
            grades = check_array(column_or_1d(y), ensure_2d=False)
            check_consistent_length(values, grades)
        return values, grades, categories

    def _require_queries(self, qid: Any, needed: bool) -> None:
        if needed and qid is None and self._has_queries:
            raise ValueError(f"qid: found none, but the estimator was fitted with queries: {_LISTS}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.target_tags.positive_only = True
        tags.input_tags.allow_nan = self.missing_features != "refuse"
        return tags


def _apart(X: Any, qid: Any) -> tuple[Any, Any]:
    """Return features and queries, of which a data frame may have a column."""
    if QUERY not in map(str, getattr(X, "columns", ())):
        return X, qid
    if qid is not None:
        raise ValueError("qid: found beside a column `qid` of X, expected one of them")
    column = X[QUERY]
    return X.drop(columns=QUERY) if hasattr(X, "iloc") else X.drop(QUERY), column


def _judged(
    qid: Any, rows: Array, grades: Array, names: Sequence[str], categories: dict[str, list[str]]
) -> tuple[JudgedLists, npt.NDArray[np.int64]]:
    """Return rows as the lists of their queries, whose items are named by the rows' numbers, and the rows' order."""
    order, topics, offsets = _lists(qid, len(rows))
    lists = JudgedLists(
        topics=topics,
        items=[str(row) for row in order.tolist()],
        relevance=grades[order],
        offsets=offsets,
        features=np.ascontiguousarray(rows[order]),
        feature_names=names,
        categories=categories,
    )
    return lists, order


def _lists(qid: Any, n_items: int) -> tuple[npt.NDArray[np.int64], list[str], npt.NDArray[np.int64]]:
    """Return the order of rows that puts those of a query together, the queries' names, and the limits of their lists.

    Queries keep the order in which they first appear, and rows that of their query.
    """
    names = np.zeros(n_items, np.int64) if qid is None else np.asarray(qid)
    if names.shape != (n_items,):
        raise ValueError(f"qid: found shape {names.shape}, expected ({n_items},), one per row of X")
    wrong = next((name for name in names.tolist() if name is None or name != name), 0)
    if wrong != 0:
        raise ValueError(f"qid: found {quoted(wrong)}, expected a name for each row")
    topics, limits, order = by_topic(pl.Series(names))
    return np.arange(n_items) if order is None else order, list(map(str, topics)), limits
