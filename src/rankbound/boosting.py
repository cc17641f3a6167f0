r"""Tree boosting with any ranking loss: objectives, metrics and callbacks for LightGBM and XGBoost.

An objective is a loss's gradient, and its curvature, or a constant, as the Hessian. A booster grows trees by Newton
steps: a leaf's value is minus the sum of its rows' gradients over the sum of their Hessians. The Hessian is bounded
from below,

$$h_i = \max\!\left(\frac{\partial^2 L}{\partial s_i^2},\ \frac{|g_i|}{\delta}\right),$$

which limits every leaf's value to $\delta$, the step. A few temperatures away sigmoids are flat, and the gradient is no
longer informative. Losses of smooth ranks aren't convex: near the start, where all scores tie, hardly any row has a
positive curvature, and trees with it rank no better than with a Hessian that is the same for all rows.

Metrics are averaged over the orders of tied items, which are frequent in the predictions of trees. Topics on which a
metric is undefined are skipped by its mean and are NaN in the record.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.bounds.base import Bound
from rankbound.bounds.extremes import Facts
from rankbound.io.ragged import Indices, dealt_lists, rows_of_lists
from rankbound.lists import ArrayLike, Lists, as_floating, as_tensor, require_finite, require_grades, weights_of
from rankbound.losses import RankingLoss, loss
from rankbound.metrics import Metric, evaluate, metric
from rankbound.texts import require, require_one_of

HESSIANS = ("auto", "exact", "constant")

# The default step, in temperatures, at which a sigmoid is 0.95.
STEP = 3.0
# Minimum Hessian as a share of the mean gradient, so that leaves of rows without a gradient have a positive sum.
LEAST_HESSIAN = 1e-3
# Gradients of losses without closed curvature, whose values are of the order of 1, have rounding errors of this size:
# where all are smaller, they do not become steps.
ROUNDING = 1e-15

Floats = npt.NDArray[np.floating[Any]]
Values = dict[str, npt.NDArray[np.float64]]
"""Maps a metric's text to its values by topic `(n_topics,)`, NaN where undefined."""
Record = dict[str, dict[str, list[npt.NDArray[np.float64]]]]
"""Maps a data set's name and a metric's text to one array of values by topic per round."""

# The name of the pseudo-metric that records the values.
LISTENER = "rankbound.topics"
# Below the order of LightGBM's early stopping (30), which ends a round's callbacks.
CALLBACK_ORDER = 25


def boosting_objective(
    of: str | Metric | RankingLoss,
    bound: str | Bound = "none",
    *,
    temperature: float = 1.0,
    hessian: str = "auto",
    step: float | None = None,
) -> "RankingObjective":
    """Return an objective for LightGBM or XGBoost that minimises the sum of a ranking loss over the topics.

    It works with `lightgbm.train({"objective": rb.boosting_objective("nDCG@10", "min-max")}, data)`,
    `lightgbm.LGBMRanker(objective=...)` and `xgboost.train(parameters, data, obj=...)`. The data need groups (or, for
    XGBoost, query ids).

    Args:
        of: a loss, or the argument of `rankbound.loss`: `nDCG@10`, `AP`, `RankNet`, `LambdaRank(metric=nDCG@10)`.
        bound: the bound of a metric's loss, as in `rankbound.loss`.
        temperature: the temperature of a metric's loss, as in `rankbound.loss`.
        hessian: `exact` is the loss's curvature, at least the absolute gradient over `step`; `constant` is the same
            for all rows, the mean absolute gradient over `step`, which amounts to gradient descent; `auto` is `exact`
            for losses with a closed form of the curvature, and `constant` for others, those of smooth ranks among them.
        step: the largest value of a leaf before the learning rate (`exact`), or that of a leaf with the mean absolute
            gradient (`constant`), in units of the scores; by default 3 temperatures of the loss, or 3.

    Returns:
        The objective, which LightGBM and XGBoost call with predictions and data.

    Raises:
        ValueError: as `rankbound.loss`, for an unknown `hessian`, `exact` for a loss without a closed form, or a `step`
            that isn't above 0.

    >>> parameters = {"objective": rb.boosting_objective("nDCG@10", "min-max")}  # of lightgbm.train
    """
    return RankingObjective(loss(of, bound, temperature), hessian, step)


class RankingObjective:
    """The gradient and Hessian of a ranking loss, called by LightGBM and XGBoost.

    Both are scaled to a mean Hessian of 1. Trees therefore don't depend on the unit of the loss, and a minimum sum of
    Hessians per leaf (`min_sum_hessian_in_leaf`, `min_child_weight`) or a ridge penalty (`lambda_l2`, `reg_lambda`) is
    a number of rows. Rows of uninformative topics have gradient and Hessian 0. Weights multiply both; weights that are
    equal within a topic weight the topic.
    """

    def __init__(self, loss: RankingLoss, hessian: str = "auto", step: float | None = None) -> None:
        step = STEP * float(getattr(loss, "temperature", 1.0)) if step is None else step
        require_one_of("hessian", hessian, HESSIANS)
        require("step", step, step > 0, "a number above 0")
        # A loss has a closed form of its curvature or none, also of a list of one item.
        one, limits = torch.ones(1, dtype=torch.float64, device="cpu"), torch.tensor([0, 1], device="cpu")
        self._by_curvature = hessian != "constant" and loss.curvature(one, one, Lists(limits)) is not None
        if hessian == "exact" and not self._by_curvature:
            raise ValueError(
                f"hessian: found exact for {loss.full_text}, whose curvature has no closed form as that of pointwise, "
                "pairwise and softmax losses, ListMLE, LambdaRank, WARP and their sums has; expected auto or constant"
            )
        self.loss, self.hessian, self.step = loss, hessian, step
        # The judgements of the tree before, with the loss's facts about them.
        self._known: tuple[Judgements, Facts | None] | None = None

    def __call__(
        self, first: ArrayLike, second: Any, weight: ArrayLike | None = None, group: ArrayLike | None = None
    ) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian, bounded from below, over the mean Hessian: `(n_items,)` each.

        The arguments are `(preds, data)` or, for scikit-learn's interface, `(label, preds, weight, group)`. Raises
        `ValueError` for invalid ones, or if no topic is informative.
        """
        predictions, judged = Judgements.passed(first, second, weight, group)
        # The unit magnifies rounding errors where all lists are far from any change: XGBoost's scores are single.
        scores = judged.scores(predictions).to(torch.float64)
        known = self._known
        if known is None or not (
            known[0].relevance.dtype == judged.relevance.dtype
            and torch.equal(known[0].relevance, judged.relevance)
            and torch.equal(known[0].lists.offsets, judged.lists.offsets)
        ):
            # The caller may write to the labels later, and another thread may keep other judgements meanwhile.
            own = replace(judged, relevance=judged.relevance.clone())
            known = self._known = own, self.loss.facts(own.relevance, own.lists)
        relevance, lists, facts = known[0].relevance, known[0].lists, known[1]
        informative = self.loss.informative_by(facts, relevance, lists)
        if not bool(informative.any()):
            raise ValueError(f"label: found no informative topic for {self.loss.text} among {len(lists)}")
        rows = lists.spread(informative)
        gradient, curvature = self.loss.derivatives(scores, relevance, lists, facts, second=self._by_curvature)
        size = gradient.abs()
        tiny = torch.finfo(scores.dtype).tiny
        mean_size = size[rows].mean().clamp(min=tiny)
        if curvature is None:
            hessian = torch.full_like(gradient, max(float(mean_size), ROUNDING) / self.step)
        else:
            hessian = torch.maximum(curvature, size.clamp(min=LEAST_HESSIAN * mean_size) / self.step)
        hessian = torch.where(rows, hessian, 0.0)
        if judged.weight is not None:
            of_rows = judged.weight.to(gradient)
            gradient, hessian = gradient * of_rows, hessian * of_rows
        unit = hessian[rows].mean().clamp(min=tiny)
        return (gradient / unit).numpy(), (hessian / unit).numpy()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": None}

    def __repr__(self) -> str:
        return f"RankingObjective({self.loss}, hessian={self.hessian}, step={self.step:g})"


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
        require("metrics", "none", len(metrics) > 0, "at least one, such as nDCG@10")
        self.metrics = tuple(dict.fromkeys(map(metric, metrics)))
        # XGBoost's scikit-learn classes ask for it before they call without groups, which is refused by name.
        self.__name__ = repr(self)

    def __call__(
        self, first: ArrayLike, second: Any, weight: ArrayLike | None = None, group: ArrayLike | None = None
    ) -> list[tuple[Any, ...]]:
        """Return each metric's name, its weighted mean over the topics and, for LightGBM, its direction."""
        predictions, judged = Judgements.passed(first, second, weight, group)
        weights = np.ones(len(judged.lists))
        if judged.weight is not None:
            # The mean weight of each topic's rows, 0 for topics without rows.
            total = judged.lists.sum(judged.weight.to(torch.float64))
            weights = (total / judged.lists.sizes.clamp(min=1)).numpy()
        means: list[tuple[Any, ...]] = []
        for one, (name, values) in zip(self.metrics, self.per_topic(predictions, judged).items(), strict=True):
            used = ~np.isnan(values) & (weights > 0)
            mean = float(np.average(values[used], weights=weights[used])) if used.any() else float("nan")
            means.append((name, mean) if hasattr(second, "get_uint_info") else (name, mean, one.higher_is_better))
        return means

    def per_topic(self, predictions: ArrayLike, judged: "Judgements") -> Values:
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


def lightgbm_topics(record: Record, *metrics: str | Metric) -> Callable[[Any], None]:
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
    topics = TopicMetrics(*metrics)

    def listen(evaluate_all: Callable[..., list[Any]]) -> list[str]:
        """Record the metrics of the data sets that the booster evaluates, and return the data sets' names."""
        recorded: list[Values] = []

        def record_topics(predictions: ArrayLike, data: Any) -> tuple[str, float, bool]:
            recorded.append(topics.per_topic(predictions, Judgements.of_data(data)))
            return LISTENER, 0.0, True

        names = [result[0] for result in evaluate_all(feval=record_topics) if result[1] == LISTENER]
        for name, values in zip(names, recorded, strict=True):
            _keep(record, name, values)
        return names

    def callback(env: Any) -> None:
        if hasattr(env.model, "boosters"):
            raise ValueError(
                "lightgbm_topics: found lightgbm.cv, whose folds have other topics each, expected lightgbm.train; with "
                "return_cvbooster=True, rankbound.evaluate computes the values of a fold's topics from the predictions "
                "of its booster"
            )
        if env.iteration == env.begin_iteration:
            record.clear()
        names = listen(env.model.eval_valid)
        if {result[0] for result in env.evaluation_result_list or ()} - set(names):
            listen(env.model.eval_train)  # the training data are among the validation sets

    callback.order = CALLBACK_ORDER  # type: ignore[attr-defined]
    return callback


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


def _keep(record: Record, name: str, values: Values) -> None:
    for text, value in values.items():
        record.setdefault(name, {}).setdefault(text, []).append(value)


@dataclass(frozen=True)
class Judgements:
    """The judgements of the rows that a model scores: relevance and optional weights `(n_items,)`, and the lists."""

    relevance: Tensor
    lists: Lists
    weight: Tensor | None = None

    @classmethod
    def of(cls, labels: ArrayLike, sizes: ArrayLike | None, weights: ArrayLike | None = None) -> "Judgements":
        """Build judgements from labels `(n_items,)`, the sizes of groups `(n_lists,)`, and weights of rows or groups.

        Raises:
            ValueError: for groups that are missing or don't add up to the number of rows, labels below 0, a wrong
                number of weights, or weights that are negative, NaN or infinite.
        """
        grades = as_tensor(labels, "label")
        # Both libraries store labels as floats.
        whole = grades.to(torch.int64)
        grades = whole if bool((whole == grades).all()) else grades.to(torch.float64)
        require_grades(grades)
        if sizes is None or len(sizes) == 0:
            raise ValueError(
                "group: found none, expected the number of rows of each topic, in the rows' order; of XGBoost's "
                "interfaces, only xgboost.train and xgboost.cv pass it"
            )
        counts = as_tensor(sizes, "group").to(torch.int64)
        if int(counts.min()) < 0 or int(counts.sum()) != len(grades):
            raise ValueError(f"group: found sizes that add up to {int(counts.sum())}, expected {len(grades)} rows")
        lists = Lists.of_sizes(counts)
        if weights is None or len(weights) == 0:
            return cls(grades, lists)
        values = as_tensor(weights, "weight")
        values = weights_of(values, "weight", len(values), as_floating(values))
        if len(values) not in (lists.n_items, len(lists)):
            raise ValueError(
                f"weight: found {len(values)} values, expected {lists.n_items}, one a row, or {len(lists)}, one a group"
            )
        # XGBoost has one weight per group.
        return cls(grades, lists, values if len(values) == lists.n_items else lists.spread(values))

    @classmethod
    def of_data(cls, data: Any) -> "Judgements":
        """Build judgements from a LightGBM `Dataset` or an XGBoost `DMatrix`; raises as `of`.

        Warns of a LightGBM `Dataset` that holds only some of the rows of a topic of the one that it was taken from.
        """
        if hasattr(data, "get_uint_info"):
            sizes: Any = np.diff(data.get_uint_info("group_ptr").astype(np.int64))
            return cls.of(data.get_label(), sizes, data.get_weight())
        sizes, used = data.get_group(), getattr(data, "used_indices", None)
        whole = None if used is None or sizes is None else data.reference.get_group()
        if used is not None and whole is not None:
            present = np.asarray(sizes)[np.asarray(sizes) > 0]
            # Subsets keep the order of the rows, so that the first row of a topic tells which one it is.
            firsts = [used[row] for row in np.cumsum(present) - present]
            owners = np.searchsorted(np.cumsum(whole), firsts, side="right")
            if cut := int((present < np.asarray(whole)[owners]).sum()):
                warnings.warn(
                    f"group: found {cut} of {len(present)} topics with only some of their rows, in a subset of a "
                    f"Dataset of {len(whole)} topics; gradients and metrics are those of shortened lists, and if this "
                    "is a fold, its topics are in other folds, too. lightgbm.cv deals rows, not topics, for an "
                    "objective that is a function: pass folds=rankbound.lightgbm_folds(data)",
                    stacklevel=2,
                )
        return cls.of(data.get_label(), sizes, data.get_weight())

    @classmethod
    def passed(
        cls, first: ArrayLike, second: Any, weight: ArrayLike | None, group: ArrayLike | None
    ) -> tuple[ArrayLike, "Judgements"]:
        """Return predictions and judgements of `(preds, data)`, or scikit-learn's `(label, preds, weight, group)`."""
        if hasattr(second, "get_label"):
            return first, cls.of_data(second)
        return second, cls.of(first, group, weight)

    def scores(self, predictions: ArrayLike) -> Tensor:
        """Return the model's raw scores as a tensor; raise `ValueError` unless they are finite and one per row."""
        scores = as_tensor(predictions, "preds", len(self.relevance))
        require_finite(scores)
        return scores
