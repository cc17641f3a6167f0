"""Claims about nDCG of the first places of a list (Figure 5.1)."""

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np

from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import Floats, per_unit
from rankbound_study.claims.cells import (
    CUT_OFFS,
    MOVIELENS,
    MQ2008,
    Cell,
    Contrast,
    cells,
    columns,
    contrast,
    contrast_of,
    contrasts,
    control_scores,
    distinct,
    enough,
    pair,
    some_trained,
    values,
)
from rankbound_study.claims.declared import Differences
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import HALF, NEGLIGIBLE, Family, most_rise, together
from rankbound_study.claims.sample_sizes import sample_of_most
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import BOUNDED, BOUNDINGS, LOSSES, UNBOUNDED

FIGURE = "figure_5_1"
HIGHEST_RATIO = 3


@decides("T29")
def distribution_bounding_of_ap_raises_first_places(evidence: Evidence) -> Verdict:
    """Decide by most of nDCG@1 to nDCG@10 rising and none falling in any column, while AP falls at ratio 3."""
    family = Family.of(contrasts(evidence, cells(evidence, ["AP"], ["distribution"], metrics=CUT_OFFS)))
    by_column: dict[DataSet, list[Cell]] = {}
    for cell in family.contrasts:
        by_column.setdefault(cell.column, []).append(cell)
    highest = max(by_column, key=lambda column: column.nsr or 0)
    mean_ap = contrast(pair(evidence, Cell("AP", "distribution", highest, "AP")))
    texts = "; ".join(
        f"{column}: {sum(cell in family.higher for cell in these)} up and "
        f"{sum(cell in family.lower for cell in these)} down, mean change "
        f"{signed(float(np.mean([family.contrasts[cell].mean for cell in these])))}"
        for column, these in by_column.items()
    )
    return Verdict(
        together(*(_mostly_higher(family, these) for these in by_column.values()), _falls(mean_ap)),
        f"With distribution bounding of AP, nDCG changes significantly at these of the ten cut-offs: {texts}; mean AP "
        f"on {highest} changes by {mean_ap} (95 % interval {mean_ap.range}).",
        "share of cut-offs and data sets with a significant rise",
        len(family.higher) / len(family),
        n=len(family),
        shown_in="figure_5_1 table_5_1",
    )


def _mostly_higher(family: Family[Cell], these: Sequence[Cell]) -> str:
    up, down, alike = (sum(cell in group for cell in these) for group in (family.higher, family.lower, family.alike))
    if down or alike > HALF * len(these):
        return REFUTED
    return CONFIRMED if up > HALF * len(these) else INCONCLUSIVE


def _falls(one: Contrast) -> str:
    if one.estimate.p_value() <= LEVEL:
        return CONFIRMED if one.mean < 0 else REFUTED
    return REFUTED if one.is_alike else INCONCLUSIVE


@decides("T30")
def bounded_ap_often_raises_first_places_of_mq2008(evidence: Evidence) -> Verdict:
    """Decide by whether more than half of 4 boundings times 10 cut-offs rise (partial conjunction)."""
    every = cells(evidence, ["AP"], BOUNDED, columns(evidence, MQ2008), CUT_OFFS)
    family = Family.of(contrasts(evidence, every))
    positive = sum(mean > 0 for mean in family.means)
    texts = [f"{family.contrasts[at]} ({at.bounding}, {at.metric})" for at in (family.least(), family.most())]
    return Verdict(
        most_rise(family.contrasts),
        f"{positive} of {len(family)} differences are positive, {len(family.higher)} of them significantly, and "
        f"{len(family.lower)} are significantly negative; they lie between {' and '.join(texts)}.",
        "share of positive differences",
        positive / len(family),
        n=len(family),
        shown_in=FIGURE,
        sample=sample_of_most(family.contrasts, NEGLIGIBLE),
    )


def _except_the_first_two_at_ratio_3(evidence: Evidence) -> dict[Cell, Contrast]:
    every = distinct(cells(evidence, ["nRBP"], metrics=CUT_OFFS))
    left_out = CUT_OFFS[:2]
    kept = [cell for cell in every if cell.column.nsr != HIGHEST_RATIO or cell.metric not in left_out]
    return contrasts(evidence, kept)


DECLARED = {
    "T31": Differences(
        _except_the_first_two_at_ratio_3,
        partial(Family.all_higher, at_least=NEGLIGIBLE),
        "{positive} of {count} differences are positive, {higher} significantly; {lower} are significantly negative "
        "and {short} significantly below "
        f"{NEGLIGIBLE:+}"
        "; the lowest is {least} in {at_least.metric} ({at_least}).",
        "mean nDCG@k, bounded minus unbounded, smallest difference",
        Family.least,
        shown_in=FIGURE,
        matters=NEGLIGIBLE,
    ),
}


@decides("T32")
def first_places_fall_on_movielens_and_rise_on_mq2008(evidence: Evidence) -> Verdict:
    """Decide by the slope of nDCG@k on k = 1 to 10: below zero in every MovieLens column, above zero on MQ2008."""
    slopes = {
        (loss, bounding, column): _slope_of(evidence, loss, bounding, column)
        for loss, bounding, column in product(LOSSES, BOUNDINGS, columns(evidence))
        if evidence.trained(loss, bounding, column)
    }
    family = Family.of(slopes)
    movielens = [key for key in slopes if key[2].dataset == MOVIELENS]
    mq2008 = [key for key in slopes if key[2].dataset == MQ2008]
    some_trained(movielens and mq2008, "loss on one of them")
    down, up = (
        sum(key in group for key in keys) for keys, group in ((movielens, family.lower), (mq2008, family.higher))
    )
    against = set(movielens) & set(family.higher) or set(mq2008) & set(family.lower)
    there, here = ([slopes[key].mean for key in keys] for keys in (movielens, mq2008))
    return Verdict(
        REFUTED if against else CONFIRMED if down + up == len(slopes) else INCONCLUSIVE,
        f"Per rank k, nDCG@k changes by {signed(min(there))} to {signed(max(there))} on MovieLens (significantly down "
        f"for {down} of {len(movielens)} losses, boundings and ratios) and by {signed(min(here))} to "
        f"{signed(max(here))} on MQ2008 (up for {up} of {len(mq2008)}){_by_size(evidence)}{_of_controls(evidence)}.",
        "slope of nDCG@k on k, MQ2008 minus MovieLens, means",
        float(np.mean(here) - np.mean(there)),
        p_value=family.worst_p(),
        n=len(slopes),
        shown_in=FIGURE,
    )


def _slope_of(evidence: Evidence, loss: str, bounding: str, column: DataSet) -> Contrast:
    slopes = _slopes([values(evidence, metric, loss, column, bounding) for metric in CUT_OFFS])
    enough(len(slopes), f"of {column} with a score")
    return contrast_of(slopes)


def _slopes(of_cut_offs: Sequence[Floats]) -> Floats:
    """Return the least-squares slope of nDCG@k on k for every list, without units that have none."""
    found = _slopes_of_lists(of_cut_offs)
    return found[np.isfinite(found).any((1, 2))]


def _slopes_of_lists(of_cut_offs: Sequence[Floats]) -> Floats:
    places = np.arange(len(of_cut_offs)) - (len(of_cut_offs) - 1) / 2
    found: Floats = np.tensordot(places / (places**2).sum(), np.stack(of_cut_offs), 1)
    return found


def _by_size(evidence: Evidence) -> str:
    """Describe the mean slope, after training on unbounded losses, of lists with few and with many relevant items.

    From a list's number of relevant items on, nDCG@k cannot fall: the ideal ranking gains nothing more.
    """
    texts = []
    for dataset, name in ((MOVIELENS, "MovieLens"), (MQ2008, "MQ2008")):
        few, many = [np.empty(0)], [np.empty(0)]
        for loss, column in product(LOSSES, columns(evidence, dataset)):
            if evidence.trained(loss, UNBOUNDED, column):
                slopes = _slopes_of_lists([values(evidence, metric, loss, column) for metric in CUT_OFFS])
                is_long = values(evidence, "p", loss, column) >= len(CUT_OFFS)
                few.append(slopes[np.isfinite(slopes) & ~is_long])
                many.append(slopes[np.isfinite(slopes) & is_long])
        means = [np.concatenate(one) for one in (few, many)]
        texts.append(f"{' and '.join(signed(float(one.mean())) if len(one) else 'no list' for one in means)} on {name}")
    return f"; in lists with fewer than {len(CUT_OFFS)} relevant items and in all others, by {', '.join(texts)}"


def _of_controls(evidence: Evidence) -> str:
    """Describe the slope of nDCG@k in the rankings of untrained models."""
    slopes: dict[str, list[str]] = {}
    for column in columns(evidence):
        of_cut_offs = [control_scores(evidence, metric, column) for metric in CUT_OFFS]
        for place, model in enumerate(of_cut_offs[0].systems):
            found = _slopes([one.values[place] for one in of_cut_offs])
            slopes.setdefault(model, []).append(signed(float(per_unit(found).mean())))
    texts = [f"{', '.join(slopes[model])} ({model})" for model in ("random", "popularity", "oracle") if model in slopes]
    return f"; without training, by data set: {'; '.join(texts)}" if texts else ""
