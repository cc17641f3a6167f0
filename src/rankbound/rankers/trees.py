r"""Rankers of trees, which LightGBM grows: MART, LambdaMART, random forests, McRank, and trees for any loss.

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

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rankbound.boosting import boosting_objective
from rankbound.io.files import needs_extra
from rankbound.losses import RankingLoss
from rankbound.rankers.columns import Columns, Selection

_OBJECTIVES = {"mart": "regression", "random-forest": "regression", "lambdamart": "lambdarank", "boosted-trees": "none"}

# LightGBM draws rows without replacement: 63.2% is the share of distinct rows of a bootstrap. A third of the features
# for each split is Breiman's choice for regressions.
_FOREST = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.632, "feature_fraction_bynode": 1 / 3}

_LARGEST_MAPPED = 30
"""The largest grade whose gain LightGBM knows by itself."""

_BETWEEN = b"\0"
"""Separates the texts of several boosters."""


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
    """Grow trees, and keep them in the selection after every round.

    Args:
        columns: the lists to train on.
        selection: what keeps the trees of the best round.
        model: `mart`, `lambdamart`, `random-forest`, `mcrank` or `boosted-trees`.
        objective: the loss of `boosted-trees`.
        classification: of `mcrank`, `multiclass` or `ordinal`.
        leaves: the most leaves of a tree.
        min_rows: the fewest items of a leaf.
        shrinkage: the factor of each tree; a forest has none.
        epochs: the number of rounds: trees, or of a classification, trees of each class.
        seed: of what is drawn.

    Raises:
        RankboundError: LightGBM is not installed.
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
            outputs = [_probabilities(one) for one in margins] if model == "mcrank" else margins
            scores = _sum_of(outputs, values) / (number if model == "random-forest" else 1)
        selection.offer(number, loss, scores, kept)
        if all(ended):
            break


def _probabilities(margins: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the probabilities of classes `(n, K)`, or of being above a limit `(n,)`."""
    tensor = torch.from_numpy(margins)
    return (tensor.softmax(1) if tensor.ndim == 2 else tensor.sigmoid()).numpy()


def _sum_of(outputs: list[npt.NDArray[np.float64]], values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the sum of the outputs of all boosters times their values."""
    scores: npt.NDArray[np.float64] = np.column_stack(outputs) @ values.astype(np.float64)
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
