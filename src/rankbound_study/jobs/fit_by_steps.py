r"""Models that are fitted step by step, without the library's trainer: trees, penalised regressions, and rankers.

*Trees* are gradient-boosted ones and random forests, by LightGBM, over features of any kind, including pixels. They
grow round by round, with measurements on the way; the validation part selects their number. One thread and fixed seeds
make them reproducible.

*Penalised regressions* are linear, with a penalty on the weights, along a path of penalties, one of which the
validation part selects:

$$\min_{w, b} \frac{1}{2n} \sum_i (y_i - w \cdot x_i - b)^2 + \lambda\, \Omega(w)$$

with $\Omega(w) = \sum |w_j|$ for the lasso (Tibshirani 1996) and $\frac12 \sum w_j^2$ for ridge regression.

*Rankers* are those of the library that need no gradients of a loss: Ranking SVM, AdaRank, coordinate ascent, ...
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rankbound.boosting import boosting_objective
from rankbound.errors import ConfigError
from rankbound.kernels.formulas import Floats
from rankbound.lists import Lists
from rankbound.losses import RankingLoss
from rankbound.losses.lambda_loss import LambdaRankLoss
from rankbound.losses.pointwise import LogisticLoss, PointwiseLoss, SquaredLoss
from rankbound.rankers import Model, Selection
from rankbound.texts import derive_seed
from rankbound.training.trainer import LAST, Epoch, Measuring, Part, predict
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.training import (
    OF_METRICS,
    BoostedTreeKeys,
    PenalisedKeys,
    RandomForestKeys,
    RankerKeys,
    TreeKeys,
)
from rankbound_study.jobs.models import CHUNK, Chosen, Fitted, FoldTraining, Linear, input_scale, score_distinct
from rankbound_study.jobs.parts import epoch_metrics, judge_of
from rankbound_study.vocabulary import SELECTIONS

FOREST = "random-forest"
OPTIONS: Mapping[str, str] = {
    "leaves": "num_leaves",
    "min_rows": "min_data_in_leaf",
    "feature_share": "feature_fraction",
    "bins": "max_bin",
    "learning_rate": "learning_rate",
    # Divides the gradients of LightGBM's own objective of lists by a factor of their query, so that each has about the
    # same influence.
    "lambdarank_norm": "lambdarank_norm",
    "row_share": "bagging_fraction",
}
"""LightGBM's names of the options of trees, whose defaults are its own."""

# LightGBM's forest draws rows without replacement: 63.2% is the share of distinct rows of a bootstrap.
_FOREST: Mapping[str, Any] = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.632}

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
_TOLERANCE = 1e-3  # tolerance of the lasso's duality gap, as a share of the labels' sum of squares


Restored = Callable[[int], tuple[Tensor, Mapping[str, Tensor]]]
"""From the number of a step to the scores of the test part's items by its model, and the model's numbers by name."""


def fit_by_steps(job: TrainingJob, training: FoldTraining, judged: RankingLoss) -> Fitted:
    """Fit the job's model on the training's examples; every measured part selects an epoch, and its model."""
    steps = _Steps(job, training)
    if isinstance(job.model, TreeKeys):
        restored = _grow_trees(job, training, judged, steps)
    elif isinstance(job.model, PenalisedKeys):
        restored = _follow_path(job, training, steps)
    else:
        restored = _fit_ranker(job, training, judged, steps)
    numbers = {name: steps.best(name) for name in training.parts.measured} | {LAST: steps.epochs[-1].number}
    models = {number: restored(number) for number in set(numbers.values())}
    return Fitted(steps.epochs, {name: Chosen(one, *models[one]) for name, one in numbers.items()})


def _grow_trees(job: TrainingJob, training: FoldTraining, judged: RankingLoss, steps: "_Steps") -> Restored:
    """Grow trees that minimise a loss on the examples, measuring after every `every` (a step's number counts trees).

    A loss of single items reads every item once, with its mean relevance label; a ranking loss reads the lists.
    """
    assert isinstance(job.model, BoostedTreeKeys | RandomForestKeys)
    rounds, examples = job.model.rounds, training.lists
    relevance, lists = examples.relevance.cpu(), examples.lists
    if isinstance(judged, PointwiseLoss):
        rows = pooled_rows(examples, judged.rel if isinstance(judged, LogisticLoss) else None)
    else:
        rows = TableRows(examples.items.cpu(), relevance, None, lists, torch.arange(len(relevance)))
    watched, place = torch.unique(steps.measured.items.cpu(), return_inverse=True)
    seed = derive_seed("trees", job.study, job.dataset, training.seed)
    parameters = growth(job.model.name, job.model.given(), seed)
    trees = TreeEnsemble(parameters, judged, training.features.cpu(), rows, watched)
    informative = max(int(judged.informative(relevance, lists).sum()), 1)
    for number in range(1, rounds + 1):
        trees.grow()
        if number % job.model.every == 0 or number == rounds:
            losses = judged.of_lists(trees.training_scores().index_select(0, rows.spread), relevance, lists)
            # The mean over informative lists, as the trainer's.
            steps.add(number, float(losses.sum() / informative), trees.watched_scores().index_select(0, place))

    def restored(number: int) -> tuple[Tensor, Mapping[str, Tensor]]:
        tested, at = torch.unique(training.parts.test.items.cpu(), return_inverse=True)
        return trees.scores(tested, number).index_select(0, at), trees.tensors(number)

    return restored


def growth(kind: str, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return LightGBM's parameters for a kind of trees, with other values than the defaults in `options`."""
    chosen = {OPTIONS[option]: value for option, value in options.items() if option in OPTIONS}
    return {**(_FOREST if kind == FOREST else {}), **chosen, **_FIXED, "seed": seed % 2**31}


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
        self, parameters: Mapping[str, Any], loss: RankingLoss, features: Tensor, rows: "TableRows", watched: Tensor
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
        values = []
        for chunk in torch.split(items, _batch(self._features)):
            rows = self._features[chunk].to(torch.float64).numpy()
            values.append(self._booster.predict(rows, num_iteration=rounds, raw_score=self._raw, num_threads=1))
        return torch.from_numpy(np.concatenate(values))

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
            rows: Floats = features[items[index]].to(torch.float64).numpy()
            return rows

        def __len__(self) -> int:
            return len(items)

    return Rows()


def _batch(features: Tensor) -> int:
    return max(_VALUES // features.shape[1], 1)


class TableRows(NamedTuple):
    """Training items as rows of a table, on the CPU: a label each, and a weight, or the lists that they belong to.

    `spread` is the row of each item of the part from which they were made.
    """

    items: Tensor
    labels: Tensor
    weights: Tensor | None
    lists: Lists | None
    spread: Tensor


def pooled_rows(part: Part, least: float | None) -> TableRows:
    """Return the distinct items of `part`, ascending, with mean relevance label and, as weight, number of occurrences.

    With `least`, labels of at least that count 1 and others 0, so the mean is the share of an item's occurrences that
    are relevant: a face that is the older one of two pairs and the younger one of a third has 2/3. A logistic or
    squared loss of these shares, weighted by the counts, differs from that of all occurrences by a constant.
    """
    items, place, counts = torch.unique(part.items.cpu(), return_inverse=True, return_counts=True)
    grades = part.relevance.cpu().to(torch.float64)
    if least is not None:
        grades = (grades >= least).to(torch.float64)
    total = torch.zeros(len(items), dtype=torch.float64).index_add_(0, place, grades)
    return TableRows(items, total / counts, counts.to(torch.float64), None, place)


def _follow_path(job: TrainingJob, training: FoldTraining, steps: "_Steps") -> Restored:
    """Fit the examples' values for every penalty of the job's model; a step's number is the penalty's position."""
    assert isinstance(job.model, PenalisedKeys)
    if training.unit is None:
        raise ConfigError(f"model {job.model.name}: it learns values, expected target: value")
    features, examples = training.features, training.lists
    scale = input_scale(job.settings.scale or "standard", features, examples.items, training.data.channels)
    linear = Linear(features.shape[1])
    model, scorer = nn.Sequential(OrderedDict(scale=scale, network=linear)), score_distinct(features)
    # Stored by feature, as coordinate descent reads them.
    rows = torch.empty(features.shape[1], len(examples.items)).T
    for place in torch.split(torch.arange(len(rows)), CHUNK):
        rows[place] = scale(features.index_select(0, examples.items[place]))
    weights: list[dict[str, Tensor]] = []
    path = lasso_path if job.model.name == "lasso" else ridge_path
    for weight, bias in path(rows, examples.relevance, job.model.penalties):
        with torch.no_grad():
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
        weights.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        # The rows are centred by now: neither their scores nor the labels, whose mean is 0, include the bias.
        residual = rows @ weight - (examples.relevance - examples.relevance.mean())
        steps.add(len(weights), float(residual.square().mean()), predict(model, scorer, steps.measured))

    def restored(number: int) -> tuple[Tensor, Mapping[str, Tensor]]:
        model.load_state_dict(weights[number - 1])
        return predict(model, scorer, training.parts.test), weights[number - 1]

    return restored


def ridge_path(features: Tensor, labels: Tensor, penalties: Sequence[float]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield weights `(d,)` and bias `()` per penalty, given as a share of the features' mean squared norm (variance).

    Exact, by one product of the features with themselves on their shorter side, and a Cholesky factor per penalty.
    `features` `(n, d)` are centred in place.
    """
    mean = _centre(features)
    targets = (labels - labels.mean()).to(torch.float64)
    tall = features.shape[0] >= features.shape[1]
    product = (features.T @ features if tall else features @ features.T).to(torch.float64)
    # Constant features have no variance: their weights are 0 for any penalty.
    scale = float(product.diagonal().sum()) or 1.0
    right = (features.T @ targets.to(features)).to(torch.float64) if tall else targets
    diagonal, shifted = product.diagonal().clone(), torch.empty_like(product)
    for penalty in penalties:
        product.diagonal().copy_(diagonal + penalty * scale)
        torch.linalg.cholesky(product, out=shifted)
        solved = torch.cholesky_solve(right[:, None], shifted)[:, 0].to(features)
        yield _with_bias(solved if tall else features.T @ solved, mean, labels)


def lasso_path(features: Tensor, labels: Tensor, penalties: Sequence[float]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield weights `(d,)` and bias `()` per penalty, given as a share of the smallest one that leaves no feature in.

    By coordinate descent (scikit-learn), each penalty starting from the previous solution. `features` `(n, d)` are
    centred in place; fastest if their transpose is contiguous.
    """
    from sklearn.linear_model import enet_path  # type: ignore[import-untyped,unused-ignore]

    mean = _centre(features)
    targets = (labels - labels.mean()).to(features)
    largest = float((features.T @ targets).abs().max()) / len(labels)
    start = None
    for penalty in penalties:
        _, coefficients, _ = enet_path(
            np.asfortranarray(features.numpy()),
            targets.numpy(),
            l1_ratio=1.0,
            alphas=[penalty * largest],
            precompute=False,
            copy_X=False,
            check_input=False,
            coef_init=start,
            tol=_TOLERANCE,
            max_iter=10_000,
        )
        start = coefficients[:, 0].copy()
        yield _with_bias(torch.from_numpy(start.copy()).to(features), mean, labels)


def _centre(features: Tensor) -> Tensor:
    mean = features.mean(0, dtype=torch.float64).to(features)
    features -= mean
    return mean


def _with_bias(weights: Tensor, mean: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    return weights, labels.mean().to(weights) - mean @ weights


def _fit_ranker(job: TrainingJob, training: FoldTraining, judged: RankingLoss, steps: "_Steps") -> Restored:
    """Fit the job's ranker on its informative lists; an epoch is what it is in the library."""
    from rankbound.training.fitted import columns_of, fit_columns, model_of
    from rankbound.training.recipe import Recipe

    assert isinstance(job.model, RankerKeys)
    features, examples = training.features, training.lists
    scale = input_scale(job.settings.scale or "standard", features, examples.items, training.data.channels)
    options: dict[str, Any] = {"model": job.model.name, **job.model.given("name")}
    if job.model.name in OF_METRICS:
        options |= {"loss": job.loss, "bound": job.bounding}
    if job.settings.epochs:
        options["epochs"] = job.settings.epochs
    seed = derive_seed("ranker", job.study, job.dataset, training.fold, training.seed) % 2**31
    recipe = Recipe(**options, seed=seed)

    def scaled(rows: nn.Module, part: Part) -> Tensor:
        values: Tensor = rows(scale(features.index_select(0, part.items)))
        return values

    informative = judged.informative(examples.relevance, examples.lists)
    with torch.no_grad():
        steps.held_out = columns_of(scaled, steps.measured)
        fit_columns(recipe, judged, columns_of(scaled, examples.batch(torch.nonzero(informative).squeeze(1))), steps)
    scorer = score_distinct(features)

    def restored(number: int) -> tuple[Tensor, Mapping[str, Tensor]]:
        network = model_of(recipe, steps.models[number], features.shape[1])
        model = nn.Sequential(OrderedDict(scale=scale, network=network))
        return predict(model, scorer, training.parts.test), model.state_dict()

    return restored


class _Steps(Selection):
    """The epochs of a fit: rounds of boosting, penalties along a path, or what they are for a ranker of the library.

    A ranker offers the scores of `held_out`, and its model, which is kept; the epoch that is selected is the best one
    on the part that the protocol's tables show. For any fit, `measured` has the items to score after every step.
    """

    def __init__(self, job: TrainingJob, training: FoldTraining) -> None:
        self._measuring = Measuring(training.parts.measured, epoch_metrics(job))
        self.measured, self._judge, self._main = self._measuring.joined, str(judge_of(job)), SELECTIONS[job.protocol]
        self.epochs, self.models, self.epoch = list[Epoch](), dict[int, Model](), 0

    def add(self, number: int, loss: float, scores: Tensor) -> None:
        """Record step `number`: the mean training loss, and the scores of `measured`."""
        self.epochs.append(Epoch(number, loss, math.nan, self._measuring.means(scores)))

    def best(self, part: str) -> int:
        """Return the number of the first best epoch on a part, by the metric that judges the job."""
        return max(self.epochs, key=lambda epoch: epoch.metrics[part][self._judge]).number

    def offer(self, epoch: int, loss: float, scores: Floats | None, model: Callable[[], Model]) -> None:
        """Record an epoch of a ranker, and keep its model."""
        assert scores is not None
        self.models[epoch] = model()
        self.add(epoch, loss, torch.from_numpy(scores.astype(np.float32)))
        self.epoch = self.best(self._main)
