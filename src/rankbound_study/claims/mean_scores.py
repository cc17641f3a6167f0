"""Claims about mean scores of bounded and unbounded losses (Table 5.1)."""

from scipy import stats

from rankbound.compare.effects import LEVEL
from rankbound.compare.randomisation import holm
from rankbound_study.claims.cells import COLLAPSE, CUT_OFFS, MOVIELENS, MQ2008, Contrast, cells, contrasts, pair
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.resampled import shares_above_zero
from rankbound_study.claims.rules import Family, by_interval, together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict
from rankbound_study.claims.words import no_noise, numbered, span
from rankbound_study.results.number_texts import signed

HALF = 0.5
TABLE = ("table_5_1",)


@decides("T23")
def bounded_losses_do_as_well(evidence: Evidence) -> Verdict:
    """Decide by whether most cells lose no more than the noise margin."""
    found = contrasts(evidence, cells(evidence))
    if missing := no_noise(found.values()):
        return Verdict(INCONCLUSIVE, missing, n=len(found), shown_in=TABLE)
    as_well = [cell for cell, one in found.items() if one.is_no_lower]
    worse = [cell for cell, one in found.items() if one.p_below_margin <= LEVEL]
    interval = stats.binomtest(len(as_well), len(found)).proportion_ci()
    lowest = min(found, key=lambda cell: found[cell].mean)
    return Verdict(
        by_interval(interval.low, interval.high, HALF),
        f"{len(as_well)} of {len(found)} bounded losses are no worse than the unbounded one within the noise margin "
        f"between trainings, and {len(worse)} are worse by more than it; the lowest is {lowest} "
        f"({signed(found[lowest].mean)}).",
        statistic="share of cells that are no lower",
        value=len(as_well) / len(found),
        low=float(interval.low),
        high=float(interval.high),
        n=len(found),
        shown_in=TABLE,
    )


@decides("T26")
def distribution_bounding_hurts_ndcg_on_movielens(evidence: Evidence) -> Verdict:
    """Decide by whether it scores more than 0.01 below the unbounded loss at every ratio, but not on MQ2008."""
    found = contrasts(evidence, cells(evidence, ["nDCG"], ["distribution"]))
    there = [one for cell, one in found.items() if cell.column.dataset == MOVIELENS]
    elsewhere = next(one for cell, one in found.items() if cell.column.dataset == MQ2008)
    verdict = together(_hurts_strongly(there), _does_not_hurt(elsewhere))
    worst = max(there, key=lambda one: one.mean)
    low, high = worst.interval
    differences = "; ".join(f"{cell.column}: {signed(one.mean)}" for cell, one in found.items())
    return Verdict(
        verdict,
        f"Distribution bounding changes mean nDCG by {differences}; the noise margin on MQ2008 is "
        f"{elsewhere.margin:.4f}, and a strong drop is one of more than {COLLAPSE}.",
        statistic="mean nDCG, bounded minus unbounded, least change on MovieLens",
        value=worst.mean,
        low=low,
        high=high,
        n=worst.n,
        shown_in=TABLE,
    )


@decides("T28")
def bounding_brings_ndcg_no_gain(evidence: Evidence) -> Verdict:
    """Decide by whether no bounding scores above the unbounded loss, in nDCG and in nDCG@1 to nDCG@10."""
    found = contrasts(evidence, cells(evidence, ["nDCG"], metrics=("nDCG", *CUT_OFFS)))
    family = Family.of(found)
    _, best = family.extremes
    no_gain = all(one.margin > 0 and one.estimate.p_below(one.margin) <= LEVEL for one in found.values())
    verdict = REFUTED if family.higher else CONFIRMED if no_gain else INCONCLUSIVE
    low, high = found[best].interval
    gains = sorted({str(cell) for cell in family.higher})
    return Verdict(
        verdict,
        f"{numbered(len(family.higher), len(found))} differences are significantly above zero"
        f"{f' ({span(gains)})' if gains else ''} and {len(family.lower)} below; the largest gain is "
        f"{signed(found[best].mean)} in {best.metric} ({best}).",
        statistic="mean, bounded minus unbounded, largest gain",
        value=found[best].mean,
        low=low,
        high=high,
        p_value=family.p_values[best],
        n=len(found),
        shown_in=(*TABLE, "figure_5_1"),
    )


@decides("T45")
def bounding_raises_nrbp(evidence: Evidence) -> Verdict:
    """Decide by whether every bounding of nRBP scores above the unbounded loss, on all data."""
    family = Family.of(contrasts(evidence, cells(evidence, ["nRBP"])))
    least, most = family.extremes
    low, high = family.contrasts[least].interval
    against = [str(cell) for cell in (*family.lower, *family.alike)]
    return Verdict(
        family.all_higher(),
        f"The mean rises in {numbered(sum(mean > 0 for mean in family.means), len(family.means))} cells, significantly "
        f"in {len(family.higher)}, falls significantly in {len(family.lower)} and is alike within the noise "
        f"margin in {len(family.alike)}{f' ({span(against)})' if against else ''}; differences lie between "
        f"{signed(family.contrasts[least].mean)} ({least}) and {signed(family.contrasts[most].mean)} ({most}).",
        statistic="mean nRBP(p=0.95), bounded minus unbounded, smallest difference",
        value=family.contrasts[least].mean,
        low=low,
        high=high,
        p_value=family.worst_p,
        n=len(family.means),
        shown_in=TABLE,
    )


@decides("T46")
def bounding_raises_most_means(evidence: Evidence) -> Verdict:
    """Decide by whether more than half of the 48 cells score above the unbounded loss."""
    every = cells(evidence)
    pairs = {cell: pair(evidence, cell) for cell in every}
    family = Family.of(contrasts(evidence, every))
    everywhere, without_nrbp = shares_above_zero(pairs, every, [cell for cell in every if cell.loss != "nRBP"])
    return Verdict(
        by_interval(everywhere.low, everywhere.high, HALF),
        f"The mean rises in {everywhere}; it rises significantly in {len(family.higher)} and falls significantly in "
        f"{len(family.lower)}; without nRBP it rises in {without_nrbp}, for which the verdict would be "
        f"{by_interval(without_nrbp.low, without_nrbp.high, HALF)}.",
        statistic="share of cells whose mean rises",
        value=everywhere.value,
        low=everywhere.low,
        high=everywhere.high,
        n=everywhere.n,
        shown_in=TABLE,
    )


def _hurts_strongly(there: list[Contrast]) -> str:
    below = holm([one.estimate.p_below(-COLLAPSE) for one in there])
    above = holm([one.estimate.p_above(-COLLAPSE) for one in there])
    if min(above) <= LEVEL:
        return REFUTED
    return CONFIRMED if max(below) <= LEVEL else INCONCLUSIVE


def _does_not_hurt(elsewhere: Contrast) -> str:
    if elsewhere.is_no_lower:
        return CONFIRMED
    return REFUTED if elsewhere.margin > 0 and elsewhere.p_below_margin <= LEVEL else INCONCLUSIVE
