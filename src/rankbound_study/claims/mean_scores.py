"""Claims about mean scores of bounded and unbounded losses (Table 5.1)."""

from scipy import stats

from rankbound.compare.effects import LEVEL
from rankbound.compare.estimates import Estimate
from rankbound_study.claims.cells import COLLAPSE, CUT_OFFS, MOVIELENS, Cell, cells, contrasts, pairs
from rankbound_study.claims.declared import Differences, of_cells
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.resampled import shares_above_zero
from rankbound_study.claims.rules import HALF, Family, adjusted, by_interval, by_p, no_noise, together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict

TABLE = "table_5_1"


@decides("T23")
def bounded_losses_do_as_well(evidence: Evidence) -> Verdict:
    """Decide by whether most cells lose no more than the noise margin."""
    found = contrasts(evidence, cells(evidence))
    if missing := no_noise(found.values()):
        return Verdict(INCONCLUSIVE, missing, n=len(found), shown_in=TABLE)
    as_well = sum(one.is_no_lower for one in found.values())
    worse = sum(one.p_below_margin <= LEVEL for one in found.values())
    interval = stats.binomtest(as_well, len(found)).proportion_ci()
    lowest = min(found, key=lambda cell: found[cell].mean)
    return Verdict(
        by_interval(interval.low, interval.high, HALF),
        f"{as_well} of {len(found)} bounded losses are no worse than the unbounded one within the noise margin between "
        f"trainings, and {worse} are worse by more than it; the lowest is {lowest} ({found[lowest]}).",
        "share of cells that are no lower",
        as_well / len(found),
        float(interval.low),
        float(interval.high),
        n=len(found),
        shown_in=TABLE,
    )


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
    )


def _no_gain(family: Family[Cell]) -> str:
    """Return refuted if a difference is above zero, confirmed if all are significantly below the noise margin."""
    below = [one.margin > 0 and one.estimate.p_below(one.margin) <= LEVEL for one in family.contrasts.values()]
    return REFUTED if family.higher else CONFIRMED if all(below) else INCONCLUSIVE


DECLARED = {
    "T28": Differences(
        of_cells(["nDCG"], metrics=("nDCG", *CUT_OFFS)),
        _no_gain,
        "{higher} of {count} differences are significantly above zero{at_higher} and {lower} below; the largest gain "
        "is {most} in {at_most.metric} ({at_most}).",
        "mean, bounded minus unbounded, largest gain",
        Family.most,
        Family.own_p,
        shown_in="table_5_1 figure_5_1",
    ),
    "T45": Differences(
        of_cells(["nRBP"]),
        Family.all_higher,
        "The mean rises in {positive} of {count} cells, significantly in {higher}, falls significantly in {lower} and "
        "is alike within the noise margin in {alike}{at_against}; differences lie between {least} ({at_least}) and "
        "{most} ({at_most}).",
        "mean nRBP(p=0.95), bounded minus unbounded, smallest difference",
        Family.least,
        shown_in=TABLE,
    ),
}


@decides("T46")
def bounding_raises_most_means(evidence: Evidence) -> Verdict:
    """Decide by whether more than half of the 48 cells score above the unbounded loss."""
    every = cells(evidence)
    family = Family.of(contrasts(evidence, every))
    without = [cell for cell in every if cell.loss != "nRBP"]
    share, without_nrbp = shares_above_zero(pairs(evidence, every), every, without)
    return Verdict(
        share.verdict,
        f"The mean rises in {share}; it rises significantly in {len(family.higher)} and falls significantly in "
        f"{len(family.lower)}; without nRBP it rises in {without_nrbp}, for which the verdict would be "
        f"{without_nrbp.verdict}.",
        "share of cells whose mean rises",
        *share.measured,
        n=share.n,
        shown_in=TABLE,
    )
