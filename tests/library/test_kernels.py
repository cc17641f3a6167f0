"""Compiled kernels against their references: values, gradients, second derivatives; where they aren't used."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from test_fuzz_losses import LOSSES, computed, loss_and_gradient, require_same_losses
from torch import Tensor

import rankbound as rb
from rankbound.kernels import cache_folder, usable
from rankbound.kernels.formulas import BAND, ORDER
from rankbound.losses import SmoothLoss
from tests.forks import run_with_torch

pytest.importorskip("numba")
import numba

from rankbound.kernels.parts import ascending, exponentials, logarithms_of_next
from rankbound.kernels.smooth import pays

pytestmark = pytest.mark.skipif(not usable(), reason="needs Numba, and a home folder for compiled code")
Batch = tuple[Tensor, Tensor, Tensor]
DTYPES = (torch.float32, torch.float64)

BY_KERNEL = [
    *("nDCG, none", "nDCG@3, none", "nDCG(gain=linear,discount=log2(r))@5, none", "DCG, none", "CG@4, none"),
    "AP, none",
    *("AP(rel=2)@4, none", "nRBP, none", "nRBP(rel=2), none", "nDCG, min-max", "nDCG, expectation-max"),
    *("AP, expectation", "nRBP, distribution", "nDCG@5, cold", "AP, boxes", "AP, pairs"),
    *("softmax", "softmax(gain=exp2)", "ListNet@1", "RankNet", "RankNet(reduction=sum,weight=difference)"),
    *("RankNet(method=direct,temperature=0.5)", "ListMLE", "ListMLE@2"),
    *("LambdaRank", "LambdaRank(metric=nDCG@3)", "LambdaRank(metric=nDCG(gain=linear)@2)"),
]


def batch_of(scores: list[float], relevance: list[int], *sizes: int) -> Batch:
    offsets = torch.tensor([0, *(sizes or [len(scores)])]).cumsum(0)
    return torch.tensor(scores, dtype=torch.float64), torch.tensor(relevance, dtype=torch.int64), offsets


def ragged(sizes: list[int], spread: float, highest: int, seed: int = 0) -> Batch:
    """Lists with a relevant item in two of three, scores of this spread with ties, and grades up to `highest`."""
    random, n = np.random.default_rng(seed), sum(sizes)
    scores = np.where(random.random(n) < 0.2, 0.25, random.normal(size=n)) * spread
    relevance = random.integers(0, highest + 1, n) * (random.random(n) < 0.4)
    relevance[: sizes[0]] = 0
    return batch_of(scores.tolist(), relevance.tolist(), *sizes)


BATCHES = {
    "short lists": ragged([4, 7, 0, 1, 12, 2, 30], 1.0, 1),
    "grades": ragged([4, 7, 0, 1, 12, 2, 30], 2.0, 4, seed=1),
    "far apart": ragged([6, 40, 3, 1], 60.0, 2, seed=2),
    "close together": ragged([6, 40, 3], 1e-3, 2, seed=3),
    "all tied": batch_of([0.0] * 9, [0, 0, 1, 0, 2, 0, 1, 1, 0], 4, 5),
    "long lists": ragged([3, 60, 200, 700, 1_500], 3.0, 2, seed=4),
    "wide long lists": ragged([3, 60, 200, 700], 100.0, 3, seed=6),
    "boxes far apart": ragged([2, 400], 2_000.0, 1, seed=5),
    "an item far from the others": batch_of([1e3, 0.3, 0.1, 0.0, -0.4, 2.0], [0, 1, 0, 1, 0, 1]),
    "no lists": (torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.int64), torch.tensor([0])),
}


WIDE = ("far apart", "boxes far apart", "wide long lists", "an item far from the others")


def results(loss: rb.RankingLoss, batch: Batch, *, fast: bool = True) -> tuple[Tensor, ...]:
    """The losses and their gradient."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKBOUND_FAST", "1" if fast else "0")
        found = loss_and_gradient(loss, batch[0].clone().requires_grad_(), *batch[1:], {})
        return found["loss"].detach(), found["gradient"]


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("text", [*BY_KERNEL, "a sum"])
def test_the_reference_has_the_same_values_and_gradients(text: str, name: str) -> None:
    loss, batch = LOSSES[text](), BATCHES[name]
    for reduction in ("none", "mean", "sum"):
        arguments, options = (batch[0].clone().requires_grad_(), *batch[1:]), {"reduction": reduction}
        by_kernel, by_formula = (computed(loss, arguments, options, fast=fast) for fast in (True, False))
        require_same_losses(by_kernel, by_formula, text, batch[0], name)
    some = bool(loss.informative(batch[1], rb.Lists(batch[2])).any())
    assert text == "a sum" or name in WIDE or (loss._fused(*batch) is not None) == some


# As a sigmoid or an exponential gives them: relative to the highest, they would be rounded to one score.
FAR_BELOW = batch_of([1.0, 1e-17, 3e-18, 2e-18, 0.0, 1e-18], [0, 0, 2, 1, 0, 1])
BEYOND = batch_of([1.7e308, -1.7e308, -1.7e308, 1.6e308], [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("text", "dtype", "batch"),
    [
        *((text, dtype, FAR_BELOW) for text in ("LambdaRank", "LambdaRank(metric=nDCG@3)") for dtype in DTYPES),
        *((text, torch.float64, BEYOND) for text in ("nDCG", "nDCG@3", "AP", "nRBP")),
    ],
)
def test_tiny_gaps_are_no_ties_and_huge_ones_have_the_reference(text: str, dtype: torch.dtype, batch: Batch) -> None:
    loss, batch = rb.loss(text), (batch[0].to(dtype), *batch[1:])
    assert batch[0].abs().max() > 1 or loss._fused(*batch) is not None
    for found, expected in zip(*(results(loss, batch, fast=fast) for fast in (True, False)), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
        assert torch.isfinite(found).all()


@pytest.mark.parametrize("text", ["nDCG", "AP", "nRBP", "softmax", "ListNet", "RankNet", "ListMLE", "LambdaRank"])
@pytest.mark.parametrize("method", ["direct", "interpolated"])
def test_results_depend_neither_on_addresses_nor_on_threads(text: str, method: str) -> None:
    loss = rb.loss(text) if text not in ("nDCG", "AP", "nRBP") else rb.SmoothLoss(text, method=method)
    batch, kept = ragged([40, 7, 300, 2], 4.0, 2, seed=7), []
    first = results(loss, batch)
    for size in range(200):
        kept.append(torch.empty(size * 7 + 1))
        assert all(map(torch.equal, first, results(loss, batch)))
    many = ragged([30] * 50, 1.0, 2, seed=8)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: results(loss, many), range(8)))
    assert all(torch.equal(one, other) for each in found for one, other in zip(each, found[0], strict=True))


def test_subclasses_that_change_a_loss_or_a_metric_are_not_taken_for_it() -> None:
    class Twice(SmoothLoss):
        def smooth_value(self, scores: Tensor, relevance: Tensor, lists: rb.Lists) -> Tensor:
            return 2 * super().smooth_value(scores, relevance, lists)

    class Halved(type(rb.metric("nDCG"))):  # type: ignore[misc]
        def gains(self, relevance: Tensor) -> Tensor:
            return super().gains(relevance.clamp(max=1))

    batch = BATCHES["grades"]
    torch.testing.assert_close(Twice("nDCG")(*batch), 2 * rb.loss("nDCG")(*batch))
    # The ideal order counts grades, so that only lists of equal grades tell the gains.
    clamped = batch[0], batch[1].clamp(max=1), batch[2]
    assert rb.SmoothLoss(Halved())._fused(*clamped) is None
    torch.testing.assert_close(rb.SmoothLoss(Halved())(*clamped), rb.loss("nDCG")(*clamped))


PROGRAM = """
import sys, torch, rankbound as rb
from rankbound.kernels import cache_folder, usable
from rankbound.kernels.formulas import BAND, ORDER
scores = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
rb.loss("softmax")(scores, torch.tensor([0, 1, 0]), torch.tensor([0, 3])).sum().backward()
print(usable(), cache_folder(), "numba" in sys.modules, [round(x, 4) for x in scores.grad.tolist()])
"""


def run(**environment: str) -> str:
    done = run_with_torch(PROGRAM, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_compiled_code_is_kept_in_the_folder_of_the_user_also_for_a_copy_of_the_package(tmp_path: Path) -> None:
    kept, copy = tmp_path / "kept", tmp_path / "copy"
    kept.mkdir()
    out = run(RANKBOUND_CACHE=str(kept))
    (folder,) = (kept / "rankbound").iterdir()
    assert out == f"True {folder} True [0.09, -0.7553, 0.6652]\n"
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".nbi", ".nbc", ".py"}
    assert not list(Path(rb.__file__).parent.rglob("*.nb[ci]"))
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*.*")}
    shutil.copytree(Path(rb.__file__).parent, copy / "rankbound", ignore=shutil.ignore_patterns("__pycache__"))
    # Not by a copy of the times, by which Numba would know a file that has not changed.
    for path in copy.rglob("*.py"):
        path.touch()
    assert run(RANKBOUND_CACHE=str(kept), PYTHONPATH=str(copy)) == out
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*.*")} == before


def test_without_numba_or_a_folder_of_ones_own_the_reference_is_used(tmp_path: Path) -> None:
    for kind in ("file", "open", "off", "refusing"):
        (tmp_path / kind).mkdir()
    (tmp_path / "file/rankbound").write_text("")
    (tmp_path / "open/rankbound" / cache_folder().name).mkdir(parents=True)
    (tmp_path / "open/rankbound" / cache_folder().name).chmod(0o777)
    (tmp_path / "refusing/numba.py").write_text("raise ImportError('Numba needs another NumPy')")
    more = {"off": {"RANKBOUND_FAST": "0"}, "refusing": {"PYTHONPATH": str(tmp_path / "refusing")}}
    for folder in tmp_path.iterdir():
        found = run(RANKBOUND_CACHE=str(folder), **more.get(folder.name, {}))
        assert found.startswith("False ")
        assert found.endswith("False [0.09, -0.7553, 0.6652]\n")
    assert not list(tmp_path.rglob("*.nb[ci]"))


# Operations of a pair, a ratio of exponentials with its slope: an addition, a division and some multiplications.
OPERATIONS_OF_PAIR = 10


def operations(x: np.ndarray, p: int, fields: int) -> tuple[float, float]:
    boxes = np.unique(np.floor(x / 2 + 0.5))
    near = (np.abs(boxes[:, None] - boxes[None, :]) <= BAND).sum()
    return OPERATIONS_OF_PAIR * p * len(x), fields * ORDER * (12 * len(x) + 3 * ORDER * near)


@pytest.mark.parametrize("fields", [1, 2])
@pytest.mark.parametrize("spread", [0.1, 3.0, 100.0])
@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize("n", [10, 100, 1_000, 10_000])
def test_the_chosen_method_has_few_operations(n: int, share: float, spread: float, fields: int) -> None:
    x, p = np.random.default_rng(n).normal(size=n) * spread, max(1, int(share * n))
    by_pairs, by_boxes = operations(x - x.max(), p, fields)
    chosen = by_boxes if pays.py_func(p, n, x.min(), x.max(), 1.0, fields) else by_pairs  # type: ignore[attr-defined]
    assert chosen <= 2.5 * min(by_pairs, by_boxes)


def test_parts_are_those_of_numpy() -> None:
    """Values are sorted by Shell's sort and by digits: ties, zeros of both signs, denormal and huge numbers."""

    @numba.njit
    def run(x, powers, logs, values, order):  # type: ignore[no-untyped-def]
        exponentials(x, len(x), powers)
        logarithms_of_next(powers, len(x), logs)
        ascending(values, len(values), order)

    x = np.concatenate([np.linspace(-707, 690, 100_001), [0.0, -0.0, -1e-300, 1e-17]])
    edges, random = [0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, 1.0, 1.0], np.random.default_rng(9)
    for n in (1_000, 5_000):
        # Values near 1e6 differ only partly in single precision, those near 1e9 hardly at all.
        normal = random.normal(size=n)
        for values in (normal, normal.round(1), 1e300 * normal, np.ones(n), 1e6 + normal, 1e9 + normal, -1e9 - normal):
            values[: len(edges)] = edges
            powers, logs, order = np.empty_like(x), np.empty_like(x), np.empty(n, np.int64)
            run(x, powers, logs, values, order)
            np.testing.assert_array_equal(values[order], np.sort(values))
            np.testing.assert_array_equal(np.sort(order), np.arange(n))
    np.testing.assert_allclose(powers, np.exp(x), rtol=1e-15)
    np.testing.assert_allclose(logs, np.log1p(powers), rtol=1e-15)


@pytest.mark.parametrize("highest", [1, 3])
@pytest.mark.parametrize("bound", ["none", "min-max", "expectation", "expectation-max", "distribution"])
def test_known_facts_about_lists_change_nothing(bound: str, highest: int) -> None:
    """Binary and graded lists, some of them twice in a batch."""
    scores, relevance, offsets = ragged([4, 7, 0, 1, 5, 2, 6], 1.0, highest)
    loss, index = rb.loss("nDCG", bound), torch.tensor([5, 1, 6, 1, 2, 4])
    facts = loss.facts(relevance, rb.Lists(offsets))
    items = torch.cat([torch.arange(int(offsets[t]), int(offsets[t + 1])) for t in index.tolist()])
    batch = scores[items], relevance[items], rb.Lists.of_sizes(offsets.diff()[index])
    expected = loss.of_batch(*batch)
    assert (expected != 0).any()
    torch.testing.assert_close(loss.of_batch(*batch, facts.select(index)), expected)
    selected = facts.select(torch.arange(7)).select(index)
    torch.testing.assert_close(loss.of_batch(*batch, selected), expected)
