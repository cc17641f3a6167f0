"""`python -m benchmarks.rerankers`: compare losses of rerankers with those of sentence-transformers.

Prints the tables of docs/rerankers.md: agreement, time and peak memory of a step from the model's outputs on, and of a
training step of a small BERT.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.cross_encoder import losses as theirs
from torch import Tensor, nn

from benchmarks.measure import Pace, amount, describe, memory_of, race
from benchmarks.tiny_reranker import Outputs, labelled_queries, tiny_reranker
from rankbound.interop.sentence_transformers import ListwiseLoss

Made = Callable[[Any, int], nn.Module]
"""Makes the loss of a model, given the number of documents that the model scores at a time."""
Step = Callable[[], tuple[float, Tensor]]
"""Returns the loss of a batch, and its gradient with respect to the model's outputs or weights."""

QUERIES = 8
SIZES = (100, 1_000)
ALL_DOCUMENTS, MINI_BATCH = -1, 64
PACE = Pace(fewest=5, most=20, seconds=10.0, turn=0.05)
_FEW = 10


def _ours(text: str, bound: str = "none", **keywords: Any) -> Made:
    return lambda model, size: ListwiseLoss(model, text, bound, mini_batch_size=size, **keywords)


def _lambda_loss(scheme: nn.Module) -> Made:
    return lambda model, size: theirs.LambdaLoss(
        model, weighting_scheme=scheme, reduction_log="natural", mini_batch_size=size
    )


OURS: Mapping[str, Made] = {
    "ListNet": _ours("ListNet"),
    "LambdaLoss, LambdaRank": _ours("LambdaRank"),
    "LambdaLoss, NDCGLoss2++": _ours("LambdaLoss"),
    "nDCG min-max": _ours("nDCG", "min-max"),
}
"""The rows of the first table."""

THEIRS: Mapping[str, Made] = {
    "ListNet": lambda model, size: theirs.ListNetLoss(model, mini_batch_size=size),
    "LambdaLoss, LambdaRank": _lambda_loss(theirs.LambdaRankScheme()),
    "LambdaLoss, NDCGLoss2++": _lambda_loss(theirs.NDCGLoss2PPScheme()),
}

TRAININGS: Mapping[str, Made] = {
    "ListwiseLoss, nDCG min-max": OURS["nDCG min-max"],
    "ListwiseLoss, nDCG min-max, recompute": _ours("nDCG", "min-max", recompute=True),
    "LambdaLoss, NDCGLoss2++": THEIRS["LambdaLoss, NDCGLoss2++"],
}
"""The rows of the second table."""


def step_of_outputs(make: Made, n: int) -> Step:
    """Return a step of a loss, from given outputs of a model on."""
    model = Outputs(torch.randn(QUERIES * n, generator=torch.Generator().manual_seed(0)))
    return _step(make(model, ALL_DOCUMENTS), model, n)


def step_of_bert(make: Made, n: int) -> Step:
    """Return a step of a loss, from the texts on."""
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_reranker(Path(folder))
    return _step(make(model, MINI_BATCH), model, n)


def _step(loss: nn.Module, model: nn.Module, n: int) -> Step:
    columns = labelled_queries([n] * QUERIES)
    inputs, labels = [columns["query"], columns["documents"]], [torch.tensor(one) for one in columns["labels"]]
    weights = list(model.parameters())

    def step() -> tuple[float, Tensor]:
        value = loss(inputs, labels)
        gradient = torch.autograd.grad(value, weights, allow_unused=True)
        return value.item(), torch.cat([part.flatten() for part in gradient if part is not None])

    return step


def agreement(name: str, n: int) -> tuple[float, float]:
    """Return the largest relative differences of the loss and of the gradient from those of sentence-transformers.

    LambdaLoss is a mean over all pairs of a batch, ours a mean over queries of sums over pairs.
    """
    labels = [torch.tensor(grades) for grades in labelled_queries([n] * QUERIES)["labels"]]
    pairs = sum(int((grades[:, None] > grades).sum()) for grades in labels)
    scale = 1.0 if name == "ListNet" else pairs / QUERIES
    (value, gradient), (expected, slope) = step_of_outputs(OURS[name], n)(), step_of_outputs(THEIRS[name], n)()
    difference = (gradient - scale * slope).abs().max() / (scale * slope).abs().max()
    return abs(value / (scale * expected) - 1), float(difference)


STEPS: Mapping[str, tuple[Callable[[Made, int], Step], Mapping[str, Made]]] = {
    "ours": (step_of_outputs, OURS),
    "theirs": (step_of_outputs, THEIRS),
    "training": (step_of_bert, TRAININGS),
}
"""The probes: how a step is prepared, and the contenders."""


def probe(name: str, n: int) -> Step:
    """Prepare the step of a row of a table, `ours/ListNet` and the like."""
    side, _, row = name.partition("/")
    prepare, contenders = STEPS[side]
    return prepare(contenders[row], n)


def _memory(side: str, name: str, n: int) -> str:
    return amount(memory_of("rerankers", f"{side}/{name}", n, _FEW) / 1e6, "MB")


def losses_table(sizes: tuple[int, ...] = SIZES, pace: Pace = PACE) -> list[str]:
    """Return the table of losses: agreement, and time and memory of ours and theirs."""
    lines = [
        "| documents | loss | difference: loss, gradient | time | theirs | memory | theirs |",
        "|--:|---|--:|--:|--:|--:|--:|",
    ]
    for n in sizes:
        for name, make in OURS.items():
            sides = {"ours": make} | ({"theirs": THEIRS[name]} if name in THEIRS else {})
            times = _times({side: step_of_outputs(one, n) for side, one in sides.items()}, pace)
            memories = [_memory(side, name, n) for side in sides]
            differences = ", ".join(f"{one:.0e}" for one in agreement(name, n)) if name in THEIRS else ""
            absent = [""] * (2 - len(sides))
            lines.append(_line(f"{n:,}", name, differences, *times, *absent, *memories, *absent))
    return lines


def trainings_table(sizes: tuple[int, ...] = SIZES, pace: Pace = PACE) -> list[str]:
    """Return the table of training steps: time and memory."""
    lines = ["| documents | loss | time | memory |", "|--:|---|--:|--:|"]
    for n in sizes:
        times = _times({name: step_of_bert(make, n) for name, make in TRAININGS.items()}, pace)
        for name, time in zip(TRAININGS, times, strict=True):
            lines.append(_line(f"{n:,}", name, time, _memory("training", name, n)))
    return lines


def _times(steps: Mapping[str, Step], pace: Pace) -> list[str]:
    """Return the contenders' times, each but the first with the median of its ratios to the first."""
    (first, *others), _ = race(steps, pace)
    ratios = [f"{amount(other.value, 's')} ({amount(other.ratio, 'x')})" for other in others]
    return [amount(first.value, "s"), *ratios]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print both tables."""
    threads = torch.get_num_threads()
    print(f"{describe(threads)}.\n", *losses_table(), "", *trainings_table(), sep="\n")


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
