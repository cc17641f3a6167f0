"""The proposal of the thesis' conclusion: a bound by orders biased towards ranking relevant items first."""

from collections.abc import Iterator

import polars as pl

from rankbound_study.claims.cells import MOVIELENS, MQ2008, Column, Contrast, columns
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import Family
from rankbound_study.claims.varied import paired, trainings, usual_beside, variants
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.claims.words import no_noise, numbered
from rankbound_study.results.number_texts import signed

EXPERIMENT, BOUNDING, TILTED = "tilts", "distribution", "distribution(tilt="

Key = tuple[str, Column, str]
"""A loss, a data set, and the tilt."""


@decides("T48")
def a_distribution_of_good_orders_helps(evidence: Evidence) -> Verdict:
    """Decide by tilted minus random orders: confirmed if some are significantly higher and none lower (Holm).

    Refuted if some are lower and none higher, or if all are alike within the noise margin; otherwise inconclusive.
    """
    family = Family.of(dict(_contrasts(evidence)))
    n, (least, largest) = len(family.contrasts), family.extremes
    verdict = _verdict(family)
    deciding = least if verdict == REFUTED and family.lower else largest
    decisive = family.contrasts[deciding]
    undecided = no_noise(family.contrasts.values()) if verdict == INCONCLUSIVE and not family.higher else ""
    return Verdict(
        verdict,
        f"Bounding by the scores of orders that favour relevant items, instead of random ones, changes mean scores by "
        f"{signed(family.contrasts[least].mean)} ({_named(least)}) to {signed(family.contrasts[largest].mean)} "
        f"({_named(largest)}): significantly higher in {numbered(len(family.higher), n)} cells and lower in "
        f"{len(family.lower)}. {undecided}".rstrip(),
        statistic=f"mean score, tilted minus random orders: {_named(deciding)}",
        value=decisive.mean,
        low=decisive.interval[0],
        high=decisive.interval[1],
        p_value=family.p_values[deciding],
        n=decisive.n,
        shown_in=("table_sensitivity",),
    )


def _verdict(family: Family[Key]) -> str:
    if family.higher:
        return INCONCLUSIVE if family.lower else CONFIRMED
    return REFUTED if family.lower or len(family.alike) == len(family.contrasts) else INCONCLUSIVE


def _contrasts(evidence: Evidence) -> Iterator[tuple[Key, Contrast]]:
    """Yield the contrast of every loss, data set and tilt.

    Raises:
        MissingEvidence: the experiment did not run.
    """
    found = False
    for column in _columns(evidence):
        for rows in variants(evidence, EXPERIMENT, column, with_usual=False).values():
            for bounding in rows["bounding"].unique().sort():
                if not bounding.startswith(TILTED):
                    continue
                tilted = rows.filter(pl.col("bounding") == bounding).with_columns(pl.lit(BOUNDING).alias("bounding"))
                usual = usual_beside(evidence, column, tilted)
                for training in trainings(tilted):
                    if training not in trainings(usual):
                        continue
                    found = True
                    tilt = bounding.removeprefix(TILTED).removesuffix(")")
                    yield (training[0], column, tilt), paired(tilted, usual, training)
    if not found:
        raise MissingEvidence(f"the experiment {EXPERIMENT} did not run: see experiments in config.yaml")


def _columns(evidence: Evidence) -> Iterator[Column]:
    """Yield the columns that the experiment ran on."""
    for dataset in (MOVIELENS, MQ2008):
        try:
            every = columns(evidence, dataset)
        except MissingEvidence:
            continue
        for column in every:
            try:
                evidence.varied(EXPERIMENT, column.dataset, column.nsr)
            except MissingEvidence:
                continue
            yield column


def _named(key: Key) -> str:
    loss, column, tilt = key
    return f"{loss} on {column}, odds times {tilt}"
