"""The claim about why distribution bounding hurts nDCG: at tied scores, its gradient vanishes.

If that is the cause, whatever lifts the gradient at the start removes the drop: a smaller gain of the sigmoid, initial
factors without ties. A remedy counts only if it does lift the gradient, by the norms of the first epoch, and if the
unbounded loss trains with it as well as without: a gain that leaves the sigmoid as it was is none, nor is a start from
which nothing trains.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound.compare.statistics import Estimate, over_units
from rankbound_study.claims.cells import COLLAPSE, Cell, Contrast, contrast, estimate, pair
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.ratios import on_same_users
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import HALF, adjusted, by_p
from rankbound_study.claims.varied import SYSTEMS, Training, column_of, side_by_side, variants
from rankbound_study.claims.verdict import INCONCLUSIVE, MissingEvidence, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.vocabulary import UNBOUNDED

LOSS, BOUNDING = "nDCG", "distribution"
PLAIN, BOUNDED = (LOSS, UNBOUNDED), (LOSS, BOUNDING)


@decides("T27")
def the_gradient_vanishes_at_the_start(evidence: Evidence) -> Verdict:
    """Decide by whether every remedy that lifts the gradient at the start removes more than half of the drop.

    Confirmed if it is shown of all of them, and that no collapse remains; refuted if one keeps more than half (Holm).
    """
    evidence = evidence.of_all_trainings()
    column = column_of(evidence, "starts")
    drop = contrast(pair(evidence, Cell(LOSS, BOUNDING, column, LOSS)))
    statistic = "mean nDCG, bounded minus unbounded"
    if drop.estimate.p_below(-COLLAPSE) > LEVEL:
        reason = f"Distribution bounding changes mean nDCG by {drop} on {column}: no drop to explain."
        return Verdict(INCONCLUSIVE, reason, statistic, *drop.measured, n=drop.n)
    tried = _remedies(evidence, column)
    lifts = adjusted({name: one.log_lift.p_above(0.0) for name, one in tried.items()})
    lifting = {name: one for name, one in tried.items() if lifts[name] <= LEVEL and one.trains}
    idle = _no_remedies(tried, lifts)
    changes = ", ".join(f"{one.change} with {name} (gradient times {one.lift:.2g})" for name, one in lifting.items())
    if not lifting:
        reason = f"Distribution bounding changes mean nDCG by {drop} on {column}{idle}."
        return Verdict(INCONCLUSIVE, reason, statistic, *drop.measured, n=drop.n)
    stays = adjusted({name: one.more_than_half.p_below(0.0) for name, one in lifting.items()})
    gone = max(max(one.more_than_half.p_above(0.0), one.change.estimate.p_above(-COLLAPSE)) for one in lifting.values())
    worst = min(lifting, key=lambda name: lifting[name].change.mean)
    return Verdict(
        by_p(gone, min(stays.values())),
        f"On {column} distribution bounding changes mean nDCG by {drop}, and by {changes}{idle}.",
        f"{statistic}, with {worst}",
        *lifting[worst].change.measured,
        gone,
        lifting[worst].change.n,
        "table_5_1",
    )


def _no_remedies(tried: Mapping[str, "_Remedy"], lifts: Mapping[str, float]) -> str:
    """Name what is no remedy, and why."""
    without = {name: one for name, one in tried.items() if one.trains}
    idle = [f"{name} ({one.change})" for name, one in without.items() if lifts[name] > LEVEL]
    harmful = [
        f"{name} ({one.change}, where the unbounded loss changes by {one.unbounded})"
        for name, one in tried.items()
        if name not in without
    ]
    return "".join(
        f"; no remedy, as {reason}: {', '.join(names)}"
        for reason, names in (
            ("the gradient is not significantly larger", idle),
            (f"the unbounded loss is not shown to stay within {COLLAPSE:g}", harmful),
        )
        if names
    )


@dataclass(frozen=True)
class _Remedy:
    """A change of the training that should lift the gradient.

    Attributes:
        change: bounded minus unbounded with it.
        unbounded: the unbounded loss with it, minus that without it.
        more_than_half: `change` minus half of the drop without it, on the same lists and trainings.
        log_lift: the log of the factor by which it lifts the bounded gradient, relative to the unbounded one.
    """

    change: Contrast
    unbounded: Contrast
    more_than_half: Estimate
    log_lift: Estimate

    @property
    def trains(self) -> bool:
        """The unbounded loss is shown not to collapse with it."""
        return self.unbounded.estimate.p_above(-COLLAPSE) <= LEVEL

    @property
    def lift(self) -> float:
        return float(np.exp(self.log_lift.mean))


def _remedies(evidence: Evidence, column: DataSet) -> dict[str, _Remedy]:
    """Return other gains of the sigmoid, and other starts, by name."""
    usual = evidence.cell(column.dataset, column.nsr).select(*KEY, LOSS).collect()
    norms = evidence.epochs_of(column.dataset, column.nsr).collect()
    found = {}
    for _, rows, epochs in _variants(evidence, "gains", column):
        for bounding in rows["bounding"].unique().sort():
            gain = bounding.removeprefix("distribution(gain=").removesuffix(")")
            with_it = ((rows, epochs, (LOSS, bounding)), (usual, norms, PLAIN))
            found[f"the gain {gain}"] = _remedy(with_it, usual, norms)
    for name, rows, epochs in _variants(evidence, "starts", column):
        spread = int(name.removeprefix("s")) / 100
        with_it = ((rows, epochs, BOUNDED), (rows, epochs, PLAIN))
        found[f"factors that start within {spread:g}"] = _remedy(with_it, usual, norms)
    return found


def _variants(evidence: Evidence, experiment: str, column: DataSet) -> Iterator[tuple[str, pl.DataFrame, pl.DataFrame]]:
    """Yield every variant's name, rows and epochs."""
    epochs = evidence.variants(experiment, column.dataset, column.nsr, of_epochs=True)
    for name, rows in variants(evidence, experiment, column, with_usual=False).items():
        if name not in epochs:
            raise MissingEvidence(f"the experiment {experiment} has no epochs of {name}, with their gradient norms")
        yield name, rows, epochs[name].collect()


Measured = tuple[pl.DataFrame, pl.DataFrame, Training]
"""The rows and epochs of several trainings, and one of them."""


def _remedy(with_it: tuple[Measured, Measured], usual: pl.DataFrame, norms: pl.DataFrame) -> _Remedy:
    """Compare bounded and unbounded with a remedy to those without it, in the same folds and under the same seeds."""
    (rows, epochs, bounded), (plain_rows, plain_epochs, plain) = with_it
    ran = rows.select("fold", "seed").unique()
    usual, plain_rows = (each.join(ran, on=["fold", "seed"], how="semi") for each in (usual, plain_rows))
    both = side_by_side(rows, plain_rows, bounded, plain).pair(*SYSTEMS)
    unbounded = side_by_side(plain_rows, usual, plain, PLAIN).pair(*SYSTEMS)
    changed, unchanged = on_same_users([both, side_by_side(usual, usual, BOUNDED, PLAIN).pair(*SYSTEMS)])
    parts = [(epochs, bounded, 1), (plain_epochs, plain, -1), (norms, BOUNDED, -1), (norms, PLAIN, 1)]
    log_norms = ran.sort("fold", "seed")
    for place, (measured, training, sign) in enumerate(parts):
        own = _log_norms(measured, training).rename({"log_norm": f"part{place}"})
        log_norms = log_norms.join(own.with_columns(pl.col(f"part{place}") * sign), on=["fold", "seed"])
    if len(log_norms) < 2:
        raise MissingEvidence(f"{len(log_norms)} trainings have gradient norms in the first epoch; a test takes two")
    lift = log_norms.select(pl.sum_horizontal(f"part{place}" for place in range(len(parts)))).to_series()
    more_than_half = estimate(changed - HALF * unchanged)
    return _Remedy(contrast(both), contrast(unbounded), more_than_half, over_units(lift.to_numpy()))


def _log_norms(epochs: pl.DataFrame, training: Training) -> pl.DataFrame:
    """Return the log of the gradient norm in the first epoch, by fold and seed."""
    loss, bounding = training
    first = epochs.filter(pl.col("epoch") == 1, pl.col("loss") == loss, pl.col("bounding") == bounding)
    means = first.group_by("fold", "seed").agg(pl.col("gradient_norm").mean())
    return means.select("fold", "seed", pl.col("gradient_norm").log().alias("log_norm"))
