r"""Objectives for tree boosting from any ranking loss: its gradient, and its curvature, or a constant, as the Hessian.

A booster grows trees by Newton steps: a leaf's value is minus the sum of its rows' gradients over the sum of their
Hessians. The Hessian is bounded from below,

$$h_i = \max\!\left(\frac{\partial^2 L}{\partial s_i^2},\ \frac{|g_i|}{\delta}\right),$$

which limits every leaf's value to $\delta$, the step. A few temperatures away sigmoids are flat, and the gradient is no
longer informative. Losses of smooth ranks aren't convex: near the start, where all scores tie, hardly any row has a
positive curvature, and trees with it rank no better than with a Hessian that is the same for all rows.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.boosting.judgements import Judgements
from rankbound.bounds.kinds import Bound, Facts
from rankbound.lists import ArrayLike, Lists
from rankbound.losses import RankingLoss, loss
from rankbound.metrics import Metric

HESSIANS = ("auto", "exact", "constant")

# The default step, in temperatures, at which a sigmoid is 0.95.
STEP = 3.0
# Minimum Hessian as a share of the mean gradient, so that leaves of rows without a gradient have a positive sum.
LEAST_HESSIAN = 1e-3

Floats = npt.NDArray[np.floating[Any]]


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
    of = loss(of, bound, temperature)
    if step is None:
        step = STEP * float(getattr(of, "temperature", 1.0))
    return RankingObjective(of, hessian, step)


class RankingObjective:
    """The gradient and Hessian of a ranking loss, called by LightGBM and XGBoost.

    Both are scaled to a mean Hessian of 1. Trees therefore don't depend on the unit of the loss, and a minimum sum of
    Hessians per leaf (`min_sum_hessian_in_leaf`, `min_child_weight`) or a ridge penalty (`lambda_l2`, `reg_lambda`) is
    a number of rows. Rows of uninformative topics have gradient and Hessian 0. Weights multiply both; weights that are
    equal within a topic weight the topic.
    """

    def __init__(self, loss: RankingLoss, hessian: str = "auto", step: float = STEP) -> None:
        if hessian not in HESSIANS:
            raise ValueError(f"hessian: found {hessian!r}, expected one of {', '.join(HESSIANS)}")
        if not step > 0:
            raise ValueError(f"step: found {step}, expected a number above 0")
        self._by_curvature = hessian != "constant" and _has_curvature(loss)
        if hessian == "exact" and not self._by_curvature:
            raise ValueError(
                f"hessian: found exact for {loss.full_text}, whose curvature has no closed form as that of pointwise, "
                "pairwise and softmax losses, ListMLE, LambdaRank, WARP and their sums has; expected auto or constant"
            )
        self.loss, self.hessian, self.step = loss, hessian, step
        self._known: tuple[Judgements, Facts | None] | None = None

    def __call__(
        self, first: ArrayLike, second: Any, weight: ArrayLike | None = None, group: ArrayLike | None = None
    ) -> tuple[Floats, Floats]:
        """Return gradient and Hessian, `(n_items,)` each.

        The arguments are `(preds, data)` or, for scikit-learn's interface, `(label, preds, weight, group)`.
        """
        if hasattr(second, "get_label"):
            judged, predictions = Judgements.of_data(second), first
        else:
            judged, predictions = Judgements.of(first, group, weight), second
        gradient, hessian = self.derivatives(judged.scores(predictions), judged)
        return gradient.numpy(), hessian.numpy()

    def derivatives(self, scores: Tensor, judged: Judgements) -> tuple[Tensor, Tensor]:
        """Return the gradient and the Hessian, bounded from below, over the mean Hessian: `(n_items,)` each.

        Raises:
            ValueError: if no topic is informative.
        """
        # The unit magnifies rounding errors where all lists are far from any change: XGBoost's scores are single.
        scores = scores.to(torch.float64)
        known, facts = self._with_facts(judged)
        relevance, lists = known.relevance, known.lists
        informative = self.loss.informative_by(facts, relevance, lists)
        if not bool(informative.any()):
            raise ValueError(f"label: found no informative topic for {self.loss.text} among {len(lists)}")
        rows = lists.spread(informative)
        curvature = None
        if self._by_curvature:
            gradient, curvature = self.loss.derivatives(scores, relevance, lists, facts)
        else:
            gradient = self.loss.gradient(scores, relevance, lists, facts)
        size = gradient.abs()
        tiny = torch.finfo(scores.dtype).tiny
        mean_size = size[rows].mean().clamp(min=tiny)
        if curvature is None:
            hessian = torch.full_like(gradient, float(mean_size) / self.step)
        else:
            hessian = torch.maximum(curvature, size.clamp(min=LEAST_HESSIAN * mean_size) / self.step)
        hessian = torch.where(rows, hessian, 0.0)
        if judged.weight is not None:
            weight = judged.weight.to(gradient)
            gradient, hessian = gradient * weight, hessian * weight
        unit = hessian[rows].mean().clamp(min=tiny)
        return gradient / unit, hessian / unit

    def _with_facts(self, judged: Judgements) -> tuple[Judgements, Facts | None]:
        """Return the judgements with the loss's facts about them, those of the tree before if they are the same."""
        known = self._known
        if known is None or not known[0].are(judged):
            # The caller may write to the labels later.
            kept = replace(judged, relevance=judged.relevance.clone())
            # Another thread may keep other judgements meanwhile.
            known = self._known = kept, self.loss.facts(kept.relevance, kept.lists)
        return known

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": None}

    def __repr__(self) -> str:
        return f"RankingObjective({self.loss}, hessian={self.hessian}, step={self.step:g})"


def _has_curvature(loss: RankingLoss) -> bool:
    """Return true if the loss has a closed form of its curvature, tried on a list of one item."""
    one = torch.ones(1, dtype=torch.float64, device="cpu")
    return loss.curvature(one, one, Lists(torch.tensor([0, 1], device="cpu"))) is not None
