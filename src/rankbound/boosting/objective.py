r"""Objectives for tree boosting from any ranking loss: its gradient, and its curvature as the Hessian.

A booster grows each tree by Newton steps: a leaf's value is minus the sum of its rows' gradients over that of their
Hessians. A loss of smooth ranks is not convex, and near the start, where all scores tie, hardly any row of it has a
positive curvature. So the Hessian has a floor that is a promise about the step,

$$h_i = \max\!\left(\frac{\partial^2 L}{\partial s_i^2},\ \frac{|g_i|}{\delta}\right),$$

with which no leaf's value exceeds $\delta$: a few temperatures away, where sigmoids are flat, a gradient says nothing.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.boosting.judgements import Judgements
from rankbound.bounds.kinds import Bound
from rankbound.lists import ArrayLike
from rankbound.losses import RankingLoss, loss
from rankbound.metrics import Metric

HESSIANS = ("exact", "constant")

# The default step, in temperatures: where a sigmoid is 0.95.
STEP = 3.0
# Least Hessian as a share of the mean gradient: rows without gradient must not give a leaf a sum of 0.
LEAST_HESSIAN = 1e-3

Floats = npt.NDArray[np.floating[Any]]


def boosting_objective(
    of: str | Metric | RankingLoss,
    bound: str | Bound = "none",
    *,
    temperature: float = 1.0,
    hessian: str = "exact",
    step: float | None = None,
) -> "RankingObjective":
    """An objective for LightGBM or XGBoost that minimises the sum of a ranking loss over the topics.

    `lightgbm.train({"objective": rb.boosting_objective("nDCG@10", "min-max")}, data)`,
    `lightgbm.LGBMRanker(objective=...)` and `xgboost.train(parameters, data, obj=...)` all take it. The data have
    groups (XGBoost: or query ids).

    Args:
        of: the loss, or what `rankbound.loss` makes one of: `nDCG@10`, `AP`, `RankNet`, `LambdaRank(metric=nDCG@10)`.
        bound: of the loss of a metric, as in `rankbound.loss`.
        temperature: likewise.
        hessian: `exact` is the loss' curvature, floored at the size of the gradient over `step`; `constant` is the
            same for all rows: the mean size of the gradients over `step`, which is plain gradient descent.
        step: the largest value of a leaf, before the learning rate; if not given, 3 temperatures of the loss, or 3.

    Raises:
        ValueError: as `rankbound.loss`, and for another `hessian` or a `step` that isn't above 0.
    """
    if not isinstance(of, RankingLoss):
        of = loss(of, bound, temperature)
    elif str(bound) != "none":
        raise ValueError(f"bound: found {bound} beside a loss, expected none: give the loss its own")
    if step is None:
        step = STEP * float(getattr(of, "temperature", 1.0))
    return RankingObjective(of, hessian, step)


class RankingObjective:
    """The gradient and Hessian of a ranking loss, as LightGBM and XGBoost call for them.

    Both are in units in which the mean Hessian is 1: trees do not depend on the unit of the loss, and a least sum of
    Hessians per leaf (`min_sum_hessian_in_leaf`, `min_child_weight`) or a ridge (`lambda_l2`, `reg_lambda`) is a number
    of rows. Rows of topics from which nothing can be learned have gradient and Hessian 0. Weights multiply both;
    equal within a topic they weigh the topic.
    """

    def __init__(self, loss: RankingLoss, hessian: str = "exact", step: float = STEP) -> None:
        if hessian not in HESSIANS:
            raise ValueError(f"hessian: found {hessian!r}, expected one of {', '.join(HESSIANS)}")
        if not step > 0:
            raise ValueError(f"step: found {step}, expected a number above 0")
        self.loss, self.hessian, self.step = loss, hessian, step

    def __call__(
        self, first: ArrayLike, second: Any, weight: ArrayLike | None = None, group: ArrayLike | None = None
    ) -> tuple[Floats, Floats]:
        """Gradient and Hessian, from `(preds, data)` or, in scikit-learn's manner, `(label, preds, weight, group)`."""
        if hasattr(second, "get_label"):
            judged, predictions = Judgements.of_data(second), first
        else:
            judged, predictions = Judgements.of(first, group, weight), second
        gradient, hessian = self.derivatives(judged.scores(predictions), judged)
        return gradient.numpy(), hessian.numpy()

    def derivatives(self, scores: Tensor, judged: Judgements) -> tuple[Tensor, Tensor]:
        """The gradient and the floored Hessian of the lists' losses, in units of their mean Hessian: `(n_items,)`."""
        relevance, lists = judged.relevance, judged.lists
        informative = self.loss.informative(relevance, lists)
        if not bool(informative.any()):
            raise ValueError(f"label: found no topic that {self.loss.text} can learn from among {len(lists)}")
        leaf = scores.detach().clone().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(self.loss.of_lists(leaf, relevance, lists).sum(), leaf)
        rows = lists.spread(informative)
        size = gradient.abs()
        tiny = torch.finfo(scores.dtype).tiny
        mean_size = size[rows].mean().clamp(min=tiny)
        if self.hessian == "constant":
            hessian = torch.full_like(gradient, float(mean_size) / self.step)
        else:
            floor = size.clamp(min=LEAST_HESSIAN * mean_size) / self.step
            hessian = torch.maximum(self.loss.curvature(scores, relevance, lists), floor)
        hessian = torch.where(rows, hessian, 0.0)
        if judged.weight is not None:
            weight = judged.weight.to(gradient)
            gradient, hessian = gradient * weight, hessian * weight
        unit = hessian[rows].mean().clamp(min=tiny)
        return gradient / unit, hessian / unit

    def __repr__(self) -> str:
        return f"RankingObjective({self.loss}, hessian={self.hessian}, step={self.step:g})"
