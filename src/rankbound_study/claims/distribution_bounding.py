"""Claims about distribution bounding: why it hurts nDCG, and whether other orders than random ones would help it."""

import math
from collections.abc import Mapping

import polars as pl

from rankbound.compare.effects import LEVEL
from rankbound_study.claims.cells import COLLAPSE, MOVIELENS, MQ2008, Cell, Contrast, contrast, pair
from rankbound_study.claims.declared import Differences
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import HALF, Family, no_noise
from rankbound_study.claims.varied import column_of, columns_of, paired, trainings, usual_beside, variants
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.vocabulary import UNBOUNDED

LOSS, BOUNDING, TILTED = "nDCG", "distribution", "distribution(tilt="


@decides("T27")
def the_gradient_vanishes_at_the_start(evidence: Evidence) -> Verdict:
    """Decide by whether a gentler sigmoid and factors that do not start as ties remove the drop."""
    evidence = evidence.of_all_trainings()
    column = column_of(evidence, "starts")
    drop = contrast(pair(evidence, Cell(LOSS, BOUNDING, column, LOSS)))
    if drop.estimate.p_below(-COLLAPSE) > LEVEL:
        reason = f"Distribution bounding changes mean nDCG by {drop} on {column}: no drop to explain."
        return Verdict(INCONCLUSIVE, reason, "mean nDCG, bounded minus unbounded", *drop.measured, n=drop.n)
    remedies = _remedies(evidence, column)
    gone = [_has_gone(one, drop) for one in remedies.values()]
    best = max(remedies, key=lambda name: remedies[name].mean)
    return Verdict(
        CONFIRMED if all(gone) else REFUTED if not any(gone) else INCONCLUSIVE,
        f"On {column} distribution bounding changes mean nDCG by {drop}, and by "
        f"{', '.join(f'{one} with {name}' for name, one in remedies.items())}; in the first epoch its gradient norm is "
        f"{_first_gradient(evidence, column):.2g} times that of the unbounded loss.",
        f"mean nDCG, bounded minus unbounded, with {best}",
        *remedies[best].measured,
        n=remedies[best].n,
        shown_in="table_5_1",
    )


def _has_gone(remedied: Contrast, drop: Contrast) -> bool:
    """Check that less than half of the drop remains, and that a collapse is not significant."""
    return remedied.mean > HALF * drop.mean and remedied.estimate.p_below(-COLLAPSE) > LEVEL


def _remedies(evidence: Evidence, column: DataSet) -> dict[str, Contrast]:
    """Return bounded minus unbounded with other gains of the sigmoid, and from other starts."""
    unbounded = (LOSS, UNBOUNDED)
    usual = evidence.cell(column.dataset, column.nsr).select(*KEY, LOSS).collect()
    found = {}
    for rows in variants(evidence, "gains", column, with_usual=False).values():
        for bounding in rows["bounding"].unique().sort():
            gain = bounding.removeprefix("distribution(gain=").removesuffix(")")
            found[f"the gain {gain}"] = paired(rows, usual, (LOSS, bounding), unbounded)
    for name, rows in variants(evidence, "starts", column, with_usual=False).items():
        spread = int(name.removeprefix("s")) / 100
        found[f"factors that start within {spread:g}"] = paired(rows, rows, (LOSS, BOUNDING), unbounded)
    return found


def _first_gradient(evidence: Evidence, column: DataSet) -> float:
    """Return the mean gradient norm of the bounded loss in the first epoch, divided by that of the unbounded loss."""
    epochs = evidence.epochs_of(column.dataset, column.nsr)
    first = epochs.filter(pl.col("epoch") == 1, pl.col("loss") == LOSS).collect()
    norms = dict(first.group_by("bounding").agg(pl.col("gradient_norm").mean()).rows())
    if not norms.get(UNBOUNDED) or BOUNDING not in norms:
        return math.nan
    return float(norms[BOUNDING] / norms[UNBOUNDED])


def _tilted_minus_random(evidence: Evidence) -> dict[str, Contrast]:
    """Return the contrast of every loss, data set and tilt; MissingEvidence if the experiment did not run."""
    found = {}
    for column in (one for dataset in (MOVIELENS, MQ2008) for one in columns_of(evidence, "tilts", dataset)):
        for rows in variants(evidence, "tilts", column, with_usual=False).values():
            for bounding in rows["bounding"].unique().sort():
                if not bounding.startswith(TILTED):
                    continue
                tilted = rows.filter(pl.col("bounding") == bounding).with_columns(pl.lit(BOUNDING).alias("bounding"))
                usual = usual_beside(evidence, column, tilted)
                tilt = bounding.removeprefix(TILTED).removesuffix(")")
                for training in (one for one in trainings(tilted) if one in trainings(usual)):
                    found[f"{training[0]} on {column}, odds times {tilt}"] = paired(tilted, usual, training)
    if not found:
        raise MissingEvidence("the experiment tilts did not run: see experiments in config.yaml")
    return found


def _some_higher(family: Family[str]) -> str:
    """Return confirmed if some are higher and none lower; refuted if some are lower and none higher, or all alike."""
    if family.higher:
        return INCONCLUSIVE if family.lower else CONFIRMED
    return REFUTED if family.lower or len(family.alike) == len(family) else INCONCLUSIVE


def _deciding(family: Family[str]) -> str:
    return family.least() if _some_higher(family) == REFUTED and family.lower else family.most()


def _undecided(evidence: Evidence, family: Family[str]) -> Mapping[str, object]:
    of_noise = _some_higher(family) == INCONCLUSIVE and not family.higher
    missing = no_noise(family.contrasts.values()) if of_noise else ""
    return {"undecided": f" {missing}" if missing else ""}


DECLARED = {
    "T48": Differences(
        _tilted_minus_random,
        _some_higher,
        "Bounding by the scores of orders that favour relevant items, instead of random ones, changes mean scores by "
        "{least} ({at_least}) to {most} ({at_most}): significantly higher in {higher} of {count} cells and lower in "
        "{lower}.{undecided}",
        "mean score, tilted minus random orders: {at_deciding}",
        _deciding,
        Family.own_p,
        of_topics=True,
        facts=_undecided,
        shown_in="table_sensitivity",
    ),
}
