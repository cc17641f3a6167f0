"""Claims about mean scores of bounded and unbounded losses (Table 5.1)."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from rankbound.compare.margins import LEVEL, MARGIN
from rankbound.compare.statistics import Estimate
from rankbound_study.claims.cells import COLLAPSE, CUT_OFFS, MOVIELENS, Cell, Contrast, cells, contrasts, distinct
from rankbound_study.claims.declared import Differences, of_cells
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import NEGLIGIBLE, Family, adjusted, among, by_p, collapsed, most, most_rise, together
from rankbound_study.claims.sample_sizes import Sample, sample_of_most
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict
from rankbound_study.results.number_texts import signed

TABLE = "table_5_1"


@decides("T23")
def bounded_losses_do_as_well(evidence: Evidence) -> Verdict:
    """Decide by whether more than half of the distinct cells are no worse by a margin of 0.01 (partial conjunction)."""
    found = contrasts(evidence, distinct(cells(evidence)))
    fallen = collapsed(found)
    others = {cell: one for cell, one in found.items() if cell not in fallen}
    tests = [(one.estimate.p_above(-MARGIN), one.estimate.p_below(-MARGIN)) for one in found.values()]
    no_worse, worse = (sum(p_value <= LEVEL for p_value in side) for side in zip(*tests, strict=True))
    without = f", without the {len(fallen)} that collapse {_mean_of(others)}" if others and fallen else ""
    lowest = min(found, key=lambda cell: found[cell].mean)
    return Verdict(
        most(*map(list, zip(*tests, strict=True))),
        f"Within a margin of {MARGIN}, {no_worse} of {len(found)} distinct bounded losses are shown to be no worse "
        f"than the unbounded one, and {worse} are significantly worse by more; the mean change is {_mean_of(found)}"
        f"{without}, and the lowest is {found[lowest]} ({lowest}).",
        "share of distinct cells that are no worse",
        no_worse / len(found),
        n=len(found),
        shown_in=TABLE,
        sample=sample_of_most(found, MARGIN),
    )


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


DECLARED = {
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
}


@decides("T46")
def bounding_raises_most_means(evidence: Evidence) -> Verdict:
    """Decide by whether more than half of the distinct cells score above the unbounded loss (partial conjunction)."""
    family = Family.of(contrasts(evidence, distinct(cells(evidence))))
    without = {cell: one for cell, one in family.contrasts.items() if cell.loss != "nRBP"}
    rising, other = (sum(one.mean > 0 for one in group.values()) for group in (family.contrasts, without))
    return Verdict(
        most_rise(family.contrasts),
        f"The mean rises in {rising} of {len(family)} distinct cells, significantly in {len(family.higher)}, and falls "
        f"significantly in {len(family.lower)}; without nRBP it rises in {other} of {len(without)}, for which the "
        f"verdict would be {most_rise(without)}.",
        "share of distinct cells whose mean rises",
        rising / len(family),
        n=len(family),
        shown_in=TABLE,
        sample=sample_of_most(family.contrasts, NEGLIGIBLE),
    )
