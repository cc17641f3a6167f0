"""`validate=False`: the same losses without the checks of values, for each of which the computer waits for a GPU."""

from collections import Counter

import pytest
import torch
from torch.profiler import profile

import rankbound as rb

WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2")
"""Operations of torch whose result decides on the CPU what comes next."""

WITHOUT_WAITS = ("softmax", "ListNet", "logistic", "squared")
"""Losses that read nothing back; those of ranks and pairs read the number of their pairs."""

OTHERS = ("nDCG", "AP", "nRBP", "RR", "ListMLE", "RankNet", "hinge", "LambdaRank", "WARP", "DirectRanker")


@pytest.fixture(autouse=True)
def formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels of a CPU check values as they read them; GPUs take torch's formulas."""
    monkeypatch.setenv("RANKBOUND_FAST", "0")


OFFSETS = torch.tensor([0, 5, 5, 12, 20])
SCORES = torch.randn(20, generator=torch.Generator().manual_seed(0))
RELEVANCE = (torch.rand(20, generator=torch.Generator().manual_seed(1)) < 0.4).long()


def waits(name: str, validate: bool) -> int:
    """Count the waits of a step, forward and backward."""
    leaf = SCORES.clone().requires_grad_()
    with profile() as profiled:
        rb.loss(name)(leaf, RELEVANCE, OFFSETS, reduction="mean", validate=validate).backward()  # type: ignore[no-untyped-call]
    counts = Counter(event.name for event in profiled.events())
    return sum(counts[name] for name in WAITS)


@pytest.mark.parametrize("name", WITHOUT_WAITS + OTHERS)
def test_values_and_gradients_are_the_same(name: str) -> None:
    found = []
    for validate in (True, False):
        leaf = SCORES.clone().requires_grad_()
        losses = rb.loss(name)(leaf, RELEVANCE, OFFSETS, validate=validate)
        found.append((losses, *torch.autograd.grad(losses.sum(), leaf)))
    for checked, unchecked in zip(*found, strict=True):
        torch.testing.assert_close(checked, unchecked, rtol=0, atol=0)


@pytest.mark.parametrize("name", WITHOUT_WAITS + OTHERS)
def test_every_check_is_a_wait_less(name: str) -> None:
    """The smallest grade, finite scores, the first offset, the last, and their order; some losses wait for no more."""
    checks = 5
    assert waits(name, validate=False) <= (0 if name in WITHOUT_WAITS else waits(name, validate=True) - checks)


@pytest.mark.parametrize("name", WITHOUT_WAITS + OTHERS)
@pytest.mark.parametrize("offsets", [[0, 10**9], [0, 5 * 10**6, 20], [0, -(10**7), 20], [3, 20], [0, 3]])
def test_offsets_of_a_cpu_are_compared_anyway(name: str, offsets: list[int]) -> None:
    """Sums over these lists would end the process, or read what lies behind the scores."""
    with pytest.raises(ValueError, match=r"^offsets: "):
        rb.loss(name)(SCORES, RELEVANCE, torch.tensor(offsets), validate=False)


def test_lengths_and_types_are_compared_anyway() -> None:
    with pytest.raises(ValueError, match="relevance: found"):
        rb.loss("softmax")(SCORES, RELEVANCE[1:], OFFSETS, validate=False)
    with pytest.raises(ValueError, match="offsets: found dtype"):
        rb.loss("softmax")(SCORES, RELEVANCE, OFFSETS.float(), validate=False)
