"""Kernels in Triton against the formulas, in Triton's interpreter: values, gradients, second derivatives, no waiting.

`test_triton` runs these tests in a process of their own: Triton asks when it is loaded whether it interprets.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import test_fuzz_losses
import torch
from test_fuzz_losses import LOSSES
from test_without_waiting import a_gpu, batch, step
from torch import Tensor

import rankbound as rb
from rankbound.kernels import gpu
from rankbound.losses import SmoothLoss, base

# Numbers of lanes without an item, which are not stored.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}

SOFTMAX = ("softmax", "softmax(gain=exp2)", "multinomial", "ListNet@1")
SMOOTH = test_fuzz_losses.SMOOTH[:9]
WEIGHTED = ("softmax", "ListNet@1", "nDCG@3")
BOUNDED = (("nDCG", "min-max"), ("AP", "expectation"), ("nRBP", "expectation-max"), ("nDCG@3", "expectation"))

Steps = tuple[Tensor, Tensor]


def ragged(spread: float, *, ties: bool = False, sizes: tuple[int, ...] = (4, 1, 0, 40, 1, 32, 3)) -> Any:
    """Scores, grades from 0 to 2 and lists: the first has no relevant item, the last those of one grade alone."""
    scores, relevance, lists = batch([*sizes], spread, ties)
    relevance[: sizes[0]], relevance[-sizes[-1] :] = 0, 2
    return scores, relevance, lists


BATCHES = {
    "ragged": ragged(2.0),
    "ties": ragged(1.0, ties=True),
    "all tied": ragged(0.0),
    "huge": ragged(1e8),
    "a cross-entropy's blocks": ragged(3.0, sizes=(3, gpu.BLOCK + 9, 2)),
    "no lists": (torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.int64), rb.Lists(torch.tensor([0]))),
}


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take the kernels; a warning that one is not reliable is an error."""
    monkeypatch.setenv("RANKBOUND_FAST", "triton")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def loss_of(text: str, bound: str = "none") -> rb.RankingLoss:
    return SmoothLoss(text, bound, temperature=0.7, method="direct") if text in SMOOTH else LOSSES[text]()


def require_the_formula(
    make: Callable[[], rb.RankingLoss], *batch: Any, tolerance: float = 1e-10, scale: float = 0.0, **options: Any
) -> Steps:
    """Return the step by the kernel, which is launched, and is that of the formula."""
    with pytest.MonkeyPatch.context() as patch:
        launched, launch = [], gpu._launch
        patch.setattr(gpu, "_launch", lambda *given: (launched.append(given[0]), launch(*given)))
        found = step(make(), *batch, **options)
        assert launched or len(batch[2]) == 0
        count = len(launched)
        patch.setenv("RANKBOUND_FAST", "0")
        expected = step(make(), *batch, **options)
        assert len(launched) == count
    require_equal(found, expected, tolerance, scale)
    return found


def require_equal(found: Steps, expected: Steps, tolerance: float = 0.0, scale: float = 0.0) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        size = max(float(other.nan_to_num().abs().max()), scale) if other.numel() else 1.0
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * size, equal_nan=True)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("text", SOFTMAX + SMOOTH)
def test_values_and_gradients_are_those_of_the_formula(text: str, name: str) -> None:
    scores, relevance, lists = BATCHES[name]
    if name.endswith("blocks") and text not in ("softmax", "ListNet@1"):
        pytest.skip("sums over pairs of a long list are slow in the interpreter")
    if text == "multinomial":
        # A loss of one relevant item per list: the first one of most lists.
        relevance = ((lists.position == 0) & (lists.segment > 0)).to(relevance)
    for dtype, tolerance in TOLERANCES.items():
        # Gradients of tied items cancel, up to the rounding of sums as large as the loss.
        scale = float(len(scores)) if name == "all tied" and dtype == torch.float64 else 0.0
        require_the_formula(lambda: loss_of(text), scores.to(dtype), relevance, lists, tolerance=tolerance, scale=scale)


@pytest.mark.parametrize(("text", "bound"), [*((text, "none") for text in WEIGHTED), *BOUNDED])
def test_weights_of_items_and_lists_bounds_and_reductions(text: str, bound: str) -> None:
    batch = BATCHES["ragged"]
    weights = torch.rand(len(batch[0]), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    own = {"weights": weights.masked_fill(weights < 0.1, 0.0), "list_weights": torch.arange(1.0, 1 + len(batch[2]))}
    for options in (own if bound == "none" else {}, {"reduction": "sum"}, {"reduction": "mean"}):
        require_the_formula(lambda: loss_of(text, bound), *batch, **options)
    if bound == "none":
        single = batch[0].to(torch.float32), *batch[1:]
        require_the_formula(lambda: loss_of(text), *single, tolerance=TOLERANCES[torch.float32], **own)


@pytest.mark.parametrize("text", ["softmax", "nDCG", "AP", "nRBP"])
def test_a_score_that_is_not_a_number_spoils_its_list_alone(text: str) -> None:
    scores, relevance, lists = ragged(2.0, sizes=(3, 40, 5, 9))
    scores, relevance = scores.clone(), relevance.clone()
    scores[10], relevance[11] = torch.nan, 1
    found = require_the_formula(lambda: loss_of(text), scores, relevance, lists)
    assert found[0].isnan().tolist() == [False, True, False, False]
    assert found[1].isnan().equal(lists.segment == 1)


@pytest.mark.parametrize("text", ["softmax", "nDCG@3", "AP"])
def test_a_list_has_the_same_digits_in_any_batch(text: str) -> None:
    scores, relevance, lists = BATCHES["ragged"]
    whole = step(loss_of(text), scores, relevance, lists, list_weights=torch.ones(len(lists)))
    for place, own in enumerate(lists.each()):
        alone = rb.Lists(torch.tensor([0, own.stop - own.start]))
        assert loss_of(text)(scores[own], relevance[own], alone).item() == whole[0][place].item()


@pytest.mark.parametrize("text", ["nDCG", "AP"])
def test_longer_lists_take_the_formula(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LONGEST", 32)
    require_the_formula(lambda: loss_of(text), *BATCHES["ragged"])
    monkeypatch.setattr(gpu, "LONGEST", 0)
    monkeypatch.setattr(gpu, "_launch", None)
    step(loss_of(text), *BATCHES["a cross-entropy's blocks"])


@pytest.mark.parametrize("text", ["softmax", "nDCG", "AP"])
def test_derivatives(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, relevance, lists = ragged(1.0, sizes=(4, 3))
    relevance[4:] = torch.tensor([0, 1, 2])

    def losses(x: Tensor) -> Tensor:
        return loss_of(text)(x, relevance, lists)

    def product() -> Tensor:
        leaf = scores.clone().requires_grad_()
        (gradient,) = torch.autograd.grad((losses(leaf) * torch.tensor([1.0, 0.5])).sum(), leaf, create_graph=True)
        return torch.autograd.grad((gradient * torch.arange(7.0)).sum(), leaf)[0]

    assert torch.autograd.gradcheck(losses, scores.clone().requires_grad_())
    by_kernel = product()
    monkeypatch.setenv("RANKBOUND_FAST", "0")
    torch.testing.assert_close(by_kernel, product())


@pytest.mark.parametrize("text", ["softmax", "nDCG", "a sum"])
def test_other_forms_of_scores(text: str) -> None:
    scores, relevance, lists = BATCHES["ragged"]
    spaced = torch.stack([scores, -scores], 1)[:, 0]
    assert not spaced.is_contiguous()
    require_equal(step(loss_of(text), spaced, relevance, lists), step(loss_of(text), scores, relevance, lists))
    half = scores.to(torch.bfloat16)
    require_the_formula(lambda: loss_of(text), half, relevance.to(torch.int8), lists, tolerance=1e-2)


def test_what_the_formula_refuses() -> None:
    scores, relevance, lists = BATCHES["ragged"]
    for text, grades in (
        ("multinomial", relevance),
        ("softmax(gain=exp2)", relevance * 600),
        ("nDCG", relevance * 600),
    ):
        with pytest.raises(ValueError, match="relevance: found"):
            loss_of(text)(scores, grades, lists)
    with pytest.raises(ValueError, match="scores: found nan"):
        loss_of("nDCG")(scores * torch.nan, relevance, lists)


@pytest.mark.parametrize("text", ["softmax", "nDCG@3", "AP"])
def test_a_step_reads_no_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the launch, by which the interpreter reads the tensors; some lists take the formula."""
    scores, relevance, lists = BATCHES["ragged"]
    monkeypatch.setattr(gpu, "LONGEST", 35)
    loss = loss_of(text)
    with a_gpu(watched=False):
        step(loss, scores, relevance, lists)
    launched: list[Any] = []
    monkeypatch.setattr(gpu, "_launch", lambda kernel, *_: launched.append(kernel))
    with a_gpu(watched=True):
        step(loss, 3 * scores, relevance, lists)
    assert launched


@pytest.mark.parametrize("flaw", ["other values", "cannot be used"])
def test_a_kernel_that_fails_or_differs_is_not_used(flaw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, relevance, lists = BATCHES["ragged"]
    monkeypatch.setattr(base, "_RELIABLE", {})
    launch = gpu._launch

    def flawed(kernel: Any, programs: int, *arguments: Any) -> None:
        if flaw == "cannot be used":
            raise RuntimeError("no C compiler")
        launch(kernel, programs, *arguments)
        arguments[-4].mul_(1.001)

    monkeypatch.setattr(gpu, "_launch", flawed)
    with pytest.warns(UserWarning, match=rf"softmax: its kernel in Triton .*{flaw}"):
        found = step(LOSSES["softmax"](), scores, relevance, lists)
    # It is tried once.
    step(LOSSES["softmax"](), scores, relevance, lists)
    monkeypatch.setenv("RANKBOUND_FAST", "0")
    require_equal(found, step(LOSSES["softmax"](), scores, relevance, lists))
