"""Every loss that is not a metric's has every property: losses x what a training run relies on.

A loss joins by being listed, by its text, with its arithmetic written out. The losses of metrics have a matrix of their
own (`test_loss_matrix`).
"""

import ast
import copy
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import loss_arithmetic as by_hand
import numpy as np
import pytest
import torch
from loss_arithmetic import Arithmetic
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import KINDS
from rankbound.texts import split_text
from tests.library.refusals import problems

OF_METRICS = [
    f"{name}(metric={metric})"
    for name in ("LambdaRank", "SoftRank", "PiRank", "NeuralNDCG")
    for metric in by_hand.SWAPPED
    if metric != "nDCG"
]


def by_text(text: str) -> Arithmetic:
    name, parameters, cutoff = split_text(text, "loss")
    known: dict[str, Any] = {"k": cutoff} if cutoff else {}
    for key in parameters.keys() - {"method", "learn"}:
        known[key] = ast.literal_eval(parameters[key]) if parameters[key][0].isdigit() else parameters[key]
    return by_hand.KINDS[name](**known)


LOSSES = {text: by_text(text) for text in (*by_hand.TEXTS.split(), *OF_METRICS)}
"""Text to arithmetic."""

POINTWISE = ("squared", "logistic", "ordinal")
"""Losses that know nothing of order: no shift of all scores leaves them as they are, and they count every list."""

SHIFTED = (*POINTWISE, "RankCosine", "TFMAP", "CLiMF")
"""Losses of the scores themselves, not only of their differences."""

OF_RANK_CHANCES = ("SoftRank", "PiRank", "NeuralNDCG")

ONE_GRADE_SAYS_NOTHING = ("ADR-MSE", "LambdaRank", "LambdaLoss", "RankNet", "hinge", "DirectRanker", "WARP")
"""Losses for which a list needs two grades."""

WITHOUT_CURVATURE = [text for text in LOSSES if text.startswith(by_hand.WITHOUT_CURVATURE)]
"""Losses whose Hessian's diagonal has no closed form."""

Row = tuple[list[float], list[int]]
"""Scores and grades of one list."""

# No two scores are a margin apart, where hinges have a kink.
GENERIC: list[Row] = [
    ([0.3, -1.2, 2.0, 0.9], [1, 0, 0, 1]),
    ([-0.7, 0.2, 0.25, 3.0, -2.0, 0.0], [0, 0, 1, 0, 0, 0]),
    ([0.3, -1.2, 2.0, 0.9], [2, 0, 1, 0]),
    ([1.0, 0.1, -0.35, 0.2, 0.75], [0, 0, 1, 4, 2]),
    ([0.0, 2.0, 1.0], [2, 0, 0]),
    ([1.5, -0.5, 0.4, 2.2, 0.95], [1, 2, 0, 2, 2]),
]
ONE_GRADE: list[Row] = [([0.7], [1]), ([0.3, -0.2, 5.0], [1, 1, 1]), ([1.0, 1.0], [2, 2]), ([0.1], [2])]
WITHOUT_RELEVANT: list[Row] = [([1.0, 2.0, 3.0], [0, 0, 0]), ([0.5], [0]), ([0.0, 0.0], [0, 0])]
EMPTY: list[Row] = [([], [])]
TIED: list[Row] = [
    ([0.0, 0.0, 0.0, 0.0], [1, 0, 0, 2]),
    ([1.0, 1.0], [0, 1]),
    ([2.0, 0.5, 0.5, 0.5, 2.0, 0.1], [0, 0, 1, 0, 0, 0]),
    ([0.5, 2.0, 0.5, 2.0, 0.5], [2, 0, 1, 1, 0]),
]
FAR: list[Row] = [
    ([1e4, 0.0, -1e4, 3.0], [1, 0, 2, 0]),
    ([-1e4, 1e4, 0.0], [1, 0, 0]),
    ([1e4, 1e4, 0.0, 0.1], [0, 2, 0, 0]),
    ([0.0, 1e4, 1e4 + 1], [2, 1, 0]),
]
DEGENERATE = [*EMPTY, *WITHOUT_RELEVANT, *GENERIC[:1], *ONE_GRADE, *TIED, *EMPTY, *FAR, *EMPTY]


def fitting(text: str, rows: Sequence[Row]) -> list[Row]:
    name, parameters, _ = split_text(text, "loss")
    if name == "multinomial":
        return [row for row in rows if sum(grade >= int(parameters.get("rel", 1)) for grade in row[1]) <= 1]
    if name == "RankCosine":
        # Scores of 0 have no direction.
        return [row for row in rows if any(row[0]) or not row[0]]
    if name == "ordinal":
        return [row for row in rows if max(row[1], default=0) < int(parameters.get("grades", 3))]
    return list(rows)


def flat(rows: Sequence[Row], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    scores = torch.tensor([score for row, _ in rows for score in row], dtype=dtype, requires_grad=True)
    relevance = torch.tensor([grade for _, row in rows for grade in row], dtype=torch.int64)
    return scores, relevance, torch.tensor([0, *(len(row) for row, _ in rows)]).cumsum(0)


def loss_and_gradient(loss: Callable[..., Tensor], rows: Sequence[Row], dtype: torch.dtype = torch.float64) -> Any:
    scores, relevance, offsets = flat(rows, dtype)
    values = loss(scores, relevance, offsets)
    (gradient,) = torch.autograd.grad(values.sum(), scores)
    return values.detach(), gradient


def differences(arithmetic: Arithmetic, row: Row, step: float, order: int) -> list[float]:
    """First or second central differences of the written-out loss, the ranks in its weights held."""
    scores, grades = np.array(row[0]), row[1]
    found = []
    for move in step * np.eye(len(scores)):
        up, down = (arithmetic(list(scores + way * move), grades, row[0]) for way in (1, -1))
        here = arithmetic(list(scores), grades, row[0]) if order == 2 else 0.0
        found.append((up - down) / (2 * step) if order == 1 else (up - 2 * here + down) / step**2)
    return found


every_loss = pytest.mark.parametrize("text", LOSSES)
one_of_each_kind = pytest.mark.parametrize("text", [*KINDS, "nDCG"])


def test_every_kind_of_loss_is_listed() -> None:
    assert {split_text(text, "loss")[0] for text in LOSSES} == set(KINDS)


@every_loss
def test_values_and_derivatives_are_those_of_the_written_out_arithmetic(text: str) -> None:
    # Interpolated sums have errors of their own.
    loss, arithmetic, wide = rb.loss(text), LOSSES[text], 100 if "interpolated" in text else 1
    rows, far = fitting(text, [*GENERIC, *ONE_GRADE, *WITHOUT_RELEVANT, *TIED]), fitting(text, FAR)
    values, gradient = loss_and_gradient(loss, rows + far)
    expected = [arithmetic(scores, grades, scores) for scores, grades in rows + far]
    np.testing.assert_allclose(values, expected, rtol=1e-9 * wide, atol=1e-12)
    slopes, bends = (
        [one for row in rows for one in differences(arithmetic, row, step, order)]
        for step, order in ((1e-5, 1), (1e-3, 2))
    )
    # At ties, distances of scores have a kink, where central differences are off by about the step.
    rough = 1000 if text.startswith("PiRank") else wide
    np.testing.assert_allclose(gradient[: len(slopes)], slopes, rtol=1e-7 * rough, atol=1e-8 * rough)
    scores, relevance, offsets = flat(rows)
    curvature = loss.curvature(scores, relevance, Lists(offsets))
    assert (curvature is None) == (text in WITHOUT_CURVATURE)
    if curvature is not None:
        assert not curvature.requires_grad
        np.testing.assert_allclose(curvature, bends, rtol=1e-5, atol=1e-6 * wide)


def require_lists_one_by_one(loss: rb.RankingLoss, rows: Sequence[Row]) -> None:
    """Lists without information are 0 with no gradient; gaps of 1e4 must not cost the digits of small ones."""
    values, gradient = loss_and_gradient(loss, rows)
    of_row = cache(lambda place: loss_and_gradient(loss, [rows[place]]))
    alone = [of_row(rows.index(row)) for row in rows]
    torch.testing.assert_close(values, torch.cat([value for value, _ in alone]), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(gradient, torch.cat([own for _, own in alone]), rtol=1e-9, atol=1e-12)
    scores, relevance, offsets = flat(rows)
    lists = Lists(offsets)
    silent = ~loss.informative(relevance, lists)
    assert silent[[not row for row, _ in rows]].all()
    single = loss_and_gradient(loss, rows, torch.float32)
    for losses, slopes in ((values, gradient), single):
        assert not losses[silent].any()
        assert not slopes[lists.spread(silent)].any()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(loss_and_gradient(loss, rows, torch.float32), single, rtol=1e-6, atol=1e-6)
    assert single[0].shape == values.shape == (len(rows),)
    assert (single[0].dtype, single[1].dtype, gradient.dtype) == (torch.float32, torch.float32, torch.float64)
    curvatures = [loss.curvature(leaf, relevance, lists) for leaf in (scores, scores.float())]
    for found in (values, gradient, *single, *curvatures):
        assert found is None or torch.isfinite(found).all(), found
    torch.testing.assert_close([one.double() for one in single], [values, gradient], rtol=1e-5, atol=3e-6)


@every_loss
def test_a_batch_is_its_lists_one_by_one_in_any_precision(text: str) -> None:
    require_lists_one_by_one(rb.loss(text), fitting(text, [*GENERIC, *DEGENERATE]))


@every_loss
def test_which_lists_carry_information(text: str) -> None:
    name = split_text(text, "loss")[0]

    def informative(rows: list[Row]) -> list[bool]:
        _, relevance, offsets = flat(fitting(text, rows))
        found: list[bool] = rb.loss(text).informative(relevance, Lists(offsets)).tolist()
        return found

    assert not any(informative(EMPTY * 3))
    assert all(one == (name in POINTWISE) for one in informative(WITHOUT_RELEVANT))
    if name in ONE_GRADE_SAYS_NOTHING and "ndcg-loss1" not in text:
        assert not any(informative(ONE_GRADE))
    assert all(informative([([0.0, 1.0, 2.0], [0, 2, 0])]))


@every_loss
def test_the_order_of_items_does_not_count_and_a_shift_of_all_scores_does_for_pointwise_losses_only(text: str) -> None:
    loss = rb.loss(text)
    for scores, grades in fitting(text, [*GENERIC, *TIED, *FAR]):
        order = torch.arange(len(scores)).flip(0).roll(1)
        value, gradient = loss_and_gradient(loss, [(scores, grades)])
        shuffled = loss_and_gradient(loss, [([scores[i] for i in order], [grades[i] for i in order])])
        torch.testing.assert_close(shuffled, (value, gradient[order]), rtol=1e-9, atol=1e-9)
        if (scores, grades) in FAR:
            continue
        shifted = loss_and_gradient(loss, [([score + 8.0 for score in scores], grades)])
        if split_text(text, "loss")[0] in SHIFTED:
            assert shifted[0] != value or abs(float(gradient.sum())) < 1e-9
        else:
            torch.testing.assert_close(shifted, (value, gradient), rtol=1e-9, atol=1e-9)


# PyTorch's own, which are errors in tests.
OF_COMPILATION = (
    "ignore:.*Function.* should not be instantiated:DeprecationWarning",
    "ignore:The .grad attribute of a Tensor that is not a leaf",
)


def ignored_warnings(test: Any) -> Any:
    for warning in OF_COMPILATION:
        test = pytest.mark.filterwarnings(warning)(test)
    return test


@ignored_warnings
@one_of_each_kind
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_a_compiled_step_is_one_graph_for_batches_of_any_shape(text: str, reduction: Any) -> None:
    loss = copy.deepcopy(rb.loss(text))
    torch._dynamo.reset()
    graphs = CompileCounterWithBackend("aot_eager")

    def step(scale: Tensor, scores: Tensor, relevance: Tensor, offsets: Tensor) -> Tensor:
        weights = torch.arange(1, len(offsets), dtype=scores.dtype)
        return 2 * loss(scores * scale, relevance, offsets, list_weights=weights, reduction=reduction)

    compiled, compilations = torch.compile(step, fullgraph=True, dynamic=True, backend=graphs), set[int]()
    for rows in (GENERIC, [*GENERIC, *TIED], [*TIED, *TIED, *GENERIC]):
        batch = tuple(column.detach() for column in flat(fitting(text, rows)))
        scales = [torch.ones((), dtype=torch.float64, requires_grad=True) for _ in range(2)]
        values = [one(scale, *batch) for one, scale in zip((step, compiled), scales, strict=True)]
        torch.testing.assert_close(values[1], values[0], rtol=0, atol=0)
        slopes = [torch.autograd.grad(value.sum(), scale)[0] for value, scale in zip(values, scales, strict=True)]
        torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-12, atol=1e-12)
        compilations.add(graphs.frame_count)
    assert len(compilations) == 1


@ignored_warnings
@pytest.mark.parametrize("text", ["squared", "RankNet", "WARP", "multinomial", "nDCG"])
def test_a_compiled_step_needs_no_gradient_and_takes_lists_of_numbers(text: str) -> None:
    loss, (scores, relevance, offsets) = rb.loss(text), flat(fitting(text, GENERIC))
    torch._dynamo.reset()
    with torch.no_grad():
        plain = torch.compile(loss, fullgraph=True, backend="eager")(scores, relevance, offsets, reduction="mean")
        torch.testing.assert_close(plain, loss(scores, relevance, offsets, reduction="mean"))
    # The graph breaks at arguments that are no tensors.
    broken = torch.compile(loss, backend="eager")(scores, relevance.tolist(), offsets.tolist())
    torch.testing.assert_close(broken, loss(scores, relevance, offsets))


@ignored_warnings
def test_a_compiled_step_learns_what_the_loss_learns() -> None:
    loss, (scores, relevance, offsets) = rb.loss("ordinal(grades=5,learn=true)"), flat(GENERIC)
    torch._dynamo.reset()
    values = [one(scores, relevance, offsets).sum() for one in (loss, torch.compile(loss, backend="eager"))]
    slopes = [torch.autograd.grad(value, [*loss.parameters()]) for value in values]
    torch.testing.assert_close(slopes[1], slopes[0])
    assert any(slope.any() for slope in slopes[0])


@every_loss
def test_relevance_may_be_any_number_and_no_gradient_is_needed(text: str) -> None:
    loss, (scores, relevance, offsets) = rb.loss(text), flat(fitting(text, GENERIC))
    expected = loss(scores, relevance, offsets)
    for dtype in (torch.int8, torch.uint8, torch.float16, torch.bfloat16, torch.float32):
        torch.testing.assert_close(loss(scores, relevance.to(dtype), offsets), expected, rtol=1e-13, atol=0)
    found = loss(scores.detach(), relevance, offsets)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(loss(scores, relevance, offsets), found, rtol=0, atol=0)


@every_loss
def test_a_batch_without_items_has_a_loss_whose_text_builds_it_again(text: str) -> None:
    for sizes in ([], [0], [0, 0]):
        scores = torch.zeros(0, requires_grad=True)
        values = rb.loss(text)(scores, torch.zeros(0), torch.tensor([0, *sizes]))
        assert values.tolist() == [0] * len(sizes)
        values.sum().backward()
    loss = rb.loss(text)
    assert bool(list(loss.parameters())) == ("learn=true" in text)
    assert loss.text == text
    assert repr(loss) == f"{type(loss).__name__}({text})"
    assert rb.loss(loss.text).text == text


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        *(({k: torch.tensor(v) for k, v in given.items()}, said) for given, said in problems("arguments of losses")),
        ({"scores": torch.zeros(3, 1)}, "^scores: found shape"),
        ({"relevance": torch.tensor([1, 2**63 + 5, 0], dtype=torch.uint64)}, "expected integers below 2\\^63"),
        ({"relevance": torch.zeros(3, device="meta")}, "^relevance: found on meta, expected on cpu beside the scores"),
        ({"offsets": torch.zeros(2, device="meta")}, "^offsets: found "),
    ],
)
@one_of_each_kind
@pytest.mark.usefixtures("each_way")
def test_bad_arguments_are_named_under_transforms_too(changed: dict[str, Tensor], message: str, text: str) -> None:
    arguments = {"scores": torch.zeros(3), "relevance": torch.tensor([1, 0, 0]), "offsets": torch.tensor([0, 3])}
    scores, *others = (arguments | changed).values()
    with pytest.raises(ValueError, match=message):
        rb.loss(text)(scores, *others)
    if scores.is_floating_point():
        with pytest.raises(ValueError, match=message):
            torch.func.grad(lambda x: rb.loss(text)(x, *others).sum())(scores)
