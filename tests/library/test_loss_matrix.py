"""Every loss has every property: metrics x bounds x what a training run relies on.

A new metric or bound joins by being listed in LOSSES and, with its arithmetic, in `smooth_value`.
"""

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import test_every_loss as rows_of_losses
import torch
from brute_force import METRICS, Order, distribution, graded_orders, mean
from test_bounds import ORIGIN_AND_UNIT
from test_every_loss import Row, differences, flat, loss_and_gradient
from test_own_metric import METRICS as OWN
from test_own_metric import ORACLES, of_scores

import rankbound as rb
from rankbound.bounds.tables import DistributionsOnDemand

AFFINE = tuple(name for name in ORIGIN_AND_UNIT if name != "none")
DISTRIBUTIONS = ("distribution", "distribution(gain=drawn)", "distribution(gain=sd)")
DISTRIBUTED = ("nDCG", "AP", "nRBP", "nDCG@3", "RR", "P@3", "RBP(p=0.8)", "RootGain", "OwnBpref")
BINARY = (*DISTRIBUTED, "nDCG(discount=log2(r))", "DCG", "P@10", "nRBP(p=0.8)")
LOSSES = [(name, bound) for name in BINARY for bound in ("none", *AFFINE)]
LOSSES += [(name, bound) for name in DISTRIBUTED for bound in DISTRIBUTIONS]
GRADED = [
    (name, bound)
    for name in ("nDCG", "nDCG(gain=linear)", "nDCG@3", "DCG(gain=linear)@2", "AP(rel=2)", "nRBP(rel=2)", "RootGain@2")
    for bound in ("none", *AFFINE, *DISTRIBUTIONS)
]
METHODS = ("direct", "interpolated")

Floats = npt.NDArray[np.float64]


def binary(rows: Sequence[Row]) -> list[Row]:
    return [(scores, [min(grade, 1) for grade in grades]) for scores, grades in rows]


GENERIC, EXTREME = binary(rows_of_losses.GENERIC), binary([*rows_of_losses.TIED, *rows_of_losses.FAR])
GRADED_ROWS = [row for row in rows_of_losses.GENERIC if max(row[1]) > 1]
WITHOUT_INFORMATION = [*rows_of_losses.EMPTY, *rows_of_losses.WITHOUT_RELEVANT]
WITHOUT_ANOTHER_ORDER = binary(rows_of_losses.ONE_GRADE)
DEGENERATE = [*WITHOUT_INFORMATION, *GENERIC[:1], *WITHOUT_ANOTHER_ORDER, *EXTREME, *WITHOUT_INFORMATION]


def written_out(name: str, bound: str, scores: Sequence[float], grades: Sequence[int]) -> float:
    """The loss of one list as the thesis' equations spell it, with brute force over its orders."""
    known = [ORACLES[name](order) for order in orders_of(tuple(grades))]
    sign = 1 if name.startswith("nRBP") and "p=" not in name else -1
    value = smooth_value(name, np.array(scores), np.array(grades))
    low, high, expected = min(known), max(known), mean(known)  # type: ignore[type-var]
    if bound.startswith("distribution"):
        support, chance = np.array([[float(s), float(c)] for s, c in distribution(known)]).T
        span, sd = support[-1] - support[0], math.sqrt((support - expected) ** 2 @ chance)
        drawn = 300_000 if max(grades) == 1 else 20_000
        gain = {"distribution": len(support) / span, "distribution(gain=drawn)": drawn / span}.get(bound, 1 / sd)
        return float(sign * chance @ sigmoid(gain * (value - support)))
    origin, unit = ORIGIN_AND_UNIT[bound](float(low), expected, float(high))
    return float(sign * (value - origin) / unit)


@cache
def orders_of(grades: Order) -> list[Order]:
    return graded_orders(grades)


def smooth_value(name: str, scores: Floats, grades: npt.NDArray[np.int64], tau: float = 1.0) -> float:
    """Eqs. 2.9 to 2.12, and the other metrics with smooth ranks, or smooth comparisons of pairs, spelled out."""
    if name in OWN:
        return of_scores(OWN[name], scores, grades.tolist())
    above = sigmoid((scores[None, :] - scores[:, None]) / tau)  # the chance of the column above the row
    np.fill_diagonal(above, 0)
    rank, relevant, n = 1 + above.sum(1), grades >= (2 if "rel=2" in name else 1), len(scores)
    p, (kind, _, cutoff) = relevant.sum(), name.partition("@")
    k = int(cutoff or 10**9)
    inside = sigmoid((k + 0.5 - rank) / tau)
    if kind.startswith(("nDCG", "DCG")):
        gain = grades if "linear" in kind else 2.0**grades - 1
        discount = np.log2(np.maximum(rank, 2)) if "log2(r)" in kind else np.log2(rank + 1)
        total = float((gain / discount * inside).sum())
        ideal = METRICS[name.replace("nDCG", "DCG")](tuple(sorted(grades.tolist(), reverse=True)))
        return total if kind.startswith("DCG") else total / float(ideal)
    if "p=0.8" in kind:
        total = 0.2 * float((relevant * 0.8 ** (rank - 1)).sum())
        return total / (1 - 0.8 ** float(p)) if kind.startswith("n") else total
    gaps = np.clip(grades[:, None] - grades[None, :], 0, None)  # how much better the row is
    unequal, stops = (gaps > 0).sum(), (2.0**grades - 1) / 16
    if kind.startswith("AP"):
        return float((relevant * inside * (1 + (above * relevant).sum(1)) / rank).sum() / p)
    if kind.startswith("nRBP"):
        return float((relevant * (rank - 1)).sum() - p * (p - 1) / 2)
    return float(
        {
            "RR": lambda: (inside / rank)[relevant].max(),
            "P": lambda: (relevant * inside).sum() / k,
            "Hit": lambda: inside[relevant].max(),
            "Recall": lambda: (relevant * inside).sum() / p,
            "CG": lambda: (grades * inside).sum(),
            "ERR(max=4)": lambda: (inside * stops / rank * np.prod((1 - stops) ** above, axis=1)).sum(),
            "LinearDCG": lambda: (grades * (n - rank)).sum(),
            "PairError": lambda: (gaps * above).sum(),
            "PairError(norm=pairs)": lambda: (gaps * above).sum() / unequal,
            "PairError(norm=max)": lambda: (gaps * above).sum() / gaps.sum(),
            "PairAccuracy": lambda: 1 - ((gaps > 0) * above).sum() / unequal,
            "Kendall": lambda: 0.5 + (unequal / 2 - ((gaps > 0) * above).sum()) / (n * (n - 1) / 2),
            "Kendall(weight=difference)": lambda: 1 - (gaps * above).sum() / gaps.sum(),
        }[kind]()
    )


SMOOTH = (
    *("AP@3", "RR@2", "Hit@2", "Recall@3", "CG@2", "ERR(max=4)", "ERR(max=4)@3", "LinearDCG", "PairError", "nDCG@3"),
    *("PairError(norm=pairs)", "PairError(norm=max)", "PairAccuracy", "Kendall", "Kendall(weight=difference)"),
)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("method", METHODS)
def test_the_smooth_value_of_any_temperature_is_the_written_out_arithmetic(name: str, method: str) -> None:
    scores, relevance, offsets = flat([*GRADED_ROWS, *GENERIC])
    loss = rb.SmoothLoss(name, temperature=0.7, method=method)
    expected = [smooth_value(name, np.array(s), np.array(y), 0.7) for s, y in (*GRADED_ROWS, *GENERIC)]
    found = loss.smooth_value(scores, relevance, rb.Lists(offsets)).detach()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-np.clip(x, -700, 700)))


def smooth(name: str, bound: str, method: str = "auto") -> rb.SmoothLoss:
    return rb.SmoothLoss(OWN.get(name, name), bound, method=method)


every_loss = pytest.mark.parametrize(("name", "bound"), LOSSES)
every_case = pytest.mark.parametrize(
    ("name", "bound", "graded"), [(*pair, graded) for graded, pairs in enumerate((LOSSES, GRADED)) for pair in pairs]
)
every_method = pytest.mark.parametrize("method", METHODS)


def informative(name: str, bound: str, rows: Sequence[Row]) -> list[Row]:
    """The rows that this loss can order: for P@10 of a short list all orders are alike."""
    if bound == "none":
        return list(rows)
    return [row for row in rows if len({ORACLES[name](order) for order in orders_of(tuple(row[1]))}) > 1]


@every_case
@every_method
def test_value_and_gradient_are_the_written_out_arithmetic(name: str, bound: str, graded: bool, method: str) -> None:
    loss = smooth(name, bound, method)
    rows, extreme = (GRADED_ROWS if graded else informative(name, bound, [*GENERIC, *more]) for more in ([], EXTREME))
    values, _ = loss_and_gradient(loss, extreme)
    arithmetic = partial(written_out, name, bound)
    expected = [arithmetic(scores, grades) for scores, grades in extreme]
    # `drawn` multiplies the ranks' own tolerance by a gain of 300,000 and more.
    tolerance = 5e-3 if "drawn" in bound else 1e-6 if graded else 3e-6
    np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
    if "drawn" in bound:
        return  # a step of 1 / 300,000 has no finite differences; the code is that of other gains
    _, gradient = loss_and_gradient(loss, rows)
    expected = [slope for row in rows for slope in differences(lambda s, y, _: arithmetic(s, y), row, 1e-6, 1)]
    scale = max(map(abs, expected), default=1.0)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4 * scale if "distribution" in bound else 1e-7)


@every_loss
@every_method
def test_a_batch_is_its_lists_one_by_one_in_any_precision(name: str, bound: str, method: str) -> None:
    """Binary and graded ones; a list without another order has no information where a bound would divide by 0."""
    graded = GRADED_ROWS if (name, bound) in GRADED else []
    rows = [*graded, *informative(name, bound, GENERIC), *DEGENERATE, *graded[::-1]]
    loss = smooth(name, bound, method)
    rows_of_losses.require_lists_one_by_one(loss, rows)
    silent = WITHOUT_INFORMATION if bound == "none" else [*WITHOUT_INFORMATION, *WITHOUT_ANOTHER_ORDER]
    _, relevance, offsets = flat(silent)
    assert not loss.informative(relevance, rb.Lists(offsets)).any()


def test_smooth_ndcg_may_leave_the_hard_range_and_losses_have_names() -> None:
    """Erratum T-sm-neg: 1/log2(1 + r) is convex, so that ties at the bottom score below the worst order."""
    row = ([-10.0, -10.0, 10.0], [1, 1, 0])
    losses = {
        name: float(loss_and_gradient(rb.SmoothLoss(name, "min-max"), [row])[0]) for name in ("nDCG", "AP", "nRBP")
    }
    assert losses["nDCG"] == pytest.approx(0.0486804834, abs=1e-8)
    assert -1 <= losses["AP"] <= 0
    assert 0 <= losses["nRBP"] <= 1
    loss = rb.SmoothLoss("nDCG(gain=exp2)@10", "min-max", temperature=0.5)
    assert repr(loss) == "SmoothLoss(nDCG@10, bound=min-max, temperature=0.5)"
    assert not list(loss.parameters())
    with pytest.raises(ValueError, match="Did you mean nDCG"):
        rb.SmoothLoss("ndgc")
    with pytest.raises(ValueError, match="Did you mean min-max"):
        rb.SmoothLoss("nDCG", "min_max")
    with pytest.raises(ValueError, match=r"^tables: found distributions of AP, expected those of nDCG"):
        rb.SmoothLoss("nDCG", "distribution", tables=DistributionsOnDemand("AP"))


@pytest.mark.parametrize("bound", ["none", "min-max", "distribution"])
@pytest.mark.parametrize("name", ["nDCG", "AP"])
def test_relevance_is_a_constant(name: str, bound: str) -> None:
    """With or without kernels: relevance that another model computes gets no gradient, not even a part of it."""
    scores = torch.tensor([0.3, -1.2, 2.0, 0.9], dtype=torch.float64).requires_grad_()
    of_dtypes = (torch.tensor([3, 0, 1, 2], dtype=dtype) for dtype in (torch.int64, torch.float16, torch.bfloat16))
    assert len({rb.loss(name, bound)(scores, relevance, [0, 4]).item() for relevance in of_dtypes}) == 1
    relevance, offsets = torch.tensor([1.0, 0.0, 0.0, 1.0]).requires_grad_(), torch.tensor([0, 4])
    rb.loss(name, bound)(scores, relevance, offsets, reduction="mean").backward()  # type: ignore[no-untyped-call]
    rb.loss("squared")(scores, relevance, offsets, reduction="mean").backward()  # type: ignore[no-untyped-call]
    assert relevance.grad is None
    assert scores.grad is not None
    assert not rb.metric(name)(scores, relevance, offsets).requires_grad
    assert rb.bounded(name, bound)(scores.tolist(), relevance, offsets).shape == (1,)
