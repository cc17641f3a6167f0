"""No step with `validate=False` reads a number back from a GPU, which would wait for all that was asked of it before.

On a CPU, a GPU is imitated: tensors deny that they are on a CPU, and operators whose result's shape, or whose reader,
depends on numbers are errors. The values are those of the CPU's own way: of losses, and of the evaluation of tensors
on a GPU, from one sort. Where there is a GPU, PyTorch itself refuses.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import brute_force
import numpy as np
import pytest
import torch
from test_fuzz_losses import LOSSES
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import rankbound as rb
from rankbound.lists import waiting
from rankbound.metrics import base
from rankbound.ranks import block_starts, descending_order

DEPENDENT = {"_local_scalar_dense", "nonzero", "argwhere", "is_nonzero", "equal", "masked_select", "bincount"}
DEPENDENT |= {"unique_dim", "_unique", "_unique2", "unique_consecutive", "unique_dim_consecutive"}
READERS = {"tolist", "numpy", "cpu", "item", "__array__", "tensor", "new_tensor", "from_numpy", "as_tensor"}
"""Functions that copy numbers from a GPU, or to it one call at a time."""

WAITING = {"WARP(samples=": "draws on the CPU, as many as there are relevant items: the same ones on each device"}
"""Losses that read numbers, with the reason."""

DRAWN = ("XE-NDCG(draw", "sampled")
LONGEST = {"ListNet@": 6, "SoftRank": 40, "NeuralNDCG": 40, "PiRank": 40}
"""Losses of all orders, or of all ranks of each item: lists of at most so many items, no other way for longer ones."""

INTERPOLATED = 1e-6
"""The relative error of interpolated sums, beside sums over pairs."""
BATCHES: dict[str, tuple[list[int], float, bool]] = {
    "short": ([3, 1, 0, 12, 2, 40], 3.0, False),
    "tied": ([1, 1, 30, 0, 9, 0], 3.0, True),
    "long": ([300, 5, 400], 100.0, False),
}
"""Numbers of items, the spread of their scores, and whether these tie."""

LOSSES = LOSSES | {"sampled": lambda: rb.sampled(rb.loss("nDCG", "expectation")), "TFMAP": lambda: rb.loss("TFMAP")}
FREE = [text for text in LOSSES if not any(part in text for part in WAITING)]


class Unread(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuse operators that read numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, options = func.overloadpacket.__name__.rstrip("_"), kwargs or {}
        masks = args[1] if name in ("index", "index_put", "_index_put_impl") else ()
        sized = name == "repeat_interleave" and options.get("output_size") is None
        if name.strip("_") in {one.strip("_") for one in DEPENDENT} or sized:
            raise AssertionError(f"{func} reads a number")
        if any(mask is not None and mask.dtype in (torch.bool, torch.uint8) for mask in masks):
            raise AssertionError(f"{func} with a mask reads the number of its items")
        return func(*args, **options)


class Uncopied(TorchFunctionMode):
    """Refuse functions that copy numbers between devices."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in READERS:
            raise AssertionError(f"{func} copies numbers")
        return func(*args, **(kwargs or {}))


@contextmanager
def a_gpu(*, watched: bool) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "is_cpu", False)
        if not watched:
            yield
            return
        with Uncopied(), Unread():  # type: ignore[no-untyped-call]
            yield


def batch(sizes: list[int], spread: float = 3.0, ties: bool = False) -> tuple[Tensor, Tensor, rb.Lists]:
    random = np.random.default_rng(len(sizes))
    scores = torch.from_numpy(random.normal(0, spread, sum(sizes)))
    grades = torch.from_numpy(random.choice(3, sum(sizes), p=[0.7, 0.2, 0.1]))
    return scores.round() if ties else scores, grades, rb.Lists.of_sizes(torch.tensor(sizes))


def step(
    loss: rb.RankingLoss, scores: Tensor, relevance: Tensor, lists: rb.Lists, **options: Any
) -> tuple[Tensor, Tensor]:
    leaf = scores.clone().requires_grad_()
    losses = loss(leaf, relevance, lists, validate=False, **options)
    upstream = torch.arange(1.0, 1 + losses.numel(), dtype=losses.dtype)
    (gradient,) = torch.autograd.grad((losses * upstream.to(losses.device)).sum(), leaf)
    return losses.detach(), gradient


def batch_for(name: str, sizes: list[int], spread: float, ties: bool) -> tuple[Tensor, Tensor, rb.Lists]:
    """A batch whose relevance the loss accepts: the grades, for losses of few relevant items or lists fewer of them."""
    longest = next((most for start, most in LONGEST.items() if name.startswith(start)), max(sizes))
    scores, grades, lists = batch([min(size, longest) for size in sizes], spread, ties)
    if name.startswith("multinomial"):
        return scores, (lists.position == 0).to(grades), lists
    return scores, grades.clamp(max=1) if "distribution" in name or "max=1" in name else grades, lists


@pytest.mark.parametrize("name", FREE)
def test_a_step_reads_no_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties, ranks and boxes are those of its scores, others than in the step that knew the lists first."""
    monkeypatch.setenv("RANKBOUND_FAST", "0")
    for shape in BATCHES.values():
        scores, relevance, lists = batch_for(name, *shape)
        expected, loss = step(LOSSES[name](), scores, relevance, lists), LOSSES[name]()
        with a_gpu(watched=False):
            step(loss, scores / 50, relevance, lists)
        with a_gpu(watched=True):
            found = step(loss, scores, relevance, lists)
        # Those that draw have drawn twice.
        for one, other in zip(found, expected, strict=True) if not name.startswith(DRAWN) else ():
            limit = INTERPOLATED * max(float(other.abs().max()), 1.0)
            torch.testing.assert_close(one, other, rtol=INTERPOLATED, atol=limit)


def test_what_is_known_of_relevance_ends_with_a_change_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKBOUND_FAST", "0")
    scores, relevance, lists = batch([4, 6])
    with torch.inference_mode():
        untracked = relevance.clone()
    loss = rb.loss("nDCG", "min-max")
    for grades in (relevance, untracked):
        for place in range(3):
            with torch.inference_mode(grades.is_inference()):
                grades[place] += 1
            with a_gpu(watched=False):
                found = step(loss, scores, grades, lists)
            expected = step(loss, scores, grades.clone(), rb.Lists(lists.offsets.clone()))
            torch.testing.assert_close(found, expected)


def test_what_reads_a_number_is_refused() -> None:
    numbers = torch.arange(3.0)
    readers: list[Callable[[], Any]] = [
        lambda: bool(numbers.any()),
        lambda: numbers[numbers > 1],
        lambda: torch.nonzero(numbers),
        lambda: torch.unique(numbers),
        lambda: torch.repeat_interleave(torch.arange(3)),
        numbers.tolist,
        lambda: torch.tensor([1.0]),
    ]
    for read in readers:
        with pytest.raises(AssertionError, match=r"reads|copies"), a_gpu(watched=True):
            read()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_step_on_a_gpu_waits_for_nothing() -> None:
    for name, shape in itertools.product(FREE, BATCHES.values()):
        scores, relevance, lists = batch_for(name, *shape)
        scores, relevance, lists = scores.cuda(), relevance.cuda(), rb.Lists(lists.offsets.cuda())
        loss = LOSSES[name]()
        step(loss, scores, relevance, lists)
        torch.cuda.set_sync_debug_mode("error")
        try:
            step(loss, scores, relevance, lists)
        finally:
            torch.cuda.set_sync_debug_mode("default")


# The evaluation on a GPU
METRICS = [text for text in (*brute_force.METRICS, "RR@30", "Recall@50") if base.formula_of(rb.metric(text))]
OTHERS = ["ERR(max=4)", "AP(divisor=cutoff)@3", "Rprec", "Kendall"]

SIZES = [3, 0, 1, 40, 200, 7, 0]


def judged_lists(kind: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    sizes = {"no lists": [], "no items": [0, 0]}.get(kind, SIZES)
    random, n = np.random.default_rng(3), sum(sizes)
    scores = random.normal(size=n)
    if kind != "without ties":
        scores = np.zeros(n) if kind == "all tied" else scores.round()
    relevance = random.integers(0, 5, n) * (random.random(n) < 0.3)
    relevance[:3] = 0
    return torch.from_numpy(scores), torch.from_numpy(relevance), torch.tensor([0, *sizes]).cumsum(0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", ["ties", "all tied", "without ties", "no lists", "no items"])
def test_values_are_those_of_the_cpu(kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, relevance, offsets = judged_lists(kind)
    for grades in (relevance, relevance.clamp(max=1), relevance.to(torch.float64) / 2, 0 * relevance):
        arguments: Any = METRICS + OTHERS, scores.to(dtype), grades, offsets
        expected = rb.evaluate(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(base, "_computed_together", lambda _: True)
            found = rb.evaluate(*arguments)
        assert list(found) == list(expected)
        for name, values in expected.items():
            close = {"rtol": 1e-12, "atol": 1e-12, "equal_nan": True, "err_msg": name}
            np.testing.assert_allclose(found[name], values, **close)


def test_sums_copy_nothing_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """From sorted items to values, once the lists and tables are known."""
    scores, relevance, offsets = judged_lists("ties")
    lists, known = rb.Lists(offsets), base._formulas_of(map(rb.metric, METRICS))

    def values() -> dict[rb.Metric, torch.Tensor]:
        sorted_lists = base.SortedLists(ranked, starts, lists)
        return {metric: sorted_lists.value(metric, formula) for metric, formula in known.items()}

    order = descending_order(scores, lists)
    ranked, starts = relevance[order].to(torch.float64), block_starts(scores[order], lists)
    expected = values()
    with waiting(False), a_gpu(watched=True):
        found = values()
    for metric, known_values in expected.items():
        torch.testing.assert_close(found[metric], known_values, equal_nan=True)
