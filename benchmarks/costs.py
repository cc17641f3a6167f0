"""`python -m benchmarks.costs`: fit the constants by which `auto` chooses between pairs and interpolation in a list.

The compiled kernels of smooth ranks and of RankNet are timed with either method on lists of several lengths, shares of
relevant items and spreads of scores. The constants, nanoseconds of processor time, minimise the squared relative errors
of these times; with `--out`, they are written as JSON, too. The last lines say how much slower than the better method
`auto` is, with the constants in the sources.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import nnls

import rankbound as rb
from benchmarks.batches import Batch, lists_of
from benchmarks.measure import describe
from rankbound.losses.pairwise import PairwiseLogisticLoss

LENGTHS = (10, 30, 100, 300, 1_000, 3_000)
RELEVANT_SHARES = (0.1, 0.5)
SPREADS = (0.3, 3.0, 30.0)
FIELDS = {"nDCG": 1, "AP": 2}
"""The kinds of sums of each metric's kernel."""
ITEMS = (1_000, 6_000)
"""Items of a batch, about."""
TURNS, CALLS = 3, 3
METHODS = ("direct", "interpolated", "auto")


@dataclass(frozen=True)
class Case:
    """Lists alike, with the numbers that the model of costs knows, and the nanoseconds of a batch by method."""

    lists: int
    n: int
    p: int
    rows: float
    fields: int
    times: dict[str, float]

    @property
    def pairs(self) -> int:
        """The number of pairs of a relevant item and any item."""
        return self.lists * self.p * self.n

    @property
    def regret(self) -> float:
        """The time of `auto` as a multiple of the better method's."""
        return self.times["auto"] / min(self.times["direct"], self.times["interpolated"])


def main(arguments: list[str] | None = None) -> None:
    """Time, fit and print."""
    chosen = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    lengths = LENGTHS[:3] if chosen.quick else LENGTHS
    smooth = [case for name in FIELDS for case in _cases(name, lengths)]
    pairwise = list(_cases("RankNet", lengths))
    found = {"machine": describe(1), "smooth ranks": fit_smooth(smooth), "RankNet": fit_pairwise(pairwise)}
    print(json.dumps(found, indent=2))
    for name, cases in (("smooth ranks", smooth), ("RankNet", pairwise)):
        regrets = [case.regret for case in cases]
        print(f"{name}: auto takes {median(regrets):.2f} times the better method's time, {max(regrets):.2f} at most")
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=__doc__)
    parser.add_argument("--out", type=Path, help="file of the constants")
    parser.add_argument("--quick", action="store_true", help="short lists only")
    return parser


def fit_smooth(cases: list[Case]) -> dict[str, float]:
    """Return `rankbound.kernels.formulas.COSTS`: a pair; an item and an occupied row of one kind of sums."""
    (pair,) = _fitted([[case.pairs] for case in cases], [case.times["direct"] for case in cases])
    terms = [[case.fields * case.lists * case.n, case.fields * case.lists * case.rows] for case in cases]
    item, row = _fitted(terms, [case.times["interpolated"] for case in cases])
    return {"PAIR_COST": pair, "ITEM_COST": item, "ROW_COST": row}


def fit_pairwise(cases: list[Case]) -> dict[str, float]:
    """Return the costs behind `kernels.formulas.PAIRS_OF_ITEM`: a pair; an item, and a call, of the reference."""
    pairs = [[case.lists * case.p * (case.n - case.p)] for case in cases]
    (pair,) = _fitted(pairs, [case.times["direct"] for case in cases])
    terms = [[case.lists * case.n, 1.0] for case in cases]
    item, call = _fitted(terms, [case.times["interpolated"] for case in cases])
    return {"PAIR_COST": pair, "ITEM_COST": item, "CALL_COST": call}


def _fitted(terms: list[list[float]], times: list[float]) -> list[float]:
    """Return constants from 0 whose products with the terms are near the times, in relation to these."""
    weighted: npt.NDArray[np.float64] = np.array(terms) / np.array(times)[:, None]
    constants, _ = nnls(weighted, np.ones(len(times)))
    return [float(f"{value:.3g}") for value in constants]


def _cases(name: str, lengths: tuple[int, ...]) -> Iterator[Case]:
    for items, n, share, spread in product(ITEMS, lengths, RELEVANT_SHARES, SPREADS):
        lists, p = max(1, items // n), max(1, round(share * n))
        batch = lists_of([(n, p)] * lists)
        widths = [float(part.max() - part.min()) for part in (batch.scores * spread).split(n)]
        # The model's estimate of the occupied rows: boxes are two units wide.
        rows = float(np.mean([min(n, 1.0 + width / 2.0) for width in widths]))
        yield Case(lists, n, p, rows, FIELDS.get(name, 1), _times(name, batch, spread))


def _times(name: str, batch: Batch, spread: float) -> dict[str, float]:
    """Return the nanoseconds of a step by method: the least of several turns."""
    scores = (batch.scores * spread).requires_grad_()
    losses = {method: _loss(name, method) for method in METHODS}
    least = dict.fromkeys(METHODS, float("inf"))
    for _, (method, loss) in product(range(TURNS), losses.items()):
        # The first call of a turn pays for caches that the other methods filled.
        for settled in (False, *[True] * CALLS):
            begin = time.thread_time_ns()
            torch.autograd.grad(loss(scores, batch.relevance, batch.offsets).sum(), scores)
            least[method] = min(least[method], time.thread_time_ns() - begin) if settled else least[method]
    return least


def _loss(name: str, method: str) -> rb.RankingLoss:
    return PairwiseLogisticLoss(method=method) if name == "RankNet" else rb.SmoothLoss(name, method=method)


if __name__ == "__main__":
    main()
