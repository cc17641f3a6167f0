"""What related work predicts: orders of systems by bounded metrics, coherent gradients, a loss of ranks.

- Do bounds of the metric that evaluates invert systems? A system is a loss under a bounding. The bounded metric of a
  test list is an affine function of the metric, but its coefficients differ between lists, so that means over lists may
  order systems differently. Lists whose items are all relevant, or all irrelevant, have no bounded value and are left
  out of both.
- Is a relevant item pushed up at least as strongly as an irrelevant one? Marcuzzi, Lucchese and Orlando (CIKM 2023,
  "LambdaRank gradients are incoherent") call a gradient incoherent if a more relevant item gets the smaller push. Here
  the smooth losses are examined, with and without bounds, on random lists.
- Does a loss of ranks score below a metric's own loss? The unbounded nRBP loss, a sum of smooth ranks, is judged by
  nDCG and AP.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise

import numpy as np
import polars as pl

import rankbound as rb
from rankbound.compare import PairedScores
from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import Floats
from rankbound.compare.statistics import Estimate
from rankbound_study.claims.cells import Contrast, contrast, estimate, is_distinct
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.rules import adjusted
from rankbound_study.claims.verdict import MissingEvidence
from rankbound_study.config.data_sets import GRADED, DataSet
from rankbound_study.results.scores import scores_of_runs
from rankbound_study.vocabulary import AFFINE, BOUNDINGS, LOSSES, UNBOUNDED

METRICS = ("nDCG", "AP")
"""Metrics whose smallest and mean values differ between lists."""

_FEWEST = 3
"""Systems whose order says something."""

_DECIMALS = 12
"""Means that agree to so many decimals are tied."""


@dataclass(frozen=True)
class BoundedOrder:
    """The systems of a data set by a metric and by its bounded form, on the same lists.

    Attributes:
        systems, pairs: the numbers of systems and of pairs of them.
        tau: Kendall's tau between both orders of means.
        inverted: pairs whose means are in the other order.
        exchanged: pairs that are shown to be in the other order: significantly so by both forms (Holm).
        significant, significant_bounded: pairs that differ significantly by each form (without correction).
        gained, lost: pairs that differ significantly by the bounded form alone, and by the metric alone.
    """

    column: DataSet
    metric: str
    bound: str
    systems: int
    pairs: int
    tau: float
    inverted: int
    exchanged: int
    significant: int
    significant_bounded: int
    gained: int
    lost: int


def bounded_orders(evidence: Evidence) -> Iterator[BoundedOrder]:
    """Yield a row per data set with binary labels, metric and affine bound."""
    for column in evidence.data_sets:
        if column.dataset.endswith(GRADED):
            continue
        try:
            rows = evidence.cell(column.dataset, column.nsr).filter(pl.col("loss").is_in(LOSSES))
        except MissingEvidence:
            continue
        known = rows.filter(pl.col("p") > 0, pl.col("p") < pl.col("n")).select(*KEY, *METRICS).collect()
        kept = known.filter([is_distinct(*row) for row in known.select("loss", "bounding").rows()])
        if kept.select("loss", "bounding").n_unique() >= _FEWEST:
            for metric in METRICS:
                yield from _orders(kept, metric, column)


def _orders(rows: pl.DataFrame, metric: str, column: DataSet) -> Iterator[BoundedOrder]:
    named = rows.join(_bounded(rows, metric), on=["n", "p"], maintain_order="left")
    plain = _System.of(named, metric)
    for bound in AFFINE:
        shifted = (pl.col(metric) - pl.col(f"{bound} origin")) / pl.col(f"{bound} unit")
        yield _compared(plain, _System.of(named.with_columns(shifted.alias(metric)), metric), column, metric, bound)


def _bounded(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return origin and unit of every bound, for every list size that occurs."""
    sizes = rows.select("n", "p").unique().sort("n", "p")
    n, p = (sizes[name].cast(pl.Int64).to_numpy() for name in ("n", "p"))
    least, most, mean = (np.asarray(of(metric, n, p)) for of in (rb.minimum, rb.maximum, rb.expectation))
    of_bounds = {
        "min-max": (least, most - least),
        "expectation": (np.zeros_like(mean), mean),
        "expectation-max": (mean, most - mean),
    }
    return sizes.with_columns(
        pl.Series(f"{bound} {part}", values)
        for bound, both in of_bounds.items()
        for part, values in zip(("origin", "unit"), both, strict=True)
    )


@dataclass(frozen=True)
class _System:
    """The mean of every system, and the difference of every two."""

    means: Floats
    differences: Mapping[tuple[int, int], Estimate]

    @classmethod
    def of(cls, rows: pl.DataFrame, metric: str) -> "_System":
        scores = scores_of_runs(rows, metric, by=("loss", "bounding"))
        places = range(len(scores.systems))
        means: Floats = np.asarray(np.nanmean(scores.matrix, axis=0)).round(_DECIMALS)
        return cls(
            means,
            {(one, other): _difference(scores, one, other) for one, other in combinations(places, 2)},
        )


def _difference(scores: PairedScores, one: int, other: int) -> Estimate:
    pair = scores.pair(scores.systems[one], scores.systems[other])
    return estimate(pair.a - pair.b)


def _compared(plain: _System, bounded: _System, column: DataSet, metric: str, bound: str) -> BoundedOrder:
    from scipy import stats

    pairs = list(plain.differences)
    both = [(plain.differences[pair], bounded.differences[pair]) for pair in pairs]
    differ = np.array([[one.p_value() <= LEVEL for one in each] for each in both])
    exchanged = adjusted({pair: _p_exchanged(*each) for pair, each in zip(pairs, both, strict=True)})
    return BoundedOrder(
        column,
        metric,
        bound,
        len(plain.means),
        len(pairs),
        float(stats.kendalltau(plain.means, bounded.means).statistic),
        _inverted(pairs, plain.means, bounded.means),
        sum(p_value <= LEVEL for p_value in exchanged.values()),
        int(differ[:, 0].sum()),
        int(differ[:, 1].sum()),
        int((differ[:, 1] & ~differ[:, 0]).sum()),
        int((differ[:, 0] & ~differ[:, 1]).sum()),
    )


def _p_exchanged(plain: Estimate, bounded: Estimate) -> float:
    """Return the p-value that is small if one difference is above zero and the other below."""
    falls = max(plain.p_above(0.0), bounded.p_below(0.0))
    rises = max(plain.p_below(0.0), bounded.p_above(0.0))
    return min(1.0, 2 * min(falls, rises))


def _inverted(pairs: Sequence[tuple[int, int]], plain: Floats, bounded: Floats) -> int:
    return sum((plain[one] - plain[other]) * (bounded[one] - bounded[other]) < 0 for one, other in pairs)


RANK_LOSS = "nRBP"
OF_METRIC = ("nDCG", "AP")
"""Losses that are named after the metric that judges them."""


def rank_loss_minus_metric_loss(evidence: Evidence) -> Mapping[tuple[DataSet, str], Contrast]:
    """Return, for every data set and metric, the score of the loss of ranks minus that of the metric's own loss."""
    found = {}
    for column in evidence.data_sets:
        try:
            rows = evidence.cell(column.dataset, column.nsr).filter(pl.col("bounding") == UNBOUNDED)
        except MissingEvidence:
            continue
        for metric in OF_METRIC:
            own = rows.filter(pl.col("loss").is_in([RANK_LOSS, metric])).select(*KEY, metric).collect()
            scores = scores_of_runs(own, metric, by=("loss",))
            if {RANK_LOSS, metric} <= set(scores.systems) and len((pair := scores.pair(RANK_LOSS, metric)).units) > 1:
                found[column, metric] = contrast(pair)
    return found


SIZES = ((8, 3), (12, 4), (20, 5))
"""Numbers of items and of relevant items of the random lists."""

LISTS = 50
"""Lists of each size."""

SPREAD = 4.0
"""Standard deviation of the scores, in temperatures: close scores alone have coherent gradients."""


@dataclass(frozen=True)
class Coherence:
    """Pairs of a relevant and an irrelevant item of one list, under a loss and a bound."""

    loss: str
    bound: str
    pairs: int
    incoherent: int


def coherence(loss: str, bound: str) -> Coherence:
    """Count the pairs in which the irrelevant item is pushed up more, or down less, than the relevant one."""
    import torch  # which reading the table does not need

    random = np.random.default_rng(0)
    counts = [size for size in SIZES for _ in range(LISTS)]
    relevance = np.concatenate([np.arange(n) < p for n, p in counts])
    offsets = np.concatenate([[0], np.cumsum([n for n, _ in counts])])
    scores = torch.tensor(random.normal(0, SPREAD, len(relevance)), dtype=torch.float64, requires_grad=True)
    rb.SmoothLoss(loss, bound)(scores, relevance.astype(np.int64), offsets).sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    push = -scores.grad.numpy()
    pairs = incoherent = 0
    for start, end in pairwise(offsets.tolist()):
        wanted = relevance[start:end]
        smaller = push[start:end][wanted][:, None] < push[start:end][~wanted][None, :]
        pairs, incoherent = pairs + smaller.size, incoherent + int(smaller.sum())
    return Coherence(loss, bound, pairs, incoherent)


NAME, GRADIENTS, RANKS = "table_related", "table_related_gradients", "table_related_ranks"

COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("metric", "bound"), pl.String()),
    **dict.fromkeys(("systems", "pairs"), pl.Int64()),
    "tau": pl.Float64(),
    **dict.fromkeys(("inverted", "exchanged", "significant", "significant_bounded", "gained", "lost"), pl.Int64()),
}
GRADIENT_COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(("loss", "bound"), pl.String()),
    **dict.fromkeys(("pairs", "incoherent"), pl.Int64()),
}
RANK_COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    "metric": pl.String(),
    **dict.fromkeys(("difference", "low", "high", "p_value"), pl.Float64()),
}


def orders_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set, metric and bound of the metric."""
    rows = [one.column._asdict() | asdict(one) for one in bounded_orders(evidence)]
    return pl.DataFrame([{name: row[name] for name in COLUMNS} for row in rows], schema=COLUMNS)


def gradients_table() -> pl.DataFrame:
    """Return a row per loss and bound."""
    rows = [asdict(coherence(loss, bound)) for loss in LOSSES for bound in BOUNDINGS]
    return pl.DataFrame(rows, schema=GRADIENT_COLUMNS)


def ranks_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set and metric."""
    rows = [
        (*column, metric, *one.measured, one.estimate.p_value())
        for (column, metric), one in rank_loss_minus_metric_loss(evidence).items()
    ]
    return pl.DataFrame(rows, schema=RANK_COLUMNS, orient="row")
