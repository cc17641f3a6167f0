"""Losses two ways: compiled kernels against the formulas in PyTorch, lists in a batch against the same lists alone.

Arguments are drawn in the forms and with the flaws that callers pass (`drawn_arguments`): both ways have the same value
and gradient, or the same error. A value is relative to itself, at least to 1; a gradient to its largest entry, or to
the loss over the temperature where entries cancel.
"""

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from drawn_arguments import ROUNDS, Drawn, Outcome, drawn, outcome, require_same
from test_every_loss import LOSSES as WRITTEN_OUT
from torch import Tensor

import rankbound as rb
from rankbound.kernels import usable
from rankbound.losses import SmoothLoss

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 1e-2}
"""Half precision is that of the gradient, which has the dtype of the scores."""

PER_DRAW = 3
"""The losses that each draw is passed to."""

SMOOTH = (
    *("nDCG", "nDCG@3", "nDCG(gain=linear,discount=log2(r))@5", "DCG", "CG@4", "AP", "AP(rel=2)@4", "nRBP"),
    *("nRBP(rel=2)", "RR", "P@3", "RBP(p=0.8)", "ERR(max=4)@10"),
)
AFFINE = ("none", "min-max", "expectation", "expectation-max")
LOSSES: dict[str, Callable[[], rb.RankingLoss]] = {
    **{text: (lambda text=text: rb.loss(text)) for text in WRITTEN_OUT if "learn" not in text},  # type: ignore[misc]
    **{f"{text}, {bound}": (lambda t=text, b=bound: rb.loss(t, b)) for text in SMOOTH for bound in AFFINE},  # type: ignore[misc]
    **{f"{text}, distribution": (lambda t=text: rb.loss(t, "distribution")) for text in ("AP", "nRBP")},  # type: ignore[misc]
    **{f"{text}, cold": (lambda t=text: rb.loss(t, temperature=0.3)) for text in ("nDCG@5", "AP", "nRBP")},  # type: ignore[misc]
    **{f"{text}, boxes": (lambda t=text: SmoothLoss(t, method="interpolated")) for text in ("nDCG@5", "AP", "nRBP")},  # type: ignore[misc]
    "AP, pairs": lambda: SmoothLoss("AP", method="direct"),
    "RankNet(method=direct,temperature=0.5)": lambda: rb.loss("RankNet(method=direct,temperature=0.5)"),
    "a sum": lambda: rb.loss("nDCG", "min-max") + 0.5 * rb.loss("RankNet"),
}
LINEAR = ("hinge", "WARP")
"""Losses of the scores' own size."""

FRACTIONS = "relevance: found numbers below 1 alone"


def computed(loss: rb.RankingLoss, arguments: tuple[Any, ...], options: dict[str, Any], *, fast: bool) -> Outcome:
    """The loss and its gradient, or the error; warnings are part of it, and arguments stay as they are."""
    scores, relevance, offsets = arguments
    passed = [values for values in (relevance, offsets, *options.values()) if isinstance(values, Tensor | np.ndarray)]
    before = [_copy(values) for values in passed]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patch.setenv("RANKBOUND_FAST", "1" if fast else "0")
        found = outcome(lambda: loss_and_gradient(loss, scores, relevance, offsets, options))
    for values, copy in zip(passed, before, strict=True):
        np.testing.assert_array_equal(_copy(values), copy)
    messages = {str(warning.message).split(",")[0] for warning in caught}
    assert messages <= {FRACTIONS}, messages
    return Outcome(found.values, f"{found.error}, warned of {messages}" if messages or found.error else None)


def _copy(values: Any) -> Any:
    return values.detach().clone().numpy() if isinstance(values, Tensor) else values.copy()


def loss_and_gradient(
    loss: rb.RankingLoss, scores: Tensor, relevance: Any, offsets: Any, options: dict[str, Any]
) -> dict[str, Tensor]:
    value = loss(scores, relevance, offsets, **options)
    if not scores.requires_grad:
        return {"loss": value}
    upstream = torch.arange(1.0, 1 + value.numel(), dtype=value.dtype).reshape(value.shape)
    (gradient,) = torch.autograd.grad((value * upstream).sum(), scores)
    return {"loss": value, "gradient": gradient}


def require_same_losses(one: Outcome, other: Outcome, name: str, scores: Tensor, context: object) -> None:
    # The distribution's smooth steps are up to a hundred times as steep as the metric.
    relative = TOLERANCES[scores.dtype] * (100.0 if "distribution" in name else 1.0)
    losses = other.values.get("loss", np.zeros(0))
    size = float(np.abs(losses, where=np.isfinite(losses), out=np.zeros_like(losses)).max(initial=1.0))
    if name.startswith(LINEAR):
        size = max(size, float(scores.detach().abs().max()) if len(scores) else 0.0)
    require_same(part(one, "loss"), part(other, "loss"), context, relative=relative, absolute=relative * size)
    if "gradient" in other.values:
        slopes = other.values["gradient"]
        largest = np.abs(slopes, where=np.isfinite(slopes), out=np.zeros_like(slopes)).max(initial=0.0)
        limit = max(float(largest), max(losses.size, 1) * size / (0.3 if "cold" in name else 1.0))
        gradients = part(one, "gradient"), part(other, "gradient")
        require_same(*gradients, context, relative=relative, absolute=relative * limit)


def options_of(draw: Drawn, random: np.random.Generator) -> dict[str, Any]:
    """A reduction, and in some calls weights, which may be flawed, or no validation of valid values."""
    options: dict[str, Any] = {"reduction": str(random.choice(["none", "mean", "sum"]))}
    for name, count in (("weights", len(draw.scores)), ("list_weights", max(len(draw.offsets) - 1, 0))):
        if random.random() < 0.2:
            values = random.choice([0.0, 0.5, 1.0, 3.0], size=count).astype(random.choice([np.float32, np.float64]))
            if random.random() < 0.3 and count:
                values[int(random.integers(count))] = random.choice([np.nan, np.inf, -1.0])
            options[name] = torch.from_numpy(values) if random.random() < 0.5 else values[: count - (count > 3)]
    if draw.flaw is None and random.random() < 0.3:
        options["validate"] = False
    return options


def scores_of(draw: Drawn, random: np.random.Generator) -> Tensor:
    scores: Tensor = draw.passed()[0]
    if scores.dtype == torch.float32 and random.random() < 0.2:
        scores = scores.clamp(-6e4, 6e4).to(random.choice([torch.float16, torch.bfloat16]))
    return scores.requires_grad_() if random.random() < 0.8 else scores


@pytest.mark.skipif(not usable(), reason="needs Numba, and a home folder for compiled code")
@pytest.mark.parametrize("round_", ROUNDS)
def test_kernels_and_formulas_agree_on_whatever_is_passed(round_: int) -> None:
    names = list(LOSSES)
    for place, draw in enumerate(drawn(round_, score_tensors=True)):
        random = np.random.default_rng([round_, place, 1])
        for name in random.choice(names, PER_DRAW, replace=False):
            options, scores = options_of(draw, random), scores_of(draw, random)
            arguments = scores, *draw.passed()[1:]
            by_kernel = computed(LOSSES[name](), arguments, options, fast=True)
            by_formula = computed(LOSSES[name](), arguments, options, fast=False)
            require_same_losses(by_kernel, by_formula, name, scores, f"{name}, {options}: {draw}")


def part(found: Outcome, name: str) -> Outcome:
    return Outcome({name: found.values[name]} if found.values else {}, found.error)


def of_one(batch: Outcome, alone: Outcome, t: int, items: slice) -> tuple[Outcome, Outcome]:
    """Return what a batch has for its list `t`, and what that list has alone, by the gradients of `computed`."""
    of_batch = {"loss": batch.values["loss"][t : t + 1], "gradient": batch.values["gradient"][items]}
    return Outcome(of_batch, None), Outcome(alone.values | {"gradient": alone.values["gradient"] * (t + 1)}, None)


HUGE = {torch.float64: 1e300, torch.float32: 1e30}


@pytest.mark.parametrize("dtype", HUGE, ids=str)
@pytest.mark.parametrize("text", ["nDCG", "AP", "nRBP"])
@pytest.mark.parametrize("method", ["auto", "direct", "interpolated"])
@pytest.mark.usefixtures("each_way")
def test_a_huge_score_leaves_the_others_their_order(text: str, method: str, dtype: torch.dtype) -> None:
    """Relative to the highest score, all others would be rounded to one."""
    loss = SmoothLoss(text, method=method)
    values = []
    for top in (1e3, HUGE[dtype]):
        scores = torch.tensor([1.0, 0.25, top, -0.75, 0.5, 3.0], dtype=dtype)
        values.append(loss(scores, torch.tensor([1, 0, 0, 1, 0, 0]), torch.tensor([0, 6])))
    torch.testing.assert_close(values[1], values[0], rtol=1e-6, atol=0)


BESIDE = (
    *("nDCG, none", "AP, none", "nRBP, none", "RankNet", "RankNet(reduction=sum,weight=difference)"),
    *("RankNet(method=interpolated)", "DirectRanker", "ADR-MSE", "hinge", "WARP", "softmax", "ListMLE", "LambdaRank"),
    "squared",
)
MATES = {
    "a long list": (np.linspace(-3, 3, 2_500), np.arange(2_500) % 2),
    "a wide list": (np.array([1e25, -1e25, 0.0]), np.array([0, 1, 0])),
    "a list of large gaps": (np.linspace(0, 1e12, 50), np.arange(50) % 3),
    "many items": (np.zeros(12_000), np.arange(12_000) % 100 == 0),
}


@pytest.mark.parametrize("fast", [pytest.param(True, marks=pytest.mark.skipif(not usable(), reason="Numba")), False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("mate", MATES)
@pytest.mark.parametrize("name", BESIDE)
def test_a_list_has_the_same_loss_beside_any_other(name: str, mate: str, dtype: torch.dtype, fast: bool) -> None:
    """Beside lists so long or wide that their sums are computed otherwise, or that their numbers are much larger."""
    if mate == "many items" and name == "LambdaRank":
        pytest.skip("takes seconds")
    random = np.random.default_rng(5)
    sizes = [30, 7, 150, 400]
    offsets = np.cumsum([0, *sizes])
    scores, relevance = random.normal(size=offsets[-1]), random.integers(0, 3, offsets[-1])
    beside, grades = MATES[mate]
    whole = torch.tensor(np.concatenate([beside, scores, beside]), dtype=dtype).requires_grad_()
    limits = torch.tensor([0, *(len(beside) + offsets), offsets[-1] + 2 * len(beside)])
    options = {"reduction": "none"}
    together = computed(
        LOSSES[name](), (whole, np.concatenate([grades, relevance, grades]), limits), options, fast=fast
    )
    for t, (start, stop) in enumerate(pairwise(offsets)):
        own = torch.tensor(scores[start:stop], dtype=dtype).requires_grad_(), relevance[start:stop], [0, stop - start]
        alone = computed(LOSSES[name](), own, options, fast=fast)
        items = slice(len(beside) + start, len(beside) + stop)
        pair = of_one(together, alone, t + 1, items)
        exact = fast and LOSSES[name]()._kernel(dtype) is not None
        error, least = 0.0 if exact else 10 * torch.finfo(dtype).eps, 4 * torch.finfo(dtype).eps
        require_same(*(part(one, "loss") for one in pair), (name, mate), relative=error)
        rounding, largest = max(error, least), float(np.abs(pair[1].values["gradient"]).max())
        slopes = (part(one, "gradient") for one in pair)
        require_same(*slopes, (name, mate), relative=rounding, absolute=10 * rounding * largest)
