"""The claim that other orders than random ones would help distribution bounding."""

from collections.abc import Mapping

import polars as pl

from rankbound_study.claims.cells import MOVIELENS, MQ2008, Contrast
from rankbound_study.claims.declared import Differences
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.rules import Family, no_noise
from rankbound_study.claims.varied import columns_of, paired, trainings, usual_beside, variants
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence

BOUNDING, TILTED = "distribution", "distribution(tilt="


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
