"""Other libraries' losses on batches of short lists, from padded tensors that are made beforehand."""

from collections.abc import Callable, Collection
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

from benchmarks.batches import Batch
from benchmarks.features_cells import allrank
from benchmarks.loss_contenders import Step, with_gradient


def peers_of(loss: str) -> dict[str, Callable[[str, Batch], Step]]:
    """Return what prepares the steps of the libraries that have this loss and are installed, by their names."""
    return {
        name: prepare
        for name, (package, losses, prepare) in PEERS.items()
        if loss in losses and find_spec(package) is not None
    }


def _rax(text: str, batch: Batch) -> Step:
    import jax
    import rax

    def approximate(metric: Callable[..., Any]) -> Callable[..., Any]:
        return lambda scores, relevance, where: (
            -metric(scores, relevance, where=where, rank_fn=rax.utils.approx_ranks, reduce_fn=jax.numpy.mean)
        )

    losses = {
        "nDCG": approximate(rax.ndcg_metric),
        "AP": approximate(rax.ap_metric),
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


ALLRANK: dict[str, tuple[str, dict[str, Any]]] = {
    "nDCG": ("approxNDCGLoss", {}),
    "softmax": ("binary_listNet", {}),
    "ListNet": ("listNet", {}),
    "ListMLE": ("listMLE", {}),
    "RankNet": ("rankNet", {}),
    "LambdaRank": ("lambdaLoss", {"weighing_scheme": "lambdaRank_scheme"}),
}


def _allrank(text: str, batch: Batch) -> Step:
    name, options = ALLRANK[text]
    loss = partial(getattr(allrank("models.losses"), name), **options)
    padded, relevance, mask = batch.padded()
    scores, grades = padded.requires_grad_(), relevance.float().masked_fill(~mask, -1.0)
    return lambda: with_gradient(loss(scores, grades), scores)


PYTORCHLTR = {"RankNet": "PairwiseLogisticLoss", "LambdaRank": "LambdaNDCGLoss2"}


def _pytorchltr(text: str, batch: Batch) -> Step:
    import pytorchltr.loss

    loss = getattr(pytorchltr.loss, PYTORCHLTR[text])()
    padded, relevance, _ = batch.padded()
    scores, sizes = padded.requires_grad_(), torch.tensor(batch.sizes)
    return lambda: with_gradient(loss(scores, relevance, sizes).mean(), scores)


PEERS: dict[str, tuple[str, Collection[str], Callable[[str, Batch], Step]]] = {
    "Rax": ("rax", ("nDCG", "AP", "softmax", "ListNet", "ListMLE", "RankNet", "LambdaRank"), _rax),
    "allRank": ("allrank", ALLRANK, _allrank),
    "pytorchltr": ("pytorchltr", PYTORCHLTR, _pytorchltr),
}
"""By name: the package, the losses that it has, and what prepares a step."""
