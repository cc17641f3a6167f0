"""The claim that distribution bounding hurts nDCG because its gradient vanishes at the start of training."""

import math

import polars as pl

from rankbound.compare.effects import LEVEL
from rankbound.compare.frames import scores_of_frame
from rankbound_study.claims.cells import COLLAPSE, Cell, Column, Contrast, contrast, pair
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.varied import column_of, variants
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import UNBOUNDED

HALF = 0.5
"""Largest share of the drop that may remain where a remedy works."""

LOSS, BOUNDING = "nDCG", "distribution"


@decides("T27")
def the_gradient_vanishes_at_the_start(evidence: Evidence) -> Verdict:
    """Decide by whether a gentler sigmoid and factors that do not start as ties remove the drop."""
    column = column_of(evidence, "starts")
    drop = contrast(pair(evidence, Cell(LOSS, BOUNDING, column, LOSS)))
    if drop.estimate.p_below(-COLLAPSE) > LEVEL:
        reason = f"Distribution bounding changes mean nDCG by {signed(drop.mean)} on {column}: no drop to explain."
        return Verdict(INCONCLUSIVE, reason, "mean nDCG, bounded minus unbounded", drop.mean, *drop.interval, n=drop.n)
    remedies = _remedies(evidence, column)
    gone = {name: _has_gone(one, drop) for name, one in remedies.items()}
    verdict = CONFIRMED if all(gone.values()) else REFUTED if not any(gone.values()) else INCONCLUSIVE
    best = max(remedies, key=lambda name: remedies[name].mean)
    changes = ", ".join(f"{signed(one.mean)} with {name}" for name, one in remedies.items())
    return Verdict(
        verdict,
        f"On {column} distribution bounding changes mean nDCG by {signed(drop.mean)}, and by {changes}; in the first "
        f"epoch its gradient norm is {_first_gradient(evidence, column):.2g} times that of the unbounded loss.",
        statistic=f"mean nDCG, bounded minus unbounded, with {best}",
        value=remedies[best].mean,
        low=remedies[best].interval[0],
        high=remedies[best].interval[1],
        n=remedies[best].n,
        shown_in=("table_5_1",),
    )


def _has_gone(remedied: Contrast, drop: Contrast) -> bool:
    """Check that less than half of the drop remains, and that a collapse is not significant."""
    return remedied.mean > HALF * drop.mean and remedied.estimate.p_below(-COLLAPSE) > LEVEL


def _remedies(evidence: Evidence, column: Column) -> dict[str, Contrast]:
    """Return bounded minus unbounded with other gains of the sigmoid, and from other starts."""
    usual = evidence.cell(column.dataset, column.nsr).filter(pl.col("loss") == LOSS).collect()
    found = {}
    for rows in variants(evidence, "gains", column, with_usual=False).values():
        for bounding in rows["bounding"].unique().sort():
            gain = bounding.removeprefix("distribution(gain=").removesuffix(")")
            found[f"the gain {gain}"] = _between(rows, usual, bounding)
    for name, rows in variants(evidence, "starts", column, with_usual=False).items():
        spread = int(name.removeprefix("s")) / 100
        found[f"factors that start within {spread:g}"] = _between(rows, rows, BOUNDING)
    return found


def _between(rows: pl.DataFrame, others: pl.DataFrame, bounding: str) -> Contrast:
    """Return a bounding in some rows minus the unbounded loss in others, over the folds and seeds of both."""
    bounded = rows.filter(pl.col("bounding") == bounding).with_columns(pl.lit("bounded").alias("system"))
    unbounded = others.filter(pl.col("bounding") == UNBOUNDED).with_columns(pl.lit("unbounded").alias("system"))
    both = pl.concat([one.select("system", "topic", "fold", "seed", LOSS) for one in (bounded, unbounded)])
    return contrast(scores_of_frame(both, LOSS).pair("bounded", "unbounded"))


def _first_gradient(evidence: Evidence, column: Column) -> float:
    """Return the mean gradient norm of the bounded loss in the first epoch, divided by that of the unbounded loss."""
    epochs = evidence.epochs_of(column.dataset, column.nsr)
    first = epochs.filter(pl.col("epoch") == 1, pl.col("loss") == LOSS).collect()
    norms = dict(first.group_by("bounding").agg(pl.col("gradient_norm").mean()).rows())
    if not norms.get(UNBOUNDED) or BOUNDING not in norms:
        return math.nan
    return float(norms[BOUNDING] / norms[UNBOUNDED])
