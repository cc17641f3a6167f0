"""Question 6: how long does it take to tabulate the distribution of a metric over random orders?"""

import numpy as np

from benchmarks.batches import movielens_sizes
from benchmarks.rows import OURS, Row, rows_of
from benchmarks.run import Run
from benchmarks.timing import Contender, race

TITLE = "Score distributions"
ABOUT = """\
Tables of nDCG, AP and the nRBP loss for lists with MovieLens' sizes (equally spaced quantiles): ours exact to 1e-4
or better, against 300,000 random orders of each list, as the thesis does, which err by 1.5e-3 (95 %). `sampled`
draws many orders at once by a compiled kernel and is `method="sampled"` of ours; `order by order` is the plain way, a
permutation and its three scores in NumPy, one after the other. Of both only a stated part is drawn, and the time
scaled up."""
SETTINGS = ("default",)

METRICS = ("nDCG", "AP", "nRBP")
SAMPLES = 300_000
LISTS, _QUICK_LISTS = 48, 3
_DRAWN_AT_ONCE, _DRAWN_SINGLY = 1_500, 200


def measure(run: Run) -> list[Row]:
    """Race the contenders once for all tables of a set of sizes."""
    pairs = movielens_sizes(_QUICK_LISTS if run.quick else LISTS)
    run.tell(f"{len(pairs)} sizes, {len(METRICS)} metrics")
    contenders = [
        Contender(OURS, lambda: _tables(pairs, "exact", SAMPLES)),
        Contender("sampled", lambda: _tables(pairs, "sampled", _DRAWN_AT_ONCE), SAMPLES / _DRAWN_AT_ONCE),
        Contender("order by order", lambda: _order_by_order(pairs, _DRAWN_SINGLY), SAMPLES / _DRAWN_SINGLY),
    ]
    notes = {
        "sampled": f"{_DRAWN_AT_ONCE:,} orders a list drawn, times {SAMPLES // _DRAWN_AT_ONCE:,}",
        "order by order": f"{_DRAWN_SINGLY} orders a list drawn, times {SAMPLES // _DRAWN_SINGLY:,}",
    }
    size = f"{len(pairs)} sizes x {len(METRICS)} metrics"
    return rows_of(race(contenders, run.pace), size, len(pairs), notes)


def _tables(pairs: list[tuple[int, int]], method: str, samples: int) -> None:
    from rankbound.bounds.score_distribution import score_distributions

    for metric in METRICS:
        for _ in score_distributions(metric, pairs, method=method, samples=samples):  # type: ignore[arg-type]
            pass


def _order_by_order(pairs: list[tuple[int, int]], samples: int) -> None:
    generator = np.random.default_rng(0)
    for n, p in pairs:
        relevance = np.zeros(n)
        relevance[:p] = 1
        discounts = 1 / np.log2(np.arange(n) + 2)
        ideal = discounts[:p].sum()
        scores = np.empty((samples, len(METRICS)))
        for row in scores:
            ranks = np.flatnonzero(generator.permutation(relevance)) + 1
            counts = np.arange(1, p + 1)
            row[:] = discounts[ranks - 1].sum() / ideal, (counts / ranks).mean(), (ranks - counts).sum()
        for column in scores.T:
            np.unique(column, return_counts=True)
