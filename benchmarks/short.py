"""Question 3: how long does a step take on batches of short lists, on which padding costs little?"""

import os
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from benchmarks.batches import Batch, lists_of
from benchmarks.loss_contenders import Step, with_gradient
from benchmarks.rows import OURS, Row, rows_of
from benchmarks.run import Run
from benchmarks.short_peers import peers_of
from benchmarks.timing import Contender, race

TITLE = "Losses, batches of short lists"
ABOUT = """\
A step, forward and backward, of the mean loss of batches of short lists with a tenth of relevant items: 128 and 512
lists of 10, 128 of 100, and 64 whose lengths are lognormal (mean 121, longest 324; a third relevant). `padded torch` is
the formula of each loss written over one padded tensor, of all pairs where the loss has pairs, and checked to have our
value. `Rax`, `allRank` and `pytorchltr` (LambdaNDCGLoss2 for LambdaRank) are their own losses on padded tensors, Rax'
compiled for the shape of each batch beforehand; several are scaled or normalised otherwise. Ours runs with
compiled kernels (the extra `fast`); `reference` is the same loss without."""
SETTINGS = ("default",)

LOSSES = ("nDCG", "AP", "softmax", "ListNet", "ListMLE", "RankNet", "LambdaRank")
RELATIVE_DIFFERENCE = 1e-4


def measure(run: Run) -> list[Row]:
    """Race the contenders on each batch and loss, one thread."""
    torch.set_num_threads(1)
    rows = []
    # The steps set `RANKBOUND_FAST`, each its own.
    with patch.dict(os.environ):
        for place, (size, batch) in enumerate(_batches(run.quick).items()):
            for loss in LOSSES[:2] if run.quick else LOSSES:
                run.tell(f"{loss}, {size}")
                rows += _race(loss, f"{loss}, {size}", place, batch, run)
    return rows


def _batches(quick: bool) -> dict[str, Batch]:
    equal = {"128 x 10": (128, 10), "512 x 10": (512, 10), "128 x 100": (128, 100)}
    batches = {name: lists_of([(n, max(1, n // 10))] * lists) for name, (lists, n) in equal.items()}
    if quick:
        return {"128 x 10": batches["128 x 10"]}
    random = np.random.default_rng(0)
    sizes = np.clip(random.lognormal(np.log(100), 0.6, 64).round().astype(int), 10, 324)
    return {**batches, "64 lists of 10 to 324": lists_of([(int(n), int(n) // 3) for n in sizes])}


def _race(loss: str, size: str, place: int, batch: Batch, run: Run) -> list[Row]:
    steps = {OURS: _ours(loss, batch, "1"), "reference": _ours(loss, batch, "0")}
    if run.peers:
        steps["padded torch"] = _padded(loss, batch)
        steps |= {name: make(loss, batch) for name, make in peers_of(loss).items()}
    value = float(steps[OURS]()[0])
    for name in ("reference", "padded torch"):
        if name in steps and abs(float(steps[name]()[0]) - value) > RELATIVE_DIFFERENCE * abs(value):
            raise ArithmeticError(f"{name}, {size}: found {float(steps[name]()[0])} as the loss, expected {value}")
    return rows_of(race([Contender(name, step) for name, step in steps.items()], run.pace), size, place)


def _ours(text: str, batch: Batch, fast: str) -> Step:
    import rankbound as rb

    loss, offsets, scores = rb.loss(text), batch.offsets, batch.scores.clone().requires_grad_()

    def step() -> tuple[Any, Any]:
        os.environ["RANKBOUND_FAST"] = fast
        return with_gradient(loss(scores, batch.relevance, offsets, reduction="mean"), scores)

    return step


def _padded(text: str, batch: Batch) -> Step:
    padded, relevance, mask = batch.padded()
    scores, of_lists = padded.requires_grad_(), PADDED[text]
    informative = relevance.amax(1) > 0
    return lambda: with_gradient(of_lists(scores, relevance.to(scores.dtype), mask)[informative].mean(), scores)


def _ranks(scores: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    above = torch.sigmoid(scores[:, None, :] - scores[:, :, None]) * weights[:, None, :]
    return above.sum(2) + 1 - weights / 2


def _ndcg(scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    ranks = _ranks(scores, mask, mask.to(scores.dtype))
    return -(relevance / torch.log2(ranks + 1)).sum(1) / _ideal(relevance)


def _ideal(relevance: Tensor) -> Tensor:
    discounts = 1 / torch.log2(torch.arange(relevance.shape[1]) + 2)
    return (relevance.sort(1, descending=True).values * discounts).sum(1)


def _ap(scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    among, ranks = _ranks(scores, mask, relevance), _ranks(scores, mask, mask.to(scores.dtype))
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


PADDED: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "nDCG": _ndcg,
    "AP": _ap,
    "softmax": _softmax,
    "ListNet": _listnet,
    "ListMLE": _list_mle,
    "RankNet": _ranknet,
    "LambdaRank": _lambdarank,
}
