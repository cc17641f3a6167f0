"""One training step of a loss, forward and backward, in each library: (mean loss, gradient of the scores).

All but pytorchltr's compute the same quantity, the negated smooth nDCG with temperature 1, as a mean over lists.
Padding and compilation precede the step and are not timed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from benchmarks.batches import Batch
from benchmarks.rows import OURS

Step = Callable[[], tuple[Any, Any]]

LARGEST_MEMORY = 6e9
"""Largest number of bytes that a step may need, estimated from its number of pairs."""

_AGREEMENT = 1e-3
"""Largest relative difference between equal losses, and between the norms of their gradients."""


@dataclass(frozen=True)
class LossContender:
    """A loss of a library.

    Attributes:
        step: prepares the repeatable step of a batch.
        pairs: the number of pairs of a list (n, p), to which its cost is proportional.
        bytes_per_pair: predicts the memory of a step, rounded up from the results of `memory`; 0 if it is no limit.
        package: the package that the contender needs.
        same: False if the loss is a different one.
        padded: True if the cost is that of padded lists.
    """

    name: str
    step: Callable[[Batch], Step]
    pairs: Callable[[int, int], int]
    bytes_per_pair: float
    package: str | None = None
    same: bool = True
    padded: bool = False

    def n_pairs(self, batch: Batch) -> int:
        """Return the number of pairs of all lists, padded if the contender pads them."""
        if self.padded:
            return len(batch.sizes) * self.pairs(max(batch.sizes), 0)
        return sum(self.pairs(n, p) for n, p in zip(batch.sizes, batch.relevant, strict=True))

    def obstacle(self, batch: Batch) -> str | None:
        """Return the reason why the contender cannot run on this batch, or None."""
        if self.package is not None and find_spec(self.package) is None:
            return f"{self.package} is not installed"
        needed = self.n_pairs(batch) * self.bytes_per_pair
        return f"would need {needed / 1e9:.0f} GB" if needed > LARGEST_MEMORY else None


def check_agreement(steps: Sequence[Step], contenders: Sequence[LossContender]) -> None:
    """Raise ArithmeticError if a contender of the same loss has another value or another norm of the gradient."""
    check_same({c.name: step() for c, step in zip(contenders, steps, strict=True) if c.same})


def check_same(results: Mapping[str, tuple[Any, Any]]) -> None:
    """Raise ArithmeticError if a value, or the norm of its gradient, differs from the first."""
    lengths = {name: _value_and_length(result) for name, result in results.items()}
    expected = next(iter(lengths.values()))
    for name, values in lengths.items():
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
        return lambda: with_gradient(loss(scores, batch.relevance, offsets).mean(), scores)

    return prepare


def _direct_torch(batch: Batch) -> Step:
    """Prepare the direct formulation, list by list: relevant items against all items."""
    scores = batch.scores.clone().requires_grad_()
    relevant = [part.nonzero().squeeze(1) for part in torch.split(batch.relevance, batch.sizes)]

    def step() -> tuple[Tensor, Tensor]:
        losses = [
            _list_loss(part, chosen) for part, chosen in zip(torch.split(scores, batch.sizes), relevant, strict=True)
        ]
        return with_gradient(torch.stack(losses).mean(), scores)

    return step


def _list_loss(scores: Tensor, relevant: Tensor) -> Tensor:
    # The item itself contributes a half; with another half, ranks start at 1.
    ranks = 0.5 + torch.sigmoid(scores[None, :] - scores[relevant][:, None]).sum(1)
    ideal = (1 / torch.log2(torch.arange(len(relevant)) + 2)).sum()
    return -(1 / torch.log2(ranks + 1)).sum() / ideal


def _padded_torch(batch: Batch) -> Step:
    """Prepare the usual formulation of public code: one tensor `(n_lists, longest, longest)` of all pairs."""
    padded, relevance, mask = batch.padded()
    scores = padded.requires_grad_()
    gains = relevance.to(scores.dtype)
    discounts = 1 / torch.log2(torch.arange(gains.shape[1]) + 2)

    def step() -> tuple[Tensor, Tensor]:
        above = torch.sigmoid(scores[:, None, :] - scores[:, :, None]) * mask[:, None, :]
        ranks = 0.5 + above.sum(2)
        ideal = (gains.sort(1, descending=True).values * discounts).sum(1)
        return with_gradient(-((gains / torch.log2(ranks + 1)).sum(1) / ideal).mean(), scores)

    return step


def _rax(batch: Batch) -> Step:
    """Prepare Rax's loss, compiled for this shape; a single list has no mask."""
    import jax

    padded = [jax.numpy.asarray(values.numpy()) for values in batch.padded()]
    scores, relevance, mask = padded[0], padded[1].astype("float32"), padded[2]
    where = mask if len(batch.sizes) > 1 else None
    step = jax.jit(jax.value_and_grad(rax_loss)).lower(scores, relevance, where=where).compile()
    return lambda: jax.block_until_ready(step(scores, relevance, where=where))


def rax_loss(scores: Any, relevance: Any, **lists: Any) -> Any:
    """Return `rax.approx_t12n(rax.ndcg_metric)`, written out to run with current versions of JAX."""
    import rax

    return -rax.ndcg_metric(scores, relevance, rank_fn=rax.utils.approx_ranks, **lists)


def _pytorchltr(batch: Batch) -> Step:
    """Prepare LambdaNDCGLoss2, a different loss: pytorchltr has no smooth nDCG."""
    from pytorchltr.loss import LambdaNDCGLoss2

    padded, relevance, _ = batch.padded()
    scores, sizes, loss = padded.requires_grad_(), torch.tensor(batch.sizes), LambdaNDCGLoss2()
    return lambda: with_gradient(loss(scores, relevance, sizes).mean(), scores)


def with_gradient(loss: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
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
