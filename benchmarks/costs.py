"""`python -m benchmarks.costs`: fit the constants by which `auto` chooses between pairs and interpolation in a list.

The compiled kernels of smooth ranks and of RankNet are timed with either method on lists of several lengths, shares of
relevant items and spreads of scores. The constants, nanoseconds of processor time, minimise the squared relative errors
of these times; they are printed as JSON. The last lines say how much slower than the better method `auto` is, with the
constants in the sources.
"""

import json
import time
from functools import partial
from itertools import product
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls

import rankbound as rb
from benchmarks.data import Batch, lists_of
from benchmarks.runner import describe
from rankbound.losses.pairwise import PairwiseLogisticLoss

LENGTHS = (10, 30, 100, 300, 1_000, 3_000)
RELEVANT_SHARES = (0.1, 0.5)
SPREADS = (0.3, 3.0, 30.0)
ITEMS = (1_000, 6_000)
"""Items of a batch, about."""
TURNS, CALLS = 3, 3

MODELS = {"smooth ranks": {"nDCG": 1, "AP": 2}, "RankNet": {"RankNet": 1}}
"""Losses with the kinds of sums of their kernel."""


def main() -> None:
    """Time, fit and print.

    The constants are `rankbound.kernels.formulas.COSTS`, and the costs behind `PAIRS_OF_ITEM` there, an item and a call
    of the reference.
    """
    torch.set_num_threads(1)
    found: dict[str, Any] = {"machine": describe(1)}
    regrets = {}
    for name, losses in MODELS.items():
        cases, times = [], []
        for (loss, sums), items, n, share, spread in product(losses.items(), ITEMS, LENGTHS, RELEVANT_SHARES, SPREADS):
            lists, p = max(1, items // n), max(1, round(share * n))
            batch = lists_of([(n, p)] * lists)
            widths = [float(part.max() - part.min()) for part in (batch.scores * spread).split(n)]
            # The model's estimate of the occupied rows: boxes are two units wide.
            cases.append((sums, lists, n, p, np.mean([min(n, 1.0 + width / 2.0) for width in widths])))
            times.append(_times(loss, batch, spread))
        # The time of either method is a sum of these, times constants.
        sums, lists, n, p, rows = np.array(cases).T
        terms, last = ([lists * p * n], [sums * lists * n, sums * lists * rows]), "ROW_COST"
        if name == "RankNet":
            terms, last = ([lists * p * (n - p)], [lists * n, np.ones(len(cases))]), "CALL_COST"
        # Constants from 0 whose products with the terms are near the times, in relation to these.
        relative = [np.stack(own, axis=1) / np.array(times)[:, [place]] for place, own in enumerate(terms)]
        fitted = [float(f"{value:.3g}") for own in relative for value in nnls(own, np.ones(len(times)))[0]]
        found[name] = dict(zip(("PAIR_COST", "ITEM_COST", last), fitted, strict=True))
        regrets[name] = [auto / min(of_methods) for *of_methods, auto in times]
    print(json.dumps(found, indent=2))
    for name, of_auto in regrets.items():
        print(f"{name}: auto takes {median(of_auto):.2f} times the better method's time, {max(of_auto):.2f} at most")


def _times(name: str, batch: Batch, spread: float) -> list[float]:
    """Return the nanoseconds of a step by pairs, by interpolation and by `auto`: the least of several turns."""
    scores = (batch.scores * spread).requires_grad_()
    make = PairwiseLogisticLoss if name == "RankNet" else partial(rb.SmoothLoss, name)
    losses = [make(method=method) for method in ("direct", "interpolated", "auto")]
    least = [float("inf")] * len(losses)
    for _, (place, loss) in product(range(TURNS), enumerate(losses)):
        # The first call of a turn pays for caches that the other methods filled.
        for settled in (False, *[True] * CALLS):
            begin = time.thread_time_ns()
            torch.autograd.grad(loss(scores, batch.relevance, batch.offsets).sum(), scores)
            least[place] = min(least[place], time.thread_time_ns() - begin) if settled else least[place]
    return least


if __name__ == "__main__":
    main()
