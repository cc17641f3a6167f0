"""Generated lists, and one step of a loss on them, forward and backward, in each library: (mean loss, gradient).

Lists are flat tensors with offsets, or padded for libraries that need padding. Padding and compilation precede the
step and are not timed.
"""

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch
from torch import Tensor

RELEVANT_SHARE = 0.1
"""Share of relevant items in single lists."""

MOVIELENS_RELEVANT = {0.0: 25, 0.1: 29, 0.25: 39, 0.5: 65.5, 0.75: 137, 0.9: 245, 0.95: 304, 0.99: 607, 1.0: 1227}
"""Quantile -> relevant movies per user, counted over the 412 users of MovieLens latest-small with at least 25."""

NEGATIVES_PER_RELEVANT = (1, 2, 3)
"""The thesis' negative sampling ratios: a list has 2, 3 or 4 times as many items as relevant ones."""


@dataclass(frozen=True)
class Batch:
    """Concatenated lists: `scores` (float32) and `relevance` (0 or 1) of all items, `sizes` of the lists."""

    scores: Tensor
    relevance: Tensor
    sizes: list[int]

    @property
    def offsets(self) -> Tensor:
        return torch.tensor([0, *np.cumsum(self.sizes)])

    @property
    def relevant(self) -> tuple[int, ...]:
        """The number of relevant items of each list."""
        return tuple(int(part.sum()) for part in torch.split(self.relevance, self.sizes))

    def padded(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, relevance and the mask of items, each `(n_lists, longest)`, padded with 0."""
        mask = torch.arange(max(self.sizes)) < torch.tensor(self.sizes)[:, None]
        scores, relevance = (
            torch.zeros(mask.shape, dtype=values.dtype).masked_scatter(mask, values)
            for values in (self.scores, self.relevance)
        )
        return scores, relevance, mask


def one_list(n: int, seed: int = 0) -> Batch:
    """Return a list of `n` items with standard normal scores, a tenth of them relevant."""
    return lists_of([(n, max(1, round(RELEVANT_SHARE * n)))], seed)


def movielens_lists(count: int, seed: int = 0) -> Batch:
    """Return `count` lists at equally spaced quantiles of MovieLens' sizes; the negative sampling ratios alternate."""
    return lists_of(movielens_sizes(count), seed)


def lists_of(sizes: Sequence[tuple[int, int]], seed: int = 0) -> Batch:
    """Return lists of these numbers of items and relevant items, with standard normal scores."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(sum(n for n, _ in sizes), generator=generator)
    relevance = torch.cat([(torch.randperm(n, generator=generator) < p).to(torch.int64) for n, p in sizes])
    return Batch(scores, relevance, [n for n, _ in sizes])


def movielens_sizes(count: int) -> list[tuple[int, int]]:
    """Return the numbers of items and relevant items of `count` lists, by linear interpolation of the quantiles."""
    quantiles = (np.arange(count) + 0.5) / count
    relevant = np.interp(quantiles, list(MOVIELENS_RELEVANT), list(MOVIELENS_RELEVANT.values())).round().astype(int)
    ratios = np.resize(NEGATIVES_PER_RELEVANT, count)
    return [(int(p * (1 + ratio)), int(p)) for p, ratio in zip(relevant, ratios, strict=True)]


Step = Callable[[], tuple[Any, Any]]
Prepared = tuple["partial[Tensor]", Tensor]
"""A loss with its arguments, and the scores among them that get a gradient."""


def check_same(results: Mapping[str, tuple[Any, Any]], tolerance: float = 1e-3) -> None:
    """Raise ArithmeticError if a loss or the norm of its gradient differs, relatively, from the first."""
    found = {name: (float(value), float((slope**2).sum() ** 0.5)) for name, (value, slope) in results.items()}
    expected = next(iter(found.values()))
    for name, values in found.items():
        for value, ours, what in zip(values, expected, ("loss", "length of the gradient"), strict=True):
            if not abs(value - ours) <= tolerance * abs(ours):
                raise ArithmeticError(f"{name}: found {value} as the {what}, expected {ours}")


def step_of(prepare: Callable[[Batch], Prepared], batch: Batch) -> Step:
    """Return the step of a loss in torch; one that returns a loss per list is averaged."""
    loss, scores = prepare(batch)

    def step() -> tuple[Tensor, Tensor]:
        value = loss()
        value = value.mean() if value.dim() else value
        (gradient,) = torch.autograd.grad(value, scores)
        return value.detach(), gradient

    return step


def rankbound_loss(text: str, batch: Batch, fast: str | None = None, **options: Any) -> Prepared:
    """Prepare a loss of ours, a mean over lists; `fast` is the value of `RANKBOUND_FAST` in its steps."""
    import rankbound as rb

    loss = rb.SmoothLoss(text, **options) if options else rb.loss(text)
    scores = batch.scores.clone().requires_grad_()
    call = partial(loss, scores, batch.relevance, batch.offsets, reduction="mean")

    def with_fast() -> Tensor:
        os.environ["RANKBOUND_FAST"] = fast or ""
        return call()

    return partial(with_fast) if fast else call, scores


def direct_torch_loss(batch: Batch) -> Prepared:
    """Prepare the direct formulation of smooth nDCG, list by list: relevant items against all items."""
    scores = batch.scores.clone().requires_grad_()
    relevant = [part.nonzero().squeeze(1) for part in torch.split(batch.relevance, batch.sizes)]

    def loss() -> Tensor:
        losses = []
        for part, chosen in zip(torch.split(scores, batch.sizes), relevant, strict=True):
            # The item itself contributes a half; with another half, ranks start at 1.
            ranks = 0.5 + torch.sigmoid(part[None, :] - part[chosen][:, None]).sum(1)
            ideal = (1 / torch.log2(torch.arange(len(chosen)) + 2)).sum()
            losses.append(-(1 / torch.log2(ranks + 1)).sum() / ideal)
        return torch.stack(losses)

    return partial(loss), scores


def padded_torch_loss(text: str, batch: Batch) -> Prepared:
    """Prepare the usual formulation of public code: one tensor `(n_lists, longest, longest)` of all pairs."""
    padded, relevance, mask = batch.padded()
    scores, grades, informative = padded.requires_grad_(), relevance.to(padded.dtype), relevance.amax(1) > 0
    return partial(lambda: PADDED[text](scores, grades, mask)[informative]), scores


def _ranks(scores: Tensor, weights: Tensor) -> Tensor:
    above = torch.sigmoid(scores[:, None, :] - scores[:, :, None]) * weights[:, None, :]
    return above.sum(2) + 1 - weights / 2


def _ndcg(scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    ranks = _ranks(scores, mask.to(scores.dtype))
    return -(relevance / torch.log2(ranks + 1)).sum(1) / _ideal(relevance)


def _ideal(relevance: Tensor) -> Tensor:
    discounts = 1 / torch.log2(torch.arange(relevance.shape[1]) + 2)
    return (relevance.sort(1, descending=True).values * discounts).sum(1)


def _ap(scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    among, ranks = _ranks(scores, relevance), _ranks(scores, mask.to(scores.dtype))
    return -(relevance * among / ranks).sum(1) / relevance.sum(1)


def _cross_entropy(scores: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    log_chances = torch.log_softmax(scores.masked_fill(~mask, -torch.inf), 1)
    return -(targets * log_chances.masked_fill(~mask, 0)).sum(1)


def _softmax(scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    return _cross_entropy(scores, relevance / relevance.sum(1, keepdim=True), mask)


def _listnet(scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    return _cross_entropy(scores, torch.softmax(relevance.masked_fill(~mask, -torch.inf), 1), mask)


def _list_mle(scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    """Each item is drawn from all of its grade and below; grades are 0 and 1 here."""
    held = scores.masked_fill(~mask, -torch.inf)
    from_all, from_others = torch.logsumexp(held, 1), torch.logsumexp(held.masked_fill(relevance > 0, -torch.inf), 1)
    drawn = torch.where(relevance > 0, from_all[:, None], from_others[:, None]) - scores
    return (drawn * mask).sum(1)


def _pairs(scores: Tensor, relevance: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logistic loss of all pairs, and which pairs count."""
    better = (relevance[:, :, None] > relevance[:, None, :]) & mask[:, :, None] & mask[:, None, :]
    return torch.nn.functional.softplus(scores[:, None, :] - scores[:, :, None]), better


def _ranknet(scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    losses, better = _pairs(scores, relevance, mask)
    return (losses * better).sum((1, 2)) / better.sum((1, 2))


def _lambdarank(scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    with torch.no_grad():
        order = scores.masked_fill(~mask, -torch.inf).argsort(1, descending=True)
        discount = 1 / torch.log2(order.argsort(1) + 2)
        gap = (discount[:, :, None] - discount[:, None, :]).abs() / _ideal(relevance)[:, None, None]
    losses, better = _pairs(scores, relevance, mask)
    return (losses * better * gap).sum((1, 2))


PADDED: Mapping[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "nDCG": _ndcg,
    "AP": _ap,
    "softmax": _softmax,
    "ListNet": _listnet,
    "ListMLE": _list_mle,
    "RankNet": _ranknet,
    "LambdaRank": _lambdarank,
}


def rax_step(text: str, batch: Batch) -> Step:
    """Prepare a loss of Rax, compiled for this shape; lists of equal length have no mask."""
    import jax
    import rax

    losses: Mapping[str, Callable[..., Any]] = {
        "nDCG": rax_loss,
        "AP": partial(rax_loss, metric="ap_metric"),
        "softmax": rax.softmax_loss,
        "ListNet": rax.softmax_loss,
        "ListMLE": rax.listmle_loss,
        "RankNet": rax.pairwise_logistic_loss,
        "LambdaRank": partial(rax.pairwise_logistic_loss, lambdaweight_fn=rax.dcg_lambdaweight),
    }
    padded, grades, mask = batch.padded()
    targets = grades.float()
    if text == "ListNet":
        targets = torch.softmax(targets.masked_fill(~mask, -torch.inf), 1)
    scores, relevance = (jax.numpy.asarray(values.numpy()) for values in (padded, targets))
    where = None if bool(mask.all()) else jax.numpy.asarray(mask.numpy())
    of = jax.value_and_grad(lambda s, y, w: losses[text](s, y, where=w))
    step = jax.jit(of).lower(scores, relevance, where).compile()
    return lambda: jax.block_until_ready(step(scores, relevance, where))


def rax_loss(scores: Any, relevance: Any, *, metric: str = "ndcg_metric", **lists: Any) -> Any:
    """Return `rax.approx_t12n` of a metric, written out to run with current versions of JAX."""
    import rax

    return -getattr(rax, metric)(scores, relevance, rank_fn=rax.utils.approx_ranks, **lists)


def allrank_loss(text: str, batch: Batch) -> Prepared:
    """Prepare a loss of allRank."""
    name, options = ALLRANK[text]
    padded, relevance, mask = batch.padded()
    scores, grades = padded.requires_grad_(), relevance.float().masked_fill(~mask, -1.0)
    return partial(getattr(allrank("models.losses"), name), scores, grades, **options), scores


def pytorchltr_loss(text: str, batch: Batch) -> Prepared:
    """Prepare a loss of pytorchltr, which has no smooth nDCG."""
    import pytorchltr.loss

    padded, relevance, _ = batch.padded()
    scores = padded.requires_grad_()
    return partial(getattr(pytorchltr.loss, PYTORCHLTR[text])(), scores, relevance, torch.tensor(batch.sizes)), scores


def allrank(module: str) -> ModuleType:
    """Import a module of allRank, with stand-ins for what it loads files by, which nothing here does."""
    names = ("gcsfs", "pkg_resources", "torchvision", "torchvision.transforms")
    # Its configuration is made of `attr`, where that is installed.
    stand_ins = {name: MagicMock() for name in (*names, "attr") if name != "attr" or find_spec(name) is None}
    before = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    try:
        return import_module(f"allrank.{module}")
    finally:
        for name, loaded in before.items():
            sys.modules.pop(name)
            sys.modules.update({name: loaded} if loaded else {})


ALLRANK: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "nDCG": ("approxNDCGLoss", {}),
    "softmax": ("binary_listNet", {}),
    "ListNet": ("listNet", {}),
    "ListMLE": ("listMLE", {}),
    "RankNet": ("rankNet", {}),
    "LambdaRank": ("lambdaLoss", {"weighing_scheme": "lambdaRank_scheme"}),
}
PYTORCHLTR = {"RankNet": "PairwiseLogisticLoss", "LambdaRank": "LambdaNDCGLoss2"}

PEERS: Mapping[str, tuple[str, Collection[str], Callable[[str, Batch], Step]]] = {
    "Rax": ("rax", PADDED, rax_step),
    "allRank": ("allrank", ALLRANK, lambda text, batch: step_of(partial(allrank_loss, text), batch)),
    "pytorchltr": ("pytorchltr", PYTORCHLTR, lambda text, batch: step_of(partial(pytorchltr_loss, text), batch)),
}
"""By name: the package, the losses that it has, and what prepares a step."""
