r"""Ensembles of weak rankers: AdaRank, RankBoost, and trees, which LightGBM grows, for regression, classes or any loss.

AdaRank (Xu and Li, SIGIR 2007) boosts features over lists. In round $t$, with weights $P_t(q)$ of the lists and the
performance $E_q(f)$ of an order of list $q$,

$$\phi_t = \max_k \sum_q P_t(q) E_q(x_k), \qquad \alpha_t = \tfrac12 \ln \frac{1 + \phi_t}{1 - \phi_t}, \qquad
  f_t = f_{t-1} + \alpha_t x_k, \qquad P_{t+1}(q) \propto P_1(q) e^{-E_q(f_t)}$$

The mean performance of $f_T$ is at least

$$1 - \prod_{t=1}^{T} e^{-\delta_t} \sqrt{1 - \phi_t^2}, \qquad
  \delta_t = \min_q \left(E_q(f_t) - E_q(f_{t-1}) - \alpha_t E_q(x_k)\right)$$

with $E_q(f_0) = 0$. Performances are from -1 to 1. Those of a bound that are not are divided by the largest absolute
value of any order of any list, which keeps the relation of the lists to each other. A feature that changes no
performance is passed over, since the same weights of lists would choose it forever.

RankBoost (Freund, Iyer, Schapire and Singer, JMLR 2003) boosts thresholds of features over pairs. With
$D_t(i, j) \propto D_1(i, j) e^{f(x_j) - f(x_i)}$ for the pairs of a list with $y_i > y_j$, and the potential

$$\pi(i) = \sum_j D_t(i, j) - \sum_j D_t(j, i), \qquad r = \sum_i \pi(i)\, h(x_i), \qquad
  \alpha_t = \tfrac12 \ln \frac{1 + r}{1 - r}$$

for the $h(x) = [x_k > \theta]$ with the largest $|r|$. The exponential loss falls by a factor of at least
$\sqrt{1 - r^2}$. The potential is a difference of sums over a list's lower and higher grades, so that a round takes
linear time.

MART (Friedman, Annals of Statistics 2001) and random forests (Breiman, Machine Learning 2001) are regressions of the
grades, LambdaMART (Burges 2010) boosts the lambdas of nDCG, and boosted trees any loss of this library, with any bound.

McRank (Li, Burges and Wu, NIPS 2007) classifies items, and ranks them by their expected grade,

$$s = \sum_k k\, \hat p(y = k) \qquad \text{or} \qquad s = \sum_{k \ge 1} \hat p(y \ge k)$$

with the probabilities of one classifier of all grades (`multiclass`), or of a classifier for each grade but the lowest
(`ordinal`). A list that is ordered by predicted grades $\hat y$ loses at most

$$\max DCG - DCG \le (2^K - 1) \Big(2 \sum_r d_r^2 - 2 n \prod_r d_r^{2/n}\Big)^{1/2}
  \Big(\sum_i [\hat y_i \ne y_i]\Big)^{1/2}$$

with the highest grade $K$ and the discounts $d_r$ of its $n$ ranks.
"""

from math import log
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rankbound.boosting import boosting_objective
from rankbound.bounds.base import Bound
from rankbound.io.files import needs_extra
from rankbound.kernels import usable
from rankbound.kernels.formulas import Floats
from rankbound.losses import RankingLoss
from rankbound.metrics import Metric
from rankbound.rankers import Columns, Performance, Selection
from rankbound.rankers.linear import Pairs

NEARLY_ONE = 1 - 1e-9
"""The largest advantage of a weak ranker that has a finite weight."""

BINS = 256
"""The number of bins of a feature, whose limits are the thresholds."""
ITEMS_OF_QUANTILES = 200_000
"""The number of items from which the quantiles of features are taken."""


_OBJECTIVES = {"mart": "regression", "random-forest": "regression", "lambdamart": "lambdarank", "boosted-trees": "none"}

# LightGBM draws rows without replacement: 63.2% is the share of distinct rows of a bootstrap. A third of the features
# for each split is Breiman's choice for regressions.
_FOREST = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.632, "feature_fraction_bynode": 1 / 3}

_LARGEST_MAPPED = 30
"""The largest grade whose gain LightGBM knows by itself."""

_BETWEEN = b"\0"
"""Separates the texts of several boosters."""


def fit_adarank(columns: Columns, selection: Selection, *, of: Metric, bound: Bound, epochs: int) -> None:
    """Fit AdaRank to a bounded metric, from lists whose shares are $P_1$, and offer the selection every round.

    There are fewer rounds than `epochs` if one feature orders all lists perfectly, or none changes anything.
    """
    performance = Performance(of, bound, columns.relevance, columns.offsets)
    unit, nothing = max(performance.largest, 1.0), np.zeros(len(columns.relevance))
    of_features = np.stack([performance.of_steps(nothing, one, np.ones(1))[0] for one in columns.values]) / unit
    lists, weights, scores = columns.shares, np.zeros(len(columns.values)), nothing
    values, held_out = np.zeros(len(lists)), selection.held_out
    of_held_out = None if held_out is None else np.zeros(len(held_out.relevance))
    for number in range(1, epochs + 1):
        means = of_features @ lists
        for best in np.argsort(-means, kind="stable").tolist():
            advantage = float(np.clip(means[best], -NEARLY_ONE, NEARLY_ONE))
            alpha = 0.5 * log((1 + advantage) / (1 - advantage))
            moved = scores + alpha * columns.values[best].astype(np.float64)
            before, values = values, performance.of(moved) / unit
            if not np.array_equal(values, before):
                break
        else:
            break
        weights[best] += alpha
        scores = moved
        if held_out is not None and of_held_out is not None:
            of_held_out += alpha * held_out.values[best].astype(np.float64)
        losses = np.exp(-values) * columns.shares
        selection.offer(number, float(losses.sum()), of_held_out, lambda: {"weights": weights.copy()})
        if advantage == NEARLY_ONE:
            break
        lists = losses / losses.sum()


def fit_rankboost(columns: Columns, selection: Selection, *, pair_weights: str, epochs: int) -> None:
    """Fit RankBoost, and offer the selection every round; fewer than `epochs`, if no threshold has an advantage.

    $D_1$ is `equal` for all pairs, or by `list`, so that lists have the same weight.
    """
    pairs, limits = Pairs(columns, pair_weights), thresholds(columns.values)
    bins = np.empty(columns.values.shape, np.uint8)
    for own, values, one in zip(bins, columns.values, limits, strict=True):
        own[:] = np.searchsorted(one, values)
    scores, held_out = np.zeros(len(columns.relevance)), selection.held_out
    of_held_out = None if held_out is None else np.zeros(len(held_out.relevance))
    chosen: list[tuple[int, float, float]] = []
    potential, loss = potentials(pairs, scores)
    for number in range(1, epochs + 1):
        # The advantage of a threshold is the sum over the bins above it.
        advantages = np.cumsum(sums_by_bin(bins, potential)[:, :0:-1], 1)[:, ::-1] / loss
        feature, place = divmod(int(np.abs(advantages).argmax()), BINS - 1)
        advantage = float(np.clip(advantages[feature, place], -NEARLY_ONE, NEARLY_ONE))
        alpha = 0.5 * log((1 + advantage) / (1 - advantage))
        if abs(advantage) < 1 - NEARLY_ONE or place >= len(limits[feature]):
            break
        chosen.append((feature, float(limits[feature][place]), alpha))
        scores[bins[feature] > place] += alpha
        if held_out is not None and of_held_out is not None:
            of_held_out[held_out.values[feature] > limits[feature][place]] += alpha
        potential, loss = potentials(pairs, scores)
        selection.offer(number, loss, of_held_out, lambda: _steps(chosen))
    if not chosen:
        selection.offer(1, loss, of_held_out, lambda: _steps([(0, 0.0, 0.0)]))


def _steps(chosen: list[tuple[int, float, float]]) -> dict[str, npt.NDArray[np.generic]]:
    """Return the thresholds as tensors of a model; the weights of one that was chosen twice are added up."""
    distinct: dict[tuple[int, float], float] = {}
    for feature, threshold, alpha in chosen:
        distinct[feature, threshold] = distinct.get((feature, threshold), 0.0) + alpha
    features, limits = zip(*distinct, strict=True)
    return {
        "features": np.array(features, np.int64),
        "thresholds": np.array(limits, np.float32),
        "weights": np.array([*distinct.values()], np.float32),
    }


def thresholds(values: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
    """Return at most 255 thresholds of each feature: all of its distinct values but the largest, or quantiles."""
    limits = []
    for column in values:
        sample, largest = column[:: -(-len(column) // ITEMS_OF_QUANTILES)], column.max()
        some = np.unique(sample)
        if len(some) > BINS:
            some = np.unique(np.quantile(sample, np.linspace(0, 1, BINS + 1)[1:-1], method="lower"))
        limits.append(some[some < largest][: BINS - 1])
    return limits


def potentials(pairs: Pairs, scores: Floats) -> tuple[Floats, float]:
    """Return each item's potential, times the exponential loss, and this loss: the mean of all pairs' exponentials."""
    # The middle of a list's scores changes none of its pairs, and keeps the exponentials in range.
    moved = scores - (np.bincount(pairs.segment, scores) / np.maximum(np.bincount(pairs.segment), 1))[pairs.segment]
    rises, falls = np.exp(moved), np.exp(-moved)
    below, above = pairs.below_and_above(rises, falls)
    gains = pairs.of_item * falls * below
    return gains - pairs.of_item * rises * above, float(gains.sum())


def sums_by_bin(bins: npt.NDArray[np.uint8], values: Floats) -> Floats:
    """Return the sums `(n_features, 256)` of the values of each bin of each feature."""
    sums = np.empty((len(bins), BINS))
    if usable():
        from rankbound.kernels import rankers

        rankers.sums_by_bin(bins, values, sums)
        return sums
    for own, row in zip(bins, sums, strict=True):
        row[:] = np.bincount(own, values, minlength=BINS)
    return sums


def fit_trees(
    columns: Columns,
    selection: Selection,
    *,
    model: str,
    objective: RankingLoss,
    classification: str,
    leaves: int,
    min_rows: int,
    shrinkage: float,
    epochs: int,
    seed: int,
) -> None:
    """Grow trees by the settings of a recipe, and offer them to the selection after every round.

    `objective` is the loss of `boosted-trees`. A forest has no shrinkage. A round is a tree, or of a classification, a
    tree of each class. RankboundError if LightGBM is not installed.
    """
    with needs_extra("boosting"):
        import lightgbm

    distinct, grades = np.unique(columns.relevance, return_inverse=True)
    sizes, weights = np.diff(columns.offsets), None
    if len(np.unique(columns.shares)) > 1:
        weights = np.repeat(columns.shares * len(sizes), sizes)
    parameters: dict[str, Any] = {
        "num_leaves": leaves,
        "min_data_in_leaf": min_rows,
        "learning_rate": shrinkage,
        "num_threads": torch.get_num_threads(),
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
        "seed": seed % 2**31,
        **(_FOREST if model == "random-forest" else {}),
    }
    labels = [columns.relevance]
    if model != "mcrank":
        parameters["objective"], values = _OBJECTIVES[model], np.ones(1)
    elif classification == "ordinal":
        parameters["objective"], values = "binary", np.diff(distinct)
        labels = [(grades >= code).astype(np.float64) for code in range(1, len(distinct))]
    else:
        parameters |= {"objective": "multiclass", "num_class": len(distinct)}
        labels, values = [grades.astype(np.float64)], distinct
    if model == "lambdamart" and distinct[-1] > _LARGEST_MAPPED:
        parameters["label_gain"] = [2.0**grade - 1 for grade in range(int(distinct[-1]) + 1)]
    gradients = boosting_objective(objective) if model == "boosted-trees" else None
    boosters = []
    for targets in labels:
        data = lightgbm.Dataset(columns.values.T, targets, weight=weights, group=sizes, params=parameters)
        boosters.append(lightgbm.Booster(parameters, data))
    held_out = selection.held_out
    margins: list[Any] = [0.0 for _ in boosters]

    def mean_loss(scores: npt.NDArray[Any], data: Any) -> tuple[str, float, bool]:
        lists = torch.from_numpy(columns.relevance), torch.from_numpy(columns.offsets)
        return "loss", float(objective(torch.from_numpy(scores), *lists).mean()), False

    def kept() -> dict[str, npt.NDArray[Any]]:
        texts = _BETWEEN.join(booster.model_to_string(num_iteration=number).encode() for booster in boosters)
        return {"trees": np.frombuffer(texts, np.uint8).copy(), "values": values.astype(np.float32)}

    for number in range(1, epochs + 1):
        ended = [booster.update(fobj=gradients) for booster in boosters]
        measured = [one for booster in boosters for one in booster.eval_train(mean_loss if gradients else None)]
        loss = sum(-one[2] if one[3] else one[2] for one in measured)
        scores = None
        if held_out is not None:
            for place, booster in enumerate(boosters):
                own = booster.predict(held_out.values.T, start_iteration=number - 1, num_iteration=1, raw_score=True)
                margins[place] = margins[place] + own
            outputs = margins
            if model == "mcrank":
                tensors = map(torch.from_numpy, margins)
                outputs = [(one.softmax(1) if one.ndim == 2 else one.sigmoid()).numpy() for one in tensors]
            scores = _sum_of(outputs, values) / (number if model == "random-forest" else 1)
        selection.offer(number, loss, scores, kept)
        if all(ended):
            break


def _sum_of(outputs: list[Floats], values: npt.NDArray[Any]) -> Floats:
    """Return the sum of the outputs of all boosters times their values."""
    scores: Floats = np.column_stack(outputs) @ values.astype(np.float64)
    return scores


class Trees(nn.Module):
    """The sum of the outputs of LightGBM's boosters times their values.

    Args:
        trees: LightGBM's texts of the boosters, as bytes, with a zero between two of them.
        values: `(n_outputs,)`, those of the outputs: grades of classes, differences of grades, or 1.
    """

    def __init__(self, trees: Tensor, values: Tensor) -> None:
        with needs_extra("boosting"):
            import lightgbm

        super().__init__()
        self.register_buffer("trees", trees)
        self.register_buffer("values", values)
        texts = bytes(trees.numpy()).split(_BETWEEN)
        try:
            self._boosters = [lightgbm.Booster(model_str=text.decode()) for text in texts]
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(f"trees: LightGBM cannot read them ({error})") from error

    @classmethod
    def restored(cls, tensors: dict[str, Tensor], n_features: int) -> "Trees":
        """Return the model of a file; ValueError for tensors that don't fit each other or the features."""
        trees, values = tensors["trees"], tensors["values"]
        if trees.dtype != torch.uint8 or trees.ndim != 1 or values.ndim != 1:
            raise ValueError("trees and values: expected bytes and numbers")
        model = cls(trees, values)
        if any(booster.num_feature() != n_features for booster in model._boosters):
            raise ValueError(f"trees: found those of other features, expected {n_features}")
        n_outputs = sum(booster.num_model_per_iteration() for booster in model._boosters)
        if n_outputs != len(values):
            raise ValueError(f"values: found {len(values)}, expected {n_outputs}")
        return model

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores `(n,)` of items with `features` `(n, n_features)`."""
        rows, values = features.detach().cpu().numpy(), self.get_buffer("values")
        outputs: list[Any] = [np.zeros((0, len(values)))]
        if len(rows):
            outputs = [booster.predict(rows) for booster in self._boosters]
        return torch.from_numpy(_sum_of(outputs, values.cpu().numpy())).to(features)
