"""`python -m benchmarks.costs`: fit the constants by which `auto` chooses between pairs and interpolation in a list.

The compiled kernels of smooth ranks and of RankNet are timed with either method on lists of several lengths, shares of
relevant items and spreads of scores. The constants, nanoseconds of processor time, minimise the squared relative errors
of these times; with `--out`, they are written as JSON, too. The last lines say how much slower than the better method
`auto` is, with the constants in the sources.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls

import rankbound as rb
from benchmarks.losses import Batch, lists_of
from benchmarks.measure import describe
from rankbound.losses.pairwise import PairwiseLogisticLoss

LENGTHS = (10, 30, 100, 300, 1_000, 3_000)
RELEVANT_SHARES = (0.1, 0.5)
SPREADS = (0.3, 3.0, 30.0)
ITEMS = (1_000, 6_000)
"""Items of a batch, about."""
TURNS, CALLS = 3, 3
METHODS = ("direct", "interpolated", "auto")

MODELS: Mapping[str, tuple[Mapping[str, int], Callable[..., list[float]], Callable[..., list[float]], str]] = {
    "smooth ranks": (
        {"nDCG": 1, "AP": 2},
        lambda sums, lists, n, p, rows: [lists * p * n],
        lambda sums, lists, n, p, rows: [sums * lists * n, sums * lists * rows],
        "ROW_COST",
    ),
    "RankNet": (
        {"RankNet": 1},
        lambda sums, lists, n, p, rows: [lists * p * (n - p)],
        lambda sums, lists, n, p, rows: [lists * n, 1.0],
        "CALL_COST",
    ),
}
"""Losses with the kinds of sums of their kernel; what the time of either method is a sum of, given these, the number of
lists, their items and relevant items, and the occupied rows: `PAIR_COST`, and `ITEM_COST` and another. These are
`rankbound.kernels.formulas.COSTS`, and the costs behind `PAIRS_OF_ITEM` there, an item and a call of the reference."""


def main(arguments: list[str] | None = None) -> None:
    """Time, fit and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=__doc__)
    parser.add_argument("--out", type=Path, help="file of the constants")
    parser.add_argument("--quick", action="store_true", help="short lists only")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found: dict[str, Any] = {"machine": describe(1)}
    regrets = {}
    for name, (losses, direct, interpolated, last) in MODELS.items():
        sizes = product(ITEMS, LENGTHS[: 3 if chosen.quick else None], RELEVANT_SHARES, SPREADS)
        terms: dict[str, list[list[float]]] = {"direct": [], "interpolated": []}
        times: list[dict[str, float]] = []
        for (loss, sums), (items, n, share, spread) in product(losses.items(), sizes):
            lists, p = max(1, items // n), max(1, round(share * n))
            batch = lists_of([(n, p)] * lists)
            widths = [float(part.max() - part.min()) for part in (batch.scores * spread).split(n)]
            # The model's estimate of the occupied rows: boxes are two units wide.
            rows = float(np.mean([min(n, 1.0 + width / 2.0) for width in widths]))
            terms["direct"].append(direct(sums, lists, n, p, rows))
            terms["interpolated"].append(interpolated(sums, lists, n, p, rows))
            times.append(_times(loss, batch, spread))
        fitted = []
        for method, of_method in terms.items():
            # Constants from 0 whose products with the terms are near the times, in relation to these.
            relative = np.array(of_method) / np.array([[taken[method]] for taken in times])
            fitted += [float(f"{value:.3g}") for value in nnls(relative, np.ones(len(times)))[0]]
        found[name] = dict(zip(("PAIR_COST", "ITEM_COST", last), fitted, strict=True))
        regrets[name] = [taken["auto"] / min(taken["direct"], taken["interpolated"]) for taken in times]
    text = json.dumps(found, indent=2)
    print(text)
    for name, of_auto in regrets.items():
        print(f"{name}: auto takes {median(of_auto):.2f} times the better method's time, {max(of_auto):.2f} at most")
    if chosen.out:
        chosen.out.write_text(f"{text}\n", encoding="utf-8")


def _times(name: str, batch: Batch, spread: float) -> dict[str, float]:
    """Return the nanoseconds of a step by method: the least of several turns."""
    scores = (batch.scores * spread).requires_grad_()
    make = PairwiseLogisticLoss if name == "RankNet" else partial(rb.SmoothLoss, name)
    losses = {method: make(method=method) for method in METHODS}
    least = dict.fromkeys(METHODS, float("inf"))
    for _, (method, loss) in product(range(TURNS), losses.items()):
        # The first call of a turn pays for caches that the other methods filled.
        for settled in (False, *[True] * CALLS):
            begin = time.thread_time_ns()
            torch.autograd.grad(loss(scores, batch.relevance, batch.offsets).sum(), scores)
            least[method] = min(least[method], time.thread_time_ns() - begin) if settled else least[method]
    return least


if __name__ == "__main__":
    main()
