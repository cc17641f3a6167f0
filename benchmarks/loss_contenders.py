"""One step of training with a loss, forward and backward, by each library: (mean loss, gradient of the scores).

All but pytorchltr's compute the same quantity, the smooth nDCG with temperature 1, negated, mean over lists. What is
built before the step (padding, compilation) is not timed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from benchmarks.batches import Batch
from benchmarks.rows import OURS

Step = Callable[[], tuple[Any, Any]]

LARGEST_MEMORY = 6e9
"""Bytes that a step may need by its number of pairs; who needs more is left out."""

_AGREEMENT = 1e-3
"""Largest relative difference from our loss, and from the length of its gradient, of what claims to be the same."""


@dataclass(frozen=True)
class LossContender:
    """`step(batch)` is ready to be called again and again. `pairs` of a list (n, p) are what its cost grows with.

    `bytes_per_pair`, rounded up from what the question `memory` found, predicts what would not fit; 0: not limiting.
    """

    name: str
    step: Callable[[Batch], Step]
    pairs: Callable[[int, int], int]
    bytes_per_pair: float
    package: str | None = None
    same: bool = True
    padded: bool = False

    def n_pairs(self, batch: Batch) -> int:
        """Pairs of all lists, or of all padded lists."""
        if self.padded:
            return len(batch.sizes) * self.pairs(max(batch.sizes), 0)
        return sum(self.pairs(n, p) for n, p in zip(batch.sizes, batch.relevant, strict=True))

    def obstacle(self, batch: Batch) -> str | None:
        """Why it cannot run on this batch, if so."""
        if self.package is not None and find_spec(self.package) is None:
            return f"{self.package} is not installed"
        needed = self.n_pairs(batch) * self.bytes_per_pair
        return f"would need {needed / 1e9:.0f} GB" if needed > LARGEST_MEMORY else None


def check_agreement(steps: Sequence[Step], contenders: Sequence[LossContender]) -> None:
    """Raise ArithmeticError where a contender that claims our loss has another value, or another gradient."""
    found = {c.name: _value_and_length(step()) for c, step in zip(contenders, steps, strict=True) if c.same}
    expected = found[contenders[0].name]
    for name, values in found.items():
        for value, ours, what in zip(values, expected, ("loss", "length of the gradient"), strict=True):
            if not abs(value - ours) <= _AGREEMENT * abs(ours):
                raise ArithmeticError(f"{name}: found {value} as the {what}, expected {ours}")


def _value_and_length(result: tuple[Any, Any]) -> tuple[float, float]:
    value, gradient = result
    return float(value), float((gradient**2).sum() ** 0.5)


def _ours(method: str) -> Callable[[Batch], Step]:
    def prepare(batch: Batch) -> Step:
        import rankbound as rb

        loss = rb.SmoothLoss("nDCG", method=method)
        scores, offsets = batch.scores.clone().requires_grad_(), batch.offsets
        return lambda: _with_gradient(loss(scores, batch.relevance, offsets).mean(), scores)

    return prepare


def _direct_torch(batch: Batch) -> Step:
    """The plain way to write it, list by list: relevant items against all items."""
    scores = batch.scores.clone().requires_grad_()
    relevant = [part.nonzero().squeeze(1) for part in torch.split(batch.relevance, batch.sizes)]

    def step() -> tuple[Tensor, Tensor]:
        losses = [
            _list_loss(part, chosen) for part, chosen in zip(torch.split(scores, batch.sizes), relevant, strict=True)
        ]
        return _with_gradient(torch.stack(losses).mean(), scores)

    return step


def _list_loss(scores: Tensor, relevant: Tensor) -> Tensor:
    # The item itself adds a half, which with another half is the 1 that ranks start from.
    ranks = 0.5 + torch.sigmoid(scores[None, :] - scores[relevant][:, None]).sum(1)
    ideal = (1 / torch.log2(torch.arange(len(relevant)) + 2)).sum()
    return -(1 / torch.log2(ranks + 1)).sum() / ideal


def _padded_torch(batch: Batch) -> Step:
    """The usual formulation of public code: one tensor (n_lists, longest, longest) of all pairs."""
    padded, relevance, mask = batch.padded()
    scores = padded.requires_grad_()
    gains = relevance.to(scores.dtype)
    discounts = 1 / torch.log2(torch.arange(gains.shape[1]) + 2)

    def step() -> tuple[Tensor, Tensor]:
        above = torch.sigmoid(scores[:, None, :] - scores[:, :, None]) * mask[:, None, :]
        ranks = 0.5 + above.sum(2)
        ideal = (gains.sort(1, descending=True).values * discounts).sum(1)
        return _with_gradient(-((gains / torch.log2(ranks + 1)).sum(1) / ideal).mean(), scores)

    return step


def _rax(batch: Batch) -> Step:
    """Compiled beforehand for this shape; a single list comes without a mask.

    The loss is what `rax.approx_t12n(rax.ndcg_metric)` stands for; written out, it runs with today's JAX as well.
    """
    import jax
    import rax

    def loss(scores: Any, relevance: Any, where: Any) -> Any:
        return -rax.ndcg_metric(scores, relevance, where=where, rank_fn=rax.utils.approx_ranks)

    padded = [jax.numpy.asarray(values.numpy()) for values in batch.padded()]
    scores, relevance, mask = padded[0], padded[1].astype("float32"), padded[2]
    where = mask if len(batch.sizes) > 1 else None
    step = jax.jit(jax.value_and_grad(loss)).lower(scores, relevance, where=where).compile()
    return lambda: jax.block_until_ready(step(scores, relevance, where=where))


def _pytorchltr(batch: Batch) -> Step:
    """LambdaNDCGLoss2: another loss, but what this library has for nDCG."""
    from pytorchltr.loss import LambdaNDCGLoss2

    padded, relevance, _ = batch.padded()
    scores, sizes, loss = padded.requires_grad_(), torch.tensor(batch.sizes), LambdaNDCGLoss2()
    return lambda: _with_gradient(loss(scores, relevance, sizes).mean(), scores)


def _with_gradient(loss: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    (gradient,) = torch.autograd.grad(loss, scores)
    return loss.detach(), gradient


def _relevant_by_all(n: int, p: int) -> int:
    return p * n


def _all_by_all(n: int, p: int) -> int:
    return n * n


AUTO = LossContender(OURS, _ours("auto"), lambda n, p: n, 0)
DIRECT = LossContender(f"{OURS}, direct", _ours("direct"), _relevant_by_all, 55)
DIRECT_TORCH = LossContender("torch, P x N", _direct_torch, _relevant_by_all, 10)
PADDED_TORCH = LossContender("torch, N x N", _padded_torch, _all_by_all, 18, padded=True)
RAX = LossContender("Rax", _rax, _all_by_all, 18, package="rax", padded=True)
PYTORCHLTR = LossContender("pytorchltr*", _pytorchltr, _all_by_all, 120, package="pytorchltr", same=False, padded=True)

OWN = (AUTO, DIRECT)
ALL = (AUTO, DIRECT, DIRECT_TORCH, PADDED_TORCH, RAX, PYTORCHLTR)
