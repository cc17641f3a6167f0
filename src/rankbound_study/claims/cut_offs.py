"""Claims about nDCG of the first places of a list (Figure 5.1)."""

from collections.abc import Iterable

import numpy as np

from rankbound.compare import PairedScores
from rankbound.compare.effects import LEVEL
from rankbound.compare.scores import Floats, per_unit
from rankbound_study.claims.cells import (
    CUT_OFFS,
    MOVIELENS,
    MQ2008,
    Cell,
    Column,
    Contrast,
    cells,
    columns,
    contrast,
    contrasts,
    control_scores,
    estimate,
    pair,
    scores,
)
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.resampled import shares_above_zero
from rankbound_study.claims.rules import Family, by_interval, together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.claims.words import numbered
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import BOUNDED, LOSSES, UNBOUNDED

HALF = 0.5
SHOWN_IN = ("figure_5_1",)
FROM_THIRD = CUT_OFFS[2:]
HIGHEST_RATIO = 3


@decides("T29")
def distribution_bounding_of_ap_raises_first_places(evidence: Evidence) -> Verdict:
    """Decide by whether most of nDCG@1 to nDCG@10 rise and none falls in any column, while AP falls at the highest
    ratio.
    """
    family = Family.of(contrasts(evidence, cells(evidence, ["AP"], ["distribution"], metrics=CUT_OFFS)))
    by_column = {
        column: [cell for cell in family.contrasts if cell.column == column]
        for column in dict.fromkeys(cell.column for cell in family.contrasts)
    }
    highest = max((column for column in by_column if column.nsr is not None), key=lambda column: column.nsr or 0)
    mean_ap = contrast(pair(evidence, Cell("AP", "distribution", highest, "AP")))
    verdict = together(*(_mostly_higher(family, these) for these in by_column.values()), _falls(mean_ap))
    texts = "; ".join(
        f"{column}: {sum(cell in family.higher for cell in these)} up and "
        f"{sum(cell in family.lower for cell in these)} down, mean change "
        f"{signed(float(np.mean([family.contrasts[cell].mean for cell in these])))}"
        for column, these in by_column.items()
    )
    return Verdict(
        verdict,
        f"With distribution bounding of AP, nDCG changes significantly at these of the ten cut-offs: {texts}; mean AP "
        f"on {highest} changes by {signed(mean_ap.mean)} (95 % interval {signed(mean_ap.interval[0])} to "
        f"{signed(mean_ap.interval[1])}).",
        statistic="share of cut-offs and data sets with a significant rise",
        value=len(family.higher) / len(family.contrasts),
        n=len(family.contrasts),
        shown_in=(*SHOWN_IN, "table_5_1"),
    )


@decides("T30")
def bounded_ap_often_raises_first_places_of_mq2008(evidence: Evidence) -> Verdict:
    """Decide by whether more than half of 4 boundings times 10 cut-offs score above the unbounded loss."""
    every = cells(evidence, ["AP"], BOUNDED, columns(evidence, MQ2008), CUT_OFFS)
    pairs = {cell: pair(evidence, cell) for cell in every}
    family = Family.of({cell: contrast(one) for cell, one in pairs.items()})
    (share,) = shares_above_zero(pairs, every)
    least, most = family.extremes
    return Verdict(
        by_interval(share.low, share.high, HALF),
        f"{share.count} of {share.n} differences are positive (95 % interval over queries and trainings: "
        f"{100 * share.low:.0f} to {100 * share.high:.0f} %), {len(family.higher)} of them significantly, and "
        f"{len(family.lower)} are significantly negative; they lie between "
        f"{signed(family.contrasts[least].mean)} ({least.bounding}, {least.metric}) and "
        f"{signed(family.contrasts[most].mean)} ({most.bounding}, {most.metric}).",
        statistic="share of positive differences",
        value=share.value,
        low=share.low,
        high=share.high,
        n=share.n,
        shown_in=SHOWN_IN,
    )


@decides("T31")
def bounded_nrbp_raises_first_places(evidence: Evidence) -> Verdict:
    """Test every bounding on all data at every cut-off, except the first two at ratio 3."""
    every = [
        cell
        for column in columns(evidence)
        for cell in cells(
            evidence, ["nRBP"], BOUNDED, [column], FROM_THIRD if column.nsr == HIGHEST_RATIO else CUT_OFFS
        )
    ]
    family = Family.of(contrasts(evidence, every))
    least, _ = family.extremes
    positive = sum(mean > 0 for mean in family.means)
    low, high = family.contrasts[least].interval
    return Verdict(
        family.all_higher(),
        f"{numbered(positive, len(every))} differences are positive, {len(family.higher)} significantly; "
        f"{len(family.lower)} are significantly negative and {len(family.alike)} alike within the noise margin; "
        f"the lowest is {signed(family.contrasts[least].mean)} in {least.metric} ({least}).",
        statistic="mean nDCG@k, bounded minus unbounded, smallest difference",
        value=family.contrasts[least].mean,
        low=low,
        high=high,
        p_value=family.worst_p,
        n=len(every),
        shown_in=SHOWN_IN,
    )


@decides("T32")
def first_places_fall_on_movielens_and_rise_on_mq2008(evidence: Evidence) -> Verdict:
    """Decide by the slope of nDCG@k on k = 1 to 10: below zero in every MovieLens column, above zero on MQ2008."""
    slopes = {
        (loss, bounding, column): _slope_of(evidence, loss, bounding, column)
        for loss in LOSSES
        for bounding in (UNBOUNDED, *BOUNDED)
        for column in columns(evidence)
    }
    family = Family.of(slopes)
    movielens = [key for key in slopes if key[2].dataset == MOVIELENS]
    mq2008 = [key for key in slopes if key[2].dataset == MQ2008]
    verdict = together(_all_of(movielens, family.lower, family.higher), _all_of(mq2008, family.higher, family.lower))
    ranges = [[slopes[key].mean for key in keys] for keys in (movielens, mq2008)]
    return Verdict(
        verdict,
        f"Per rank k, nDCG@k changes by {signed(min(ranges[0]))} to {signed(max(ranges[0]))} on MovieLens "
        f"(significantly down for {numbered(sum(key in family.lower for key in movielens), len(movielens))} losses, "
        f"boundings and ratios) and by {signed(min(ranges[1]))} to {signed(max(ranges[1]))} on MQ2008 (up for "
        f"{numbered(sum(key in family.higher for key in mq2008), len(mq2008))}){_of_controls(evidence)}.",
        statistic="slope of nDCG@k on k, MQ2008 minus MovieLens, means",
        value=float(np.mean(ranges[1]) - np.mean(ranges[0])),
        p_value=family.worst_p,
        n=len(slopes),
        shown_in=SHOWN_IN,
    )


def _mostly_higher(family: Family[Cell], these: Iterable[Cell]) -> str:
    keys = list(these)
    up, alike = (sum(cell in group for cell in keys) for group in (family.higher, family.alike))
    if any(cell in family.lower for cell in keys) or alike > HALF * len(keys):
        return REFUTED
    return CONFIRMED if up > HALF * len(keys) else INCONCLUSIVE


def _falls(one: Contrast) -> str:
    if one.estimate.p_value() <= LEVEL:
        return CONFIRMED if one.mean < 0 else REFUTED
    return REFUTED if one.is_alike else INCONCLUSIVE


def _all_of(keys: list[tuple[str, str, Column]], wanted: Iterable[object], against: Iterable[object]) -> str:
    if set(keys) & set(against):
        return REFUTED
    return CONFIRMED if set(keys) <= set(wanted) else INCONCLUSIVE


def _slope_of(evidence: Evidence, loss: str, bounding: str, column: Column) -> Contrast:
    of_cut_offs = [scores(evidence, metric, loss, column) for metric in CUT_OFFS]
    if bounding not in of_cut_offs[0].systems:
        raise MissingEvidence(f"no runs of {loss} with bounding {bounding} on {column}")
    slopes = _slopes(of_cut_offs, bounding)
    if len(slopes) < 2:
        raise MissingEvidence(f"{column} has {len(slopes)} topics with a score; a test takes two")
    return Contrast(estimate(slopes), float("nan"), len(slopes))


def _slopes(of_cut_offs: list[PairedScores], system: str) -> Floats:
    """Return the least-squares slope of nDCG@k on k for every list, without units that have none."""
    place = list(of_cut_offs[0].systems).index(system)
    places = np.arange(len(of_cut_offs)) - (len(of_cut_offs) - 1) / 2
    values = np.stack([one.values[place] for one in of_cut_offs])
    found: Floats = np.tensordot(places / (places**2).sum(), values, 1)
    return found[np.isfinite(found).any((1, 2))]


def _of_controls(evidence: Evidence) -> str:
    """Describe the slope of nDCG@k in the rankings of untrained models."""
    slopes: dict[str, list[str]] = {}
    for column in columns(evidence):
        of_cut_offs = [control_scores(evidence, metric, column) for metric in CUT_OFFS]
        for model in of_cut_offs[0].systems:
            slopes.setdefault(model, []).append(signed(float(per_unit(_slopes(of_cut_offs, model)).mean())))
    texts = [f"{', '.join(slopes[model])} ({model})" for model in ("random", "popularity", "oracle") if model in slopes]
    return f"; without training, by data set: {'; '.join(texts)}" if texts else ""
