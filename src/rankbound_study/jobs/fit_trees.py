"""Gradient-boosted trees and random forests, by LightGBM, over features of any kind, including pixels.

They grow round by round, with measurements on the way; the validation part selects their number. One thread and fixed
seeds make them reproducible.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.boosting import boosting_objective
from rankbound.losses import RankingLoss
from rankbound.losses.lambda_loss import LambdaRankLoss
from rankbound.losses.pointwise import LogisticLoss, PointwiseLoss, SquaredLoss
from rankbound.texts import derive_seed
from rankbound.training.trainer import Epoch
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.training import BoostedTreeKeys, RandomForestKeys
from rankbound_study.jobs.examples import FoldTraining, TableRows, pooled_rows
from rankbound_study.jobs.fitted import Fitted, StepRecord

FOREST = "random-forest"
_OF_ALL: Mapping[str, tuple[str, Any]] = {
    "leaves": ("num_leaves", 31),
    "min_rows": ("min_data_in_leaf", 20),
    "feature_share": ("feature_fraction", 1.0),
    "bins": ("max_bin", 255),
}
OPTIONS: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "boosted-trees": {
        **_OF_ALL,
        "learning_rate": ("learning_rate", 0.1),
        # Divides the gradients of LightGBM's own objective of lists by a factor of their query, so that each has about
        # the same influence.
        "lambdarank_norm": ("lambdarank_norm", True),
    },
    # LightGBM's forest draws rows without replacement: 63.2% is the share of distinct rows of a bootstrap.
    FOREST: {**_OF_ALL, "row_share": ("bagging_fraction", 0.632)},
}
"""The options of each kind of trees, with LightGBM's names and their defaults."""

OBJECTIVES: dict[type[RankingLoss], str] = {
    SquaredLoss: "regression",
    LogisticLoss: "cross_entropy",
    LambdaRankLoss: "lambdarank",
}
"""LightGBM's own objectives; any other ranking loss is boosted by its gradient and Hessian."""

_VALUES = 4_000_000  # number of values that are passed at once, in double precision

_BIN_SAMPLE = 60_000_000
"""Number of values that determine the bins, in double precision: for pictures, 2,000 rows of 30,000 pixels."""

_FIXED: Mapping[str, Any] = {
    "metric": "none",
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "feature_pre_filter": False,
    # Megabytes for those of leaves that may be split: each has 16 bytes per bin and feature.
    "histogram_pool_size": 512,
    "verbosity": -1,
}

_WIDE = 4096  # number of features from which LightGBM's search for mutually exclusive features takes far too long
_LARGEST_MAPPED = 30  # the largest label whose gain LightGBM knows by itself
Floats = npt.NDArray[np.float64]


def fit_trees(
    job: TrainingJob, training: FoldTraining, judged: RankingLoss, on_epoch: Callable[[Epoch], None]
) -> Fitted:
    """Grow trees that minimise a loss on the examples, measuring after every `every` (a step's number counts trees).

    A loss of single items reads every item once, with its mean relevance label; a ranking loss reads the lists.
    """
    assert isinstance(job.model, BoostedTreeKeys | RandomForestKeys)
    rounds, examples = job.model.rounds, training.lists
    relevance, lists = examples.relevance.cpu(), examples.lists
    if isinstance(judged, PointwiseLoss):
        rows = pooled_rows(examples, judged.rel if isinstance(judged, LogisticLoss) else None)
    else:
        rows = TableRows(examples.items.cpu(), relevance, None, lists)
    record = StepRecord(job, training, on_epoch)
    watched, place = torch.unique(record.measured.items.cpu(), return_inverse=True)
    seed = derive_seed("trees", job.study, job.dataset, training.seed)
    parameters = growth(job.model.name, job.model.given(), seed)
    trees = TreeEnsemble(parameters, judged, training.features.cpu(), rows, watched)
    spread, informative = rows.spread(examples), max(int(judged.informative(relevance, lists).sum()), 1)
    for number in range(1, rounds + 1):
        trees.grow()
        if number % job.model.every == 0 or number == rounds:
            losses = judged.of_lists(trees.training_scores().index_select(0, spread), relevance, lists)
            # The mean over informative lists, as the trainer's.
            record.add(number, float(losses.sum() / informative), trees.watched_scores().index_select(0, place))

    def model(number: int) -> tuple[Tensor, Mapping[str, Tensor]]:
        tested, at = torch.unique(training.parts.test.items.cpu(), return_inverse=True)
        return trees.scores(tested, number).index_select(0, at), trees.tensors(number)

    return record.fitted(model)


def growth(kind: str, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return LightGBM's parameters for a `kind` of `OPTIONS`, with other values than the defaults in `options`."""
    chosen = {name: options.get(option, default) for option, (name, default) in OPTIONS[kind].items()}
    sampled = {"boosting": "rf", "bagging_freq": 1} if kind == FOREST else {}
    return {**chosen, **sampled, **_FIXED, "seed": seed % 2**31}


class TreeEnsemble:
    """Trees that grow one by one.

    Args:
        parameters: LightGBM's, by `growth`.
        loss: of shares, 0 .. 1, if it is `logistic`. A forest requires `squared`: its leaves are means.
        features: `(n_items, d)`, of all items.
        rows: the training items, with labels, and weights or, for ranking losses, their lists.
        watched: items whose scores `watched_scores` returns.
    """

    def __init__(
        self, parameters: Mapping[str, Any], loss: RankingLoss, features: Tensor, rows: TableRows, watched: Tensor
    ) -> None:
        import lightgbm

        is_forest = parameters.get("boosting") == "rf"
        if is_forest and not isinstance(loss, SquaredLoss):
            raise ValueError(
                f"loss: found {loss.text} for a forest, expected squared: its scores are means over its trees"
            )
        objective, width = OBJECTIVES.get(type(loss)), features.shape[1]
        parameters = {**parameters, "objective": objective or "none"}
        largest = int(rows.labels.max()) if objective == "lambdarank" and len(rows.labels) else 0
        if largest > _LARGEST_MAPPED:
            parameters["label_gain"] = [2.0**grade - 1 for grade in range(largest + 1)]
        parameters |= {"bin_construct_sample_cnt": max(_BIN_SAMPLE // width, 1), "enable_bundle": width < _WIDE}
        self._features = features
        self._fobj = None if objective else boosting_objective(loss)
        self._logistic = isinstance(loss, LogisticLoss)
        # For a forest, LightGBM's raw scores are sums over the trees.
        self._raw = not is_forest
        data = lightgbm.Dataset(
            _sequence(features, rows.items),
            rows.labels.numpy(),
            weight=None if rows.weights is None else rows.weights.numpy(),
            group=None if rows.lists is None else rows.lists.sizes.tolist(),
            params=parameters,
            free_raw_data=True,
        )
        self._booster = lightgbm.Booster(parameters, data)
        unlabelled = data.create_valid(_sequence(features, watched), np.zeros(len(watched)), params=parameters)
        self._booster.add_valid(unlabelled, "watched")

    def grow(self) -> None:
        """Grow one more tree."""
        self._booster.update(fobj=self._fobj)

    def training_scores(self) -> Tensor:
        """Return the scores of the training rows."""
        return self._heard(self._booster.eval_train)

    def watched_scores(self) -> Tensor:
        """Return the scores of the watched items."""
        return self._heard(self._booster.eval_valid)

    def scores(self, items: Tensor, rounds: int) -> Tensor:
        """Return the scores of items by the first `rounds` trees."""
        values = [
            self._booster.predict(
                _rows(self._features, chunk), num_iteration=rounds, raw_score=self._raw, num_threads=1
            )
            for chunk in torch.split(items, _batch(self._features))
        ]
        return torch.from_numpy(np.concatenate(values)) if values else torch.empty(0, dtype=torch.float64)

    def tensors(self, rounds: int) -> dict[str, Tensor]:
        """Return the first `rounds` trees as LightGBM's text, in bytes, readable by `Booster(model_str=...)`."""
        text = self._booster.model_to_string(num_iteration=rounds).encode()
        return {"lightgbm": torch.frombuffer(bytearray(text), dtype=torch.uint8)}

    def _heard(self, evaluate: Callable[..., Any]) -> Tensor:
        """Return the scores that the booster passes to a metric; probabilities for a logistic loss."""
        heard: list[Floats] = []

        def listen(predictions: Floats, data: Any) -> tuple[str, float, bool]:
            heard.append(np.array(predictions, dtype=np.float64))
            return "heard", 0.0, True

        evaluate(feval=listen)
        scores = torch.from_numpy(heard[0])
        return torch.logit(scores) if self._logistic else scores


def _sequence(features: Tensor, items: Tensor) -> Any:
    """Return the rows `items` of `features` for LightGBM, which reads a few at a time: no second copy of all."""
    import lightgbm

    class Rows(lightgbm.Sequence):  # type: ignore[misc,unused-ignore]
        batch_size = _batch(features)

        def __getitem__(self, index: Any) -> Floats:
            if isinstance(index, int | np.integer):
                row: Floats = _rows(features, items[int(index) : int(index) + 1])[0]
                return row
            return _rows(features, items[index if isinstance(index, slice) else torch.as_tensor(index)])

        def __len__(self) -> int:
            return len(items)

    return Rows()


def _batch(features: Tensor) -> int:
    return max(_VALUES // features.shape[1], 1)


def _rows(features: Tensor, items: Tensor) -> Floats:
    rows: Floats = features.index_select(0, items).to(torch.float64).numpy()
    return rows
