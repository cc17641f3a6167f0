"""Evaluation of boosted models topic by topic: metrics for early stopping, and callbacks that keep every topic's value.

Ties, which trees make many of, count by their mean over all orders. Topics on which a metric is undefined are left out
of its mean and are NaN in the record, where they can be counted.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound.boosting.judgements import Judgements
from rankbound.lists import ArrayLike
from rankbound.metrics import Metric, evaluate, metric

Values = dict[str, npt.NDArray[np.float64]]
"""Metric's text to its values of the topics `(n_topics,)`, NaN where it is undefined."""
Record = dict[str, dict[str, list[npt.NDArray[np.float64]]]]
"""Data set's name to metric's text to one such array a round."""

# The name of the metric that listens in.
LISTENER = "rankbound.topics"
# Before LightGBM's early stopping (30), which ends a round's callbacks.
CALLBACK_ORDER = 25


def boosting_metric(*metrics: str | Metric) -> "TopicMetrics":
    """Means of metrics over topics, as LightGBM's `feval`, its `LGBMRanker`'s `eval_metric`, or XGBoost's
    `custom_metric`: `rb.boosting_metric("nDCG@10", "AP")`.

    LightGBM stops early by whether higher values are better, as told; `xgboost.callback.EarlyStopping` has to be told
    by `maximize=True`.

    Raises:
        ValueError: for none, or as `rankbound.metric`.
    """
    return TopicMetrics(*metrics)


class TopicMetrics:
    """Metrics of the topics of a LightGBM `Dataset` or an XGBoost `DMatrix`; a call gives their means."""

    def __init__(self, *metrics: str | Metric) -> None:
        if not metrics:
            raise ValueError("metrics: found none, expected at least one, such as nDCG@10")
        self.metrics = tuple(metric(one) for one in metrics)

    def __call__(
        self, first: ArrayLike, second: Any, weight: ArrayLike | None = None, group: ArrayLike | None = None
    ) -> list[tuple[Any, ...]]:
        """Name, mean over the topics that have a value, and (LightGBM) whether higher is better, of each metric.

        From `(preds, data)` or, in scikit-learn's manner, `(label, preds, weight, group)`. Weights don't count.
        """
        if hasattr(second, "get_label"):
            values = self.per_topic(first, Judgements.of_data(second))
        else:
            values = self.per_topic(second, Judgements.of(first, group))
        means = [(name, _mean(value)) for name, value in values.items()]
        if hasattr(second, "get_uint_info"):
            return list(means)
        return [(*mean, one.higher_is_better) for mean, one in zip(means, self.metrics, strict=True)]

    def per_topic(self, predictions: ArrayLike, judged: Judgements) -> Values:
        """Text of the metric to its values `(n_topics,)`, NaN where undefined."""
        values = evaluate(self.metrics, judged.scores(predictions), judged.relevance, judged.lists.offsets)
        return {name: value.numpy() for name, value in values.items()}

    def __repr__(self) -> str:
        return f"TopicMetrics({', '.join(map(str, self.metrics))})"


def lightgbm_topics(record: Record, *metrics: str | Metric) -> "LightGBMTopics":
    """A callback of `lightgbm.train` or `LGBMRanker.fit` that fills `record` with every topic's value in every round.

    `record["valid_0"]["nDCG@10"][-1]` then has the last round's values on the first validation set; the names are
    LightGBM's. Two models' values of the same topics are pairs, for a paired test.
    """
    return LightGBMTopics(record, TopicMetrics(*metrics))


class LightGBMTopics:
    """Asks the booster to evaluate its validation sets, and listens to the function that it calls for it."""

    def __init__(self, record: Record, metrics: TopicMetrics) -> None:
        self.record, self.metrics = record, metrics
        self.order, self.before_iteration = CALLBACK_ORDER, False

    def __call__(self, env: Any) -> None:
        if env.iteration == env.begin_iteration:
            self.record.clear()
        names = self._listen(env.model.eval_valid)
        if {result[0] for result in env.evaluation_result_list or ()} - set(names):
            self._listen(env.model.eval_train)  # the training data are among the validation sets

    def _listen(self, evaluate_all: Callable[..., list[Any]]) -> list[str]:
        """Keep what the booster's own evaluation shows to a metric; the names of the data sets."""
        heard: list[Values] = []

        def listen(predictions: ArrayLike, data: Any) -> tuple[str, float, bool]:
            heard.append(self.metrics.per_topic(predictions, Judgements.of_data(data)))
            return LISTENER, 0.0, True

        names = [result[0] for result in evaluate_all(feval=listen) if result[1] == LISTENER]
        for name, values in zip(names, heard, strict=True):
            _keep(self.record, name, values)
        return names


def xgboost_topics(record: Record, evals: Sequence[tuple[Any, str]], *metrics: str | Metric) -> Any:
    """A callback of `xgboost.train` that fills `record` with every topic's value in every round, as `lightgbm_topics`.

    `evals` are pairs of a `DMatrix` and its name, as for `xgboost.train`.
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


def _mean(values: npt.NDArray[np.float64]) -> float:
    """Over the topics that have a value; NaN if none has."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _keep(record: Record, name: str, values: Values) -> None:
    for text, value in values.items():
        record.setdefault(name, {}).setdefault(text, []).append(value)
