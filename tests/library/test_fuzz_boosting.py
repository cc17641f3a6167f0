"""Objectives and metrics of boosting on random data: with kernels as without, and as losses and metrics of the lists.

Labels, predictions, sizes of groups and weights come in the forms in which LightGBM, XGBoost and scikit-learn's
interface pass them, with the flaws of `drawn_arguments`, and some of weights.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from drawn_arguments import ROUNDS, Array, Drawn, drawn, outcome, require_same

import rankbound as rb
from rankbound.boosting import ROUNDING, Judgements, RankingObjective
from rankbound.losses import KINDS

OBJECTIVES = [
    *((text, bound) for text in ("nDCG", "nDCG@10", "AP", "nRBP(p=0.8)", "DCG@3") for bound in ("none", "min-max")),
    *(("nDCG", bound) for bound in ("expectation", "expectation-max", "distribution")),
    *((name, "none") for name in sorted(KINDS)),
]
WITHOUT_CURVATURE = ("ADR-MSE", "NeuralNDCG", "PiRank", "RankCosine", "SoftRank", "TFMAP")
METRICS = ("nDCG", "nDCG@3", "AP", "RR", "nRBP", "P@5", "DCG", "Kendall", "PairAccuracy", "RBP(p=0.8)")
NAMES = ("gradient", "hessian")
WEIGHTS = ("none", "none", "of rows", "of topics", "zero for some", "too few", "negative", "NaN")


def lightgbm_data(label: Array, sizes: Array, weight: Array | None) -> Any:
    """What the functions ask of a `lightgbm.Dataset`."""
    asked = {"get_label": label, "get_group": sizes, "get_weight": weight}
    return SimpleNamespace(used_indices=None, **{name: lambda value=value: value for name, value in asked.items()})


def xgboost_data(label: Array, sizes: Array, weight: Array | None) -> Any:
    data = lightgbm_data(label, sizes, np.zeros(0, np.float32) if weight is None else weight)
    data.get_uint_info = {"group_ptr": np.concatenate(([0], np.cumsum(sizes)))}.__getitem__
    return data


def weights(draw: Drawn, random: np.random.Generator) -> Array | None:
    kind = str(random.choice(WEIGHTS))
    n_items, n_topics = len(draw.relevance), max(len(draw.offsets) - 1, 0)
    if kind == "none":
        return None
    values = random.random({"of topics": n_topics, "too few": max(n_items - 1, 0)}.get(kind, n_items)) + 0.1
    if kind == "zero for some":
        values[random.random(len(values)) < 0.5] = 0
    if len(values) and kind in ("negative", "NaN"):
        values[random.integers(len(values))] = np.nan if kind == "NaN" else -1
    # XGBoost has none as an empty array.
    return values.astype(np.float32) if len(values) else None


def calls(function: Any, draw: Drawn, weight: Array | None) -> dict[str, Any]:
    scores, _, _ = draw.passed()
    labels, sizes = draw.relevance.astype(np.float32), np.diff(draw.offsets.astype(np.int64))
    return {
        "lightgbm": lambda: function(scores, lightgbm_data(labels, sizes.astype(np.int32), weight)),
        "xgboost": lambda: function(scores, xgboost_data(labels, sizes, weight)),
        "scikit-learn": lambda: function(labels, scores, weight, sizes),
        "labels as drawn": lambda: function(draw.passed()[1], scores, weight, sizes),
    }


def tolerance(objective: RankingObjective, draw: Drawn, scale: float) -> float:
    """Return the relative tolerance of a gradient that is scaled to a mean Hessian of 1.

    Where all lists are far from any change, the scale magnifies the rounding of the loss's own gradient, which is of
    the order of 1 in other lists.
    """
    judged = Judgements.of(draw.relevance.astype(np.float32), np.diff(draw.offsets.astype(np.int64)))
    scores = torch.from_numpy(draw.scores.astype(np.float64))
    largest = float(objective.loss.derivatives(scores, judged.relevance, judged.lists)[0].abs().max())
    return scale + ROUNDING / max(largest, ROUNDING)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("round_", ROUNDS)
def test_objectives_are_the_same_by_kernels_in_every_interface(round_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the gradients are those of the loss by autograd, over the mean Hessian, which bounds each row's step."""
    for place, draw in enumerate(drawn(round_)):
        random = np.random.default_rng([round_, place, 1])
        text, bound = OBJECTIVES[random.integers(len(OBJECTIVES))]
        hessian = (
            str(random.choice(["exact", "constant"])) if text in KINDS and text not in WITHOUT_CURVATURE else "auto"
        )
        objective, weight = rb.boosting_objective(text, bound, hessian=hessian), weights(draw, random)
        found = {}
        for fast in ("1", "0"):
            monkeypatch.setenv("RANKBOUND_FAST", fast)
            for interface, call in calls(objective, draw, weight).items():
                found[fast, interface] = outcome(lambda call=call: dict(zip(NAMES, call(), strict=True)))
        reference = found["0", "lightgbm"]
        context = f"{objective}, weights {weight}; {draw}"
        relative, largest = 0.0, {}
        if reference.error is None:
            # The kernel of exact Hessians sums pairs of items where the formulas may interpolate.
            relative = tolerance(objective, draw, 1e-6 if objective.hessian == "exact" else 1e-12)
            largest = {name: float(np.abs(values).max(initial=0)) for name, values in reference.values.items()}
            require_gradient(objective, draw, weight, reference.values, context)
        for key, other in found.items():
            require_same(
                other,
                reference,
                f"{key}: {context}",
                relative=relative,
                absolute=relative * max(largest.values(), default=0),
            )


def require_gradient(
    objective: RankingObjective, draw: Drawn, weight: Array | None, found: dict[str, Array], context: str
) -> None:
    scores = torch.from_numpy(draw.scores.astype(np.float64)).requires_grad_()
    labels, offsets = torch.from_numpy(draw.relevance.astype(np.float64)), draw.offsets.astype(np.int64)
    objective.loss(scores, labels, torch.from_numpy(offsets), reduction="sum").backward()
    expected, gradient = scores.grad.numpy() * per_row(weight, offsets), found["gradient"]
    if objective.hessian == "exact":
        assert np.all(np.abs(gradient) <= found["hessian"] * objective.step * (1 + 1e-9)), context
    if np.abs(expected).max() > 1e-6:
        unit = np.dot(expected, gradient) / np.dot(expected, expected)
        assert unit > 0, context
        np.testing.assert_allclose(
            gradient, unit * expected, rtol=1e-7, atol=1e-7 * np.abs(gradient).max(), err_msg=context
        )


def per_row(weight: Array | None, offsets: Array) -> Array:
    """Return the weight of each row, for those that have one each or one per topic."""
    if weight is None:
        return np.ones(offsets[-1])
    return (weight if len(weight) == offsets[-1] else np.repeat(weight, np.diff(offsets))).astype(np.float64)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("round_", ROUNDS)
def test_metrics_are_weighted_means_of_the_lists(round_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And refuse what the metrics of the lists, or the loss, refuse."""
    for place, draw in enumerate(drawn(round_)):
        random = np.random.default_rng([round_, place, 2])
        texts = [str(text) for text in random.choice(METRICS, 2, replace=False)]
        weight = weights(draw, random)
        context = f"{texts}, weights {weight}; {draw}"
        found = {}
        for fast in ("1", "0"):
            monkeypatch.setenv("RANKBOUND_FAST", fast)
            for interface, call in calls(rb.boosting_metric(*texts), draw, weight).items():
                found[fast, interface] = outcome(lambda call=call: {name: value for name, value, *_ in call()})
        for key, other in found.items():
            require_same(other, found["0", "lightgbm"], f"{key}: {context}", relative=0)
        direct = outcome(lambda draw=draw, weight=weight, texts=texts: direct_means(texts, draw, weight))
        assert (direct.error is None) == (found["0", "lightgbm"].error is None), f"{direct} {found} {context}"
        for name, value in direct.values.items():
            np.testing.assert_allclose(found["0", "lightgbm"].values[name], value, rtol=1e-12, err_msg=context)


def direct_means(texts: list[str], draw: Drawn, weight: Array | None) -> dict[str, float]:
    """Return the means of the definition: of each topic's value, times the mean weight of its rows."""
    scores, labels, offsets = draw.scores, draw.relevance.astype(np.float32), draw.offsets.astype(np.int64)
    values = {text: rb.metric(text)(scores, labels, offsets) for text in texts}
    if len(offsets) < 2:
        raise ValueError("no topic")
    rows = per_row(weight, offsets)
    if not (np.isfinite(rows).all() and (rows >= 0).all() and len(rows) == offsets[-1]):
        raise ValueError("weights")
    parts = np.split(rows, offsets[1:-1])
    topic = np.array([1.0 if weight is None else part.sum() / max(len(part), 1) for part in parts])
    means = {}
    for text, value in values.items():
        defined = ~np.isnan(value)
        total = topic[defined].sum()
        means[text] = float((value[defined] * topic[defined]).sum() / total) if total > 0 else np.nan
    return means
