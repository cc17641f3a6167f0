"""Claims about mean scores of bounded and unbounded losses: Table 5.1, and nDCG of the first places (Figure 5.1)."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations, product

import numpy as np

import rankbound as rb
from rankbound.compare.margins import LEVEL, MARGIN
from rankbound.compare.scores import Floats, per_unit
from rankbound.compare.statistics import Estimate
from rankbound_study.claims.cells import (
    COLLAPSE,
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
    judge,
    pair,
    some_trained,
    values,
)
from rankbound_study.claims.comparisons import COUNT, picked_systems, rated_data_sets
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import Differences, decides, of_cells
from rankbound_study.claims.rules import (
    FLAT,
    HALF,
    NEGLIGIBLE,
    Family,
    Sample,
    adjusted,
    among,
    by_p,
    collapsed,
    most,
    most_rise,
    together,
)
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.specs import signed
from rankbound_study.vocabulary import AFFINE, BOUNDINGS, LOSSES, UNBOUNDED

TABLE = "table_5_1"


def _no_worse(family: Family[Cell]) -> list[Cell]:
    """Return the cells that are shown to be no worse by the margin, each by its own test."""
    return [cell for cell, one in family.contrasts.items() if one.estimate.p_above(-MARGIN) <= LEVEL]


def _most_no_worse(family: Family[Cell]) -> str:
    """Return the verdict that more than half of the cells are no worse by the margin (partial conjunction)."""
    estimates = [one.estimate for one in family.contrasts.values()]
    return most([one.p_above(-MARGIN) for one in estimates], [one.p_below(-MARGIN) for one in estimates])


def _without_collapse(evidence: Evidence, family: Family[Cell]) -> Mapping[str, object]:
    found = family.contrasts
    fallen = collapsed(found)
    others = {cell: one for cell, one in found.items() if cell not in fallen}
    return {
        "no_worse": len(_no_worse(family)),
        "worse": sum(one.estimate.p_below(-MARGIN) <= LEVEL for one in found.values()),
        "mean": _mean_of(found),
        "without": f", without the {len(fallen)} that collapse {_mean_of(others)}" if others and fallen else "",
    }


def _mean_of(found: Mapping[Cell, Contrast]) -> str:
    return signed(float(np.mean([one.mean for one in found.values()])))


@decides("T26")
def distribution_bounding_hurts_ndcg_on_movielens(evidence: Evidence) -> Verdict:
    """Decide by whether it scores more than 0.01 below the unbounded loss at every ratio, but not on MQ2008."""
    evidence = evidence.of_all_trainings()
    found = contrasts(evidence, cells(evidence, ["nDCG"], ["distribution"]))
    there = {cell: one for cell, one in found.items() if cell.column.dataset == MOVIELENS}
    elsewhere = next(one for cell, one in found.items() if cell not in there)
    below, above = (
        adjusted({cell: test(one.estimate, -COLLAPSE) for cell, one in there.items()}).values()
        for test in (Estimate.p_below, Estimate.p_above)
    )
    does_not = elsewhere.p_below_margin if elsewhere.margin > 0 else 1.0
    worst = max(there.values(), key=lambda one: one.mean)
    return Verdict(
        together(by_p(max(below), min(above)), CONFIRMED if elsewhere.is_no_lower else by_p(1.0, does_not)),
        "Distribution bounding changes mean nDCG by "
        f"{', '.join(f'{one} on {cell.column}' for cell, one in found.items())}; the noise margin on MQ2008 is "
        f"{elsewhere.margin:.4f}, and a drop of more than {COLLAPSE} counts as strong.",
        "mean nDCG, bounded minus unbounded, least change on MovieLens",
        *worst.measured,
        n=worst.n,
        shown_in=TABLE,
        sample=Sample.of(worst, COLLAPSE),
    )


def _no_gain(family: Family[Cell]) -> str:
    """Return confirmed if all are significantly below the smallest gain that counts, refuted if one is above it."""
    below = [one.estimate.p_below(NEGLIGIBLE) <= LEVEL for one in family.contrasts.values()]
    return REFUTED if _gains(family) else CONFIRMED if all(below) else INCONCLUSIVE


def _gains(family: Family[Cell]) -> list[Cell]:
    """Return the cells that gain significantly more than that.

    nDCG and the cut-offs are two families, by Holm at half the level each: ten cut-offs do not hide a gain in nDCG.
    """
    p_values = {cell: one.estimate.p_above(NEGLIGIBLE) for cell, one in family.contrasts.items()}
    of_cut_offs = {cell: p_value for cell, p_value in p_values.items() if cell.metric in CUT_OFFS}
    of_ndcg = {cell: p_value for cell, p_value in p_values.items() if cell.metric not in CUT_OFFS}
    corrected = adjusted(of_ndcg) | adjusted(of_cut_offs)
    return [cell for cell, p_value in corrected.items() if p_value <= LEVEL / 2]


def _gains_in_words(evidence: Evidence, family: Family[Cell]) -> Mapping[str, object]:
    gains = _gains(family)
    return {"gains": len(gains), "at_gains": among(list(map(str, gains)))}


def _without_nrbp(evidence: Evidence, family: Family[Cell]) -> Mapping[str, object]:
    without = {cell: one for cell, one in family.contrasts.items() if cell.loss != "nRBP"}
    return {"other": sum(one.mean > 0 for one in without.values()), "others": len(without), "by": most_rise(without)}


def _apart(evidence: Evidence, loss: str, one: str, other: str, column: DataSet) -> Contrast:
    return contrast(pair(evidence, Cell(loss, one, column, judge(loss)), other))


def _sizes(evidence: Evidence, loss: str, column: DataSet) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes (items, relevant items) of the lists."""
    n, p = (values(evidence, name, loss, column) for name in ("n", "p"))
    known = np.isfinite(n) & np.isfinite(p)
    return n[known].astype(np.int64), p[known].astype(np.int64)


def _floors(evidence: Evidence, family: Family[Cell]) -> Mapping[str, object]:
    """Return the range of the lowest possible AP, and the differences, by ratio."""
    ratios = columns(evidence, MOVIELENS)
    spreads = [float(np.ptp(rb.minimum("AP", *_sizes(evidence, "AP", column)))) for column in ratios]
    return {
        "spreads": ", ".join(f"{one:.2f}" for one in spreads),
        "changes": ", ".join(map(str, family.contrasts.values())),
        "ratios": ", ".join(str(column.nsr) for column in ratios),
        "margins": ", ".join(f"{one.margin:.4f}" for one in family.contrasts.values()),
    }


_WITHIN = (
    "{within} of {count} mean differences are within the noise margin between trainings; the largest is {widest} "
    "({at_widest}, margin {widest.margin:.4f})."
)
_LARGEST = "mean difference of two boundings, largest"

_AS_EXPECTATION = Differences[str](
    lambda evidence: {
        f"{loss} on {column}": _apart(evidence, loss, "expectation-max", "expectation", column)
        for column, loss in product(columns(evidence), LOSSES)
    },
    Family.all_alike,
    _WITHIN,
    _LARGEST,
    Family.widest,
    takes_noise=True,
)


@decides("T16")
def expectation_max_is_as_expectation(evidence: Evidence) -> Verdict:
    """Decide by whether both weigh the lists of a ratio alike, and score alike.

    Weights whose quotient varies by less than 10 % are alike. That it varies more decides nothing: whether that matters
    is what the scores tell.
    """
    alike = _AS_EXPECTATION(evidence)
    quotients = {
        loss: [_variation_of_quotient(evidence, loss, column) for column in columns(evidence, MOVIELENS)]
        for loss in LOSSES
    }
    most = max(max(found) for found in quotients.values())
    texts = ", ".join(f"{min(found):.2f} to {max(found):.2f} ({loss})" for loss, found in quotients.items())
    return Verdict(
        together(CONFIRMED if most < FLAT else INCONCLUSIVE, alike.verdict),
        "Over the lists of one ratio the quotient of the factors by which the two boundings multiply a loss has a "
        f"coefficient of variation of {texts}, where {FLAT:g} is little; {alike.reason[0].lower()}{alike.reason[1:]}",
        "coefficient of variation of the quotient of the two boundings' factors, largest",
        most,
        n=alike.n,
        shown_in="figure_3_4 table_5_1",
    )


def _variation_of_quotient(evidence: Evidence, loss: str, column: DataSet) -> float:
    """Return the coefficient of variation over the lists of (max - E) / E, the quotient of 1 / E and 1 / (max - E).

    Their correlation says nothing: where the maximum is 1, one falls as the other rises, however little both vary.
    """
    n, p = _sizes(evidence, loss, column)
    expected = np.asarray(rb.expectation(loss, n, p))
    room = np.asarray(rb.maximum(loss, n, p)) - expected
    usable = (expected > 0) & (room > 0)
    quotient = room[usable] / expected[usable]
    return float(quotient.std() / quotient.mean()) if usable.any() else 0.0


@decides("P01")
def popularity_ranks_better_than_trained_models(evidence: Evidence) -> Verdict:
    """Decide by popularity minus the best bounding of every loss by validation, on every data set of ratings."""
    found: dict[tuple[DataSet, str], Contrast] = {}
    for column in rated_data_sets(evidence):
        for loss, (scores, system) in picked_systems(evidence, column).items():
            pair = scores.pair(COUNT, system)
            enough(len(pair.units), f"of {column} with a score of popularity")
            found[column, loss] = contrast(pair)
    if not found:
        raise MissingEvidence("no honest runs of popularity beside trained models: add it to controls in config.yaml")
    family = Family.of(found)
    texts = [
        f"{column}: {', '.join(f'{found[column, loss]} ({judge(loss)})' for loss in LOSSES if (column, loss) in found)}"
        for column in dict.fromkeys(column for column, _ in found)
    ]
    lower = [f"{judge(loss)} on {column}" for column, loss in family.lower]
    decisive = family.least()
    return Verdict(
        family.all_higher(),
        "Popularity minus the best bounding of each loss by validation, in the metric that judges the loss, "
        f"is {'; '.join(texts)}: significantly above zero (Holm, {LEVEL:.0%}) in {len(family.higher)} of {len(family)} "
        f"comparisons and below in {len(lower)}{among(lower)}.",
        "popularity minus the best trained model, smallest difference",
        *found[decisive].measured,
        family.own_p(decisive),
        found[decisive].n,
        "table_5_1_honest",
    )


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


def _except_the_first_two_at_ratio_3(evidence: Evidence) -> dict[Cell, Contrast]:
    every = distinct(cells(evidence, ["nRBP"], metrics=CUT_OFFS))
    left_out = CUT_OFFS[:2]
    kept = [cell for cell in every if cell.column.nsr != HIGHEST_RATIO or cell.metric not in left_out]
    return contrasts(evidence, kept)


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


def _rising(family: Family[Cell]) -> int:
    return sum(mean > 0 for mean in family.means)


DECLARED = {
    "T23": Differences(
        of_cells(),
        _most_no_worse,
        f"Within a margin of {MARGIN}"
        ", {no_worse} of {count} distinct bounded losses are shown to be no worse than the unbounded one, and {worse} "
        "are significantly worse by more; the mean change is {mean}{without}, and the lowest is {least} ({at_least}).",
        "share of distinct cells that are no worse",
        None,
        facts=_without_collapse,
        shown_in=TABLE,
        matters=MARGIN,
        share=lambda family: len(_no_worse(family)),
    ),
    "T30": Differences(
        of_cells(["AP"], datasets=[MQ2008], metrics=CUT_OFFS),
        lambda family: most_rise(family.contrasts),
        "{positive} of {count} differences are positive, {higher} of them significantly, and {lower} are significantly "
        "negative; they lie between {least} ({at_least.bounding}, {at_least.metric}) and {most} "
        "({at_most.bounding}, {at_most.metric}).",
        "share of positive differences",
        None,
        shown_in=FIGURE,
        matters=NEGLIGIBLE,
        share=_rising,
    ),
    "T46": Differences(
        of_cells(),
        lambda family: most_rise(family.contrasts),
        "The mean rises in {positive} of {count} distinct cells, significantly in {higher}, and falls significantly in "
        "{lower}; without nRBP it rises in {other} of {others}, for which the verdict would be {by}.",
        "share of distinct cells whose mean rises",
        None,
        facts=_without_nrbp,
        shown_in=TABLE,
        matters=NEGLIGIBLE,
        share=_rising,
    ),
    "T28": Differences(
        of_cells(["nDCG"], metrics=("nDCG", *CUT_OFFS)),
        _no_gain,
        f"Significantly above {NEGLIGIBLE:+}"
        " are {gains} of {count} differences{at_gains}, above zero {higher} and below zero {lower}; the largest gain "
        "is {most} in {at_most.metric} ({at_most}).",
        "mean, bounded minus unbounded, largest gain",
        Family.most,
        Family.own_p,
        facts=_gains_in_words,
        shown_in="table_5_1 figure_5_1",
        matters=NEGLIGIBLE,
    ),
    "T45": Differences(
        of_cells(["nRBP"]),
        partial(Family.all_higher, at_least=NEGLIGIBLE),
        "The mean rises in {positive} of {count} distinct cells, significantly in {higher}, and falls significantly in "
        "{lower}{at_against}; {short} changes are significantly below "
        f"{NEGLIGIBLE:+}"
        "; differences lie between {least} ({at_least}) and {most} ({at_most}).",
        "mean nRBP(p=0.95), bounded minus unbounded, smallest difference",
        Family.least,
        shown_in=TABLE,
        matters=NEGLIGIBLE,
    ),
    "T07": Differences(
        of_cells(["AP"], ["min-max"], [MOVIELENS]),
        Family.all_alike,
        "The lowest possible AP varies by {spreads} between the lists of one ratio; min-max bounding changes mean AP "
        "by {changes} at ratios {ratios}, where the noise margin between trainings is {margins}.",
        "mean AP, min-max minus unbounded, largest difference",
        Family.widest,
        Family.alike_p,
        of_topics=True,
        takes_noise=True,
        facts=_floors,
        shown_in="figure_3_1 table_5_1",
    ),
    "T14": Differences(
        lambda evidence: {
            f"{one}, {other} on {column}": _apart(evidence, "nRBP", one, other, column)
            for column, (one, other) in product(columns(evidence), combinations(AFFINE, 2))
        },
        Family.all_alike,
        "In theory min-max, expectation and expectation-max bounding multiply the nRBP loss of a list by 1, 2 and 2 "
        f"over its largest value, which differ by a constant factor; {_WITHIN}",
        _LARGEST,
        Family.widest,
        Family.alike_p,
        takes_noise=True,
        shown_in="table_5_1",
    ),
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
