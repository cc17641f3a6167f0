"""The evaluation of tensors on a GPU, from one sort, on tensors of the CPU: the values of the CPU's own way."""

from typing import Any

import numpy as np
import pytest
import torch
from test_without_waiting import a_gpu

import rankbound as rb
from rankbound.lists import waiting
from rankbound.metrics import base
from rankbound.metrics._on_gpu import values_together
from rankbound.ranks import block_starts, descending_order

METRICS = [
    *("nDCG", "nDCG@3", "nDCG(gain=linear,discount=log2(r))@5", "DCG@4", "CG@2", "AP", "AP@3", "AP(rel=2)@40", "RR"),
    *("RR@2", "RR@30", "Hit@1", "Hit@3", "Hit(rel=2)@5", "P@5", "P(rel=2)@3", "Recall@2"),
    *("Recall@50", "RBP(p=0.8)", "nRBP(p=0.5)", "nRBP", "nRBP(rel=2)"),
]
OTHERS = ["ERR(max=4)", "AP(divisor=cutoff)@3", "Rprec", "Kendall"]

SIZES = [3, 0, 1, 40, 200, 7, 0]


def batch(kind: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random, n = np.random.default_rng(3), sum(SIZES)
    scores = random.normal(size=n)
    if kind != "without ties":
        scores = np.zeros(n) if kind == "all tied" else scores.round()
    relevance = random.integers(0, 5, n) * (random.random(n) < 0.3)
    relevance[:3] = 0
    offsets = torch.tensor([0, *SIZES]).cumsum(0)
    return torch.from_numpy(scores), torch.from_numpy(relevance), offsets


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", ["ties", "all tied", "without ties"])
def test_values_are_those_of_the_cpu(kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, relevance, offsets = batch(kind)
    for grades in (relevance, relevance.clamp(max=1), relevance.to(torch.float64) / 2, 0 * relevance):
        arguments: Any = METRICS + OTHERS, scores.to(dtype), grades, offsets
        expected = rb.evaluate(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(base, "_computed_together", lambda _: True)
            found = rb.evaluate(*arguments)
        assert list(found) == list(expected)
        for name, values in expected.items():
            torch.testing.assert_close(
                found[name],
                values,
                rtol=1e-12,
                atol=1e-12,
                equal_nan=True,
                msg=lambda text, name=name: f"{name} {text}",
            )


def test_no_lists_and_no_items(monkeypatch: pytest.MonkeyPatch) -> None:
    for offsets in ([0], [0, 0, 0]):
        empty: Any = METRICS, torch.zeros(0), torch.zeros(0, dtype=torch.int64), torch.tensor(offsets)
        expected = rb.evaluate(*empty)
        with monkeypatch.context() as patch:
            patch.setattr(base, "_computed_together", lambda _: True)
            found = rb.evaluate(*empty)
        for name, values in expected.items():
            torch.testing.assert_close(found[name], values, equal_nan=True)


def test_sums_copy_nothing_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """From sorted items to values, once the lists and tables are known."""
    scores, relevance, offsets = batch("ties")
    lists, known = rb.Lists(offsets), base._formulas_of(map(rb.metric, METRICS))
    order = descending_order(scores, lists)
    ranked, starts = relevance[order].to(torch.float64), block_starts(scores[order], lists)
    expected = values_together(known, ranked, starts, lists)
    with waiting(False), a_gpu(watched=True):
        found = values_together(known, ranked, starts, lists)
    for metric, values in expected.items():
        torch.testing.assert_close(found[metric], values, equal_nan=True)
