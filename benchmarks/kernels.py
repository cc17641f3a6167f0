"""Question 8: how long do smooth ranks take with the sigmoid, and with the Laplace step?"""

from collections.abc import Callable

import torch
from torch import Tensor

import rankbound as rb
from benchmarks.batches import Batch, one_list
from benchmarks.loss_contenders import Step, check_same, with_gradient
from benchmarks.rows import OURS, Row, rows_of
from benchmarks.run import Run
from benchmarks.timing import Contender, race

TITLE = "Sigmoid and Laplace steps"
ABOUT = """\
Forward and backward of the smooth ranks of all items of one list, and of its smooth nDCG with a tenth of the items
relevant (compiled kernels, the extra `fast`), float32, standard normal scores. `rankbound` has the sigmoid,
interpolated on long lists; `Laplace` is `kernel="laplace"`, scanned. `LapSum` is the same sum as in Struski et al.
(2025), whose package the package index doesn't have: our own statement by cumulative log-sums of exponentials in
torch, differentiated by autograd, in double precision, and checked to have our values."""
SETTINGS = ("default", "kept")

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000,)


def measure(run: Run) -> list[Row]:
    """Race the contenders on the ranks and on the loss of each size."""
    rows = []
    for n in QUICK_SIZES if run.quick else SIZES:
        batch = one_list(n)
        for what, steps in (("ranks", _ranks(batch)), ("nDCG", _losses(batch))):
            run.tell(f"{what}, N = {n:,}")
            result = race([Contender(name, step) for name, step in steps.items()], run.pace)
            rows += rows_of(result, f"{what}, {n:,}", n)
    return rows


def lapsum_ranks(scores: Tensor) -> Tensor:
    r"""Return the smooth ranks of a list by the Laplace step, $1 + k - \tfrac12 A_k + \tfrac12 B_k$ in sorted order.

    $A_k = \sum_{j < k} e^{x_k - x_j}$ and $B_k = \sum_{j > k} e^{x_j - x_k}$ are cumulative sums, kept as logarithms.
    """
    ranked, order = scores.to(torch.float64).sort(descending=True)
    below = ranked.flip(0).logcumsumexp(0).flip(0)[1:] - ranked[:-1]
    above = (-ranked).logcumsumexp(0)[:-1] + ranked[1:]
    none = ranked.new_zeros(1)
    ranks = 1 + torch.arange(len(ranked)) - torch.cat([none, above.exp()]) / 2 + torch.cat([below.exp(), none]) / 2
    return torch.empty_like(ranks).index_copy(0, order, ranks)


def _ranks(batch: Batch) -> dict[str, Step]:
    scores, offsets = batch.scores.clone().requires_grad_(), batch.offsets
    # The sum of all ranks is constant, and would have no gradient.
    upstream = torch.randn(len(scores), generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def step(ranks: Callable[[], Tensor]) -> Step:
        return lambda: with_gradient(ranks().to(torch.float64) @ upstream, scores)

    steps = {
        OURS: step(lambda: rb.smooth_rank(scores, offsets)),
        "Laplace": step(lambda: rb.smooth_rank(scores, offsets, kernel="laplace")),
        "LapSum": step(lambda: lapsum_ranks(scores)),
    }
    check_same({name: steps[name]() for name in ("Laplace", "LapSum")})
    return steps


def _losses(batch: Batch) -> dict[str, Step]:
    scores, offsets = batch.scores.clone().requires_grad_(), batch.offsets

    def step(loss: rb.RankingLoss) -> Step:
        return lambda: with_gradient(loss(scores, batch.relevance, offsets).sum(), scores)

    return {OURS: step(rb.loss("nDCG")), "Laplace": step(rb.loss("nDCG", kernel="laplace"))}
