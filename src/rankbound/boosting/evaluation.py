"""Evaluation of boosted models: metrics for early stopping, and callbacks that record the values of every topic.

Metrics are averaged over the orders of tied items, which are frequent in the predictions of trees. Topics on which a
metric is undefined are skipped by its mean and are NaN in the record.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound.boosting.judgements import Judgements
from rankbound.lists import ArrayLike
from rankbound.metrics import Metric, evaluate, metric
from rankbound.seeds import Indices, dealt_lists, rows_of_lists

Values = dict[str, npt.NDArray[np.float64]]
"""Maps a metric's text to its values by topic `(n_topics,)`, NaN where undefined."""
Record = dict[str, dict[str, list[npt.NDArray[np.float64]]]]
"""Maps a data set's name and a metric's text to one array of values by topic per round."""

# The name of the pseudo-metric that records the values.
LISTENER = "rankbound.topics"
# Below the order of LightGBM's early stopping (30), which ends a round's callbacks.
CALLBACK_ORDER = 25


def boosting_metric(*metrics: str | Metric) -> "TopicMetrics":
    r"""Return a function that computes the means of metrics over topics: `rb.boosting_metric("nDCG@10", "AP")`.

    Use it as LightGBM's `feval`, as the `eval_metric` of `LGBMRanker`, or as XGBoost's `custom_metric`. It tells
    LightGBM which metrics to maximise; XGBoost minimises them unless `maximize=True` is set, in
    `xgboost.callback.EarlyStopping` or `xgboost.train`.

    The mean is

    $$\bar m = \frac{\sum_{t \in D} w_t\, m_t}{\sum_{t \in D} w_t}$$

    over the topics $D$ on which the metric is defined, with values $m_t$ and weights $w_t$: as in the libraries' own
    metrics, the group's weight (XGBoost) or the mean weight of its rows (LightGBM), and 1 without weights. It is NaN if
    $D$ is empty or its weights are 0.

    Args:
        metrics: the metrics or their texts.

    Returns:
        The function, which LightGBM and XGBoost call with predictions and data.

    Raises:
        ValueError: without metrics, or as `rankbound.metric`.

    >>> rb.boosting_metric("nDCG@10", "AP")
    TopicMetrics(nDCG@10, AP)
    """
    return TopicMetrics(*metrics)


class TopicMetrics:
    """Metrics by topic of a LightGBM `Dataset` or an XGBoost `DMatrix`; a call returns their means."""

    def __init__(self, *metrics: str | Metric) -> None:
        if not metrics:
            raise ValueError("metrics: found none, expected at least one, such as nDCG@10")
        self.metrics = tuple(metric(one) for one in metrics)
        # XGBoost's scikit-learn classes ask for it before they call without groups, which is refused by name.
        self.__name__ = repr(self)

    def __call__(
        self, first: ArrayLike, second: Any, weight: ArrayLike | None = None, group: ArrayLike | None = None
    ) -> list[tuple[Any, ...]]:
        """Return each metric's name, its weighted mean over the topics and, for LightGBM, its direction.

        The arguments are `(preds, data)` or, for scikit-learn's interface, `(label, preds, weight, group)`.
        """
        if hasattr(second, "get_label"):
            predictions, judged = first, Judgements.of_data(second)
        else:
            predictions, judged = second, Judgements.of(first, group, weight)
        weights = judged.topic_weights
        means = [(name, _mean(values, weights)) for name, values in self.per_topic(predictions, judged).items()]
        if hasattr(second, "get_uint_info"):
            return list(means)
        return [(*mean, one.higher_is_better) for mean, one in zip(means, self.metrics, strict=True)]

    def per_topic(self, predictions: ArrayLike, judged: Judgements) -> Values:
        """Return the values of each metric by topic, `(n_topics,)`, NaN where undefined, by the metric's text."""
        values = evaluate(self.metrics, judged.scores(predictions), judged.relevance, judged.lists.offsets)
        return {name: value.numpy() for name, value in values.items()}

    def __repr__(self) -> str:
        return f"TopicMetrics({', '.join(map(str, self.metrics))})"


def lightgbm_folds(data: Any, folds: int = 5, *, seed: int = 0) -> list[tuple[Indices, Indices]]:
    """Return folds of whole topics for `lightgbm.cv(..., folds=...)`, which otherwise deals rows.

    The topics of each fold are those of `rankbound.cross_validate` with the same number of folds and seed.

    Args:
        data: a LightGBM `Dataset` with groups, or the number of rows of each topic, `(n_lists,)`.
        folds: the number of parts to which the topics are dealt at random.
        seed: the seed by which they are dealt.

    Returns:
        For each fold, the rows to train on and those to test on.

    Raises:
        ValueError: for fewer than two folds or more than topics, or data without groups.

    >>> [test.tolist() for train, test in rb.lightgbm_folds([2, 1, 3], 3)]
    [[0, 1], [2], [3, 4, 5]]
    """
    sizes = data.get_group() if hasattr(data, "get_group") else data
    if sizes is None:
        raise ValueError("group: found none, expected a Dataset with groups, which folds keep whole")
    offsets = np.append(0, np.cumsum(np.asarray(sizes, dtype=np.int64)))
    rows = np.arange(offsets[-1])
    tests = [rows_of_lists(offsets, topics)[0] for topics in dealt_lists(len(offsets) - 1, folds, seed)]
    return [(np.setdiff1d(rows, test, assume_unique=True), test) for test in tests]


def lightgbm_topics(record: Record, *metrics: str | Metric) -> "LightGBMTopics":
    """Return a callback of `lightgbm.train` or `LGBMRanker.fit` that records every topic's values in every round.

    `record["valid_0"]["nDCG@10"][-1]` then holds the last round's values on the first validation set, under LightGBM's
    name for it. The values of two models on the same topics are paired and suit a paired test.

    Args:
        record: filled by the callback: name of the data set, metric, rounds, with an array `(n_topics,)` for each.
        metrics: the metrics or their texts.

    Returns:
        The callback.

    Raises:
        ValueError: without metrics, or as `rankbound.metric`. The callback raises one in `lightgbm.cv`.

    >>> record = {}
    >>> callbacks = [rb.lightgbm_topics(record, "nDCG@10")]  # of lightgbm.train
    """
    return LightGBMTopics(record, TopicMetrics(*metrics))


class LightGBMTopics:
    """A callback that has the booster evaluate its validation sets with a function that records the predictions."""

    def __init__(self, record: Record, metrics: TopicMetrics) -> None:
        self.record, self.metrics = record, metrics
        self.order, self.before_iteration = CALLBACK_ORDER, False

    def __call__(self, env: Any) -> None:
        if hasattr(env.model, "boosters"):
            raise ValueError(
                "lightgbm_topics: found lightgbm.cv, whose folds have other topics each, expected lightgbm.train; with "
                "return_cvbooster=True, rankbound.evaluate computes the values of a fold's topics from the predictions "
                "of its booster"
            )
        if env.iteration == env.begin_iteration:
            self.record.clear()
        names = self._listen(env.model.eval_valid)
        if {result[0] for result in env.evaluation_result_list or ()} - set(names):
            self._listen(env.model.eval_train)  # the training data are among the validation sets

    def _listen(self, evaluate_all: Callable[..., list[Any]]) -> list[str]:
        """Record the metrics of the data sets that the booster evaluates, and return the data sets' names."""
        recorded: list[Values] = []

        def listen(predictions: ArrayLike, data: Any) -> tuple[str, float, bool]:
            recorded.append(self.metrics.per_topic(predictions, Judgements.of_data(data)))
            return LISTENER, 0.0, True

        names = [result[0] for result in evaluate_all(feval=listen) if result[1] == LISTENER]
        for name, values in zip(names, recorded, strict=True):
            _keep(self.record, name, values)
        return names


def xgboost_topics(record: Record, evals: Sequence[tuple[Any, str]], *metrics: str | Metric) -> Any:
    """Return a callback of `xgboost.train` that records every topic's values in every round, as `lightgbm_topics`.

    Args:
        record: filled by the callback, as by that of `lightgbm_topics`.
        evals: pairs of a `DMatrix` and its name, as for `xgboost.train`.
        metrics: the metrics or their texts.

    Returns:
        The callback.

    Raises:
        ValueError: as `lightgbm_topics`, or for data without groups.

    >>> record = {}
    >>> callbacks = [rb.xgboost_topics(record, [], "nDCG@10")]  # of xgboost.train
    """
    from xgboost.callback import TrainingCallback

    topics = TopicMetrics(*metrics)
    judged = [Judgements.of_data(data) for data, _ in evals]

    class XGBoostTopics(TrainingCallback):  # type: ignore[misc,unused-ignore]
        def before_training(self, model: Any) -> Any:
            record.clear()
            return model

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            for (data, name), known in zip(evals, judged, strict=True):
                _keep(record, name, topics.per_topic(model.predict(data, output_margin=True), known))
            return False

    return XGBoostTopics()


def _mean(values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64] | None) -> float:
    """Return the weighted mean over the topics where the metric is defined; NaN if there are none of a weight."""
    defined = ~np.isnan(values)
    if weights is None:
        return float(values[defined].mean()) if defined.any() else float("nan")
    total = weights[defined].sum()
    return float(np.dot(values[defined], weights[defined]) / total) if total > 0 else float("nan")


def _keep(record: Record, name: str, values: Values) -> None:
    for text, value in values.items():
        record.setdefault(name, {}).setdefault(text, []).append(value)
