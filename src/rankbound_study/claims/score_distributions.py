"""Claims about the distribution of scores over lists (Figures 5.2 to 5.4), and about its low end.

A list belongs to a topic in one fold and is ranked under one seed. Topics are the sampled units: each has a share of
low (or high) scores among its lists, and the topics' shares are compared.
"""

from collections.abc import Sequence

import numpy as np

from rankbound.compare import Pair
from rankbound.compare.effects import LEVEL
from rankbound.compare.randomisation import holm
from rankbound.compare.scores import any_over, mean_of_known
from rankbound_study.claims.cells import (
    MOVIELENS,
    Column,
    Contrast,
    cells,
    changed,
    columns,
    contrast,
    judge,
    pair,
    scores,
)
from rankbound_study.claims.distances import distance, distance_between_seeds, permuted_p_value
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.ratios import several_ratios, slope_over_ratios
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import Family, together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.claims.words import numbered
from rankbound_study.vocabulary import BOUNDED, LOSSES, UNBOUNDED

ENDS = (0.05, 0.95)
TENTHS = (0.1, 0.9)
LOW = (0.1, 0.25)
LOWEST_TENTH = 0.1


@decides("T35")
def expectation_max_of_ndcg_spreads_the_scores(evidence: Evidence) -> Verdict:
    """Decide by whether more lists are at or beyond both 5 % ends of the unbounded scores, in every column."""
    found = {
        (cell.column, end): contrast(_share(pair(evidence, cell), end))
        for cell in cells(evidence, ["nDCG"], ["expectation-max"])
        for end in ENDS
    }
    family = Family.of(found)
    least, _ = family.extremes
    low, high = found[least].interval
    texts = "; ".join(
        f"{column}: {_points(found[column, ENDS[0]])} lowest and {_points(found[column, ENDS[1]])} highest"
        for column in dict.fromkeys(column for column, _ in found)
    )
    return Verdict(
        family.all_higher(),
        "Changes in the shares of lists at or beyond the 5 and 95 % quantiles of the unbounded scores, in percentage "
        f"points: {texts}; {len(family.higher)} of {len(found)} grow significantly, {len(family.lower)} shrink and "
        f"{len(family.alike)} are alike within the noise margin.",
        statistic="share of lists at an end, bounded minus unbounded, smallest",
        value=found[least].mean,
        low=low,
        high=high,
        p_value=family.worst_p,
        n=len(found),
        shown_in=("figure_5_2",),
    )


@decides("T36")
def distribution_bounding_of_ap_lifts_low_scores(evidence: Evidence) -> Verdict:
    """Decide by whether the lowest tenth shrinks at every ratio, less so at higher ones, and the highest does not."""
    ratios = several_ratios(evidence)
    pairs = {cell.column: pair(evidence, cell) for cell in cells(evidence, ["AP"], ["distribution"], ratios)}
    at_low, at_top = ({column: _share(one, end) for column, one in pairs.items()} for end in TENTHS)
    fewer = Family.of({column: contrast(one) for column, one in at_low.items()})
    top = [contrast(one) for one in at_top.values()]
    slope = slope_over_ratios([at_low[column] for column in ratios], ratios)
    fades = INCONCLUSIVE if slope.estimate.p_value() > LEVEL else CONFIRMED if slope.mean > 0 else REFUTED
    low, high = slope.interval
    return Verdict(
        together(fewer.all_lower(), _no_fewer(top), fades),
        f"At ratios {', '.join(str(column.nsr) for column in ratios)} the share of lists in the lowest tenth of the "
        f"unbounded scores changes by {', '.join(map(_points, fewer.contrasts.values()))} percentage points "
        f"(significantly down in {len(fewer.lower)}), that in the highest tenth by {', '.join(map(_points, top))}; per "
        f"step of the ratio the former changes by {_points(slope)} ({100 * low:+.2f} to {100 * high:+.2f}).",
        statistic="change per step of the ratio in the share of lists in the lowest tenth",
        value=slope.mean,
        low=low,
        high=high,
        p_value=slope.estimate.p_value(),
        n=slope.n,
        shown_in=("figure_5_3",),
    )


@decides("T37")
def other_boundings_of_ap_leave_the_distribution(evidence: Evidence) -> Verdict:
    """Decide by whether no distance between the distributions exceeds that between two seeds of the unbounded loss.

    A distance that exceeds it and is significant over topics refutes the claim.
    """
    every = [cell for cell in cells(evidence, ["AP"]) if cell.bounding != "distribution"]
    pairs = {cell: pair(evidence, cell) for cell in every}
    distances = {cell: distance(one) for cell, one in pairs.items()}
    p_values = dict(zip(every, holm([permuted_p_value(pairs[cell]) for cell in every]), strict=True))
    between_seeds = {column: _between_seeds(evidence, "AP", column) for column in columns(evidence)}
    apart = [cell for cell in every if p_values[cell] <= LEVEL]
    beyond = [cell for cell in every if not distances[cell] <= between_seeds[cell.column]]
    changed_ones = [cell for cell in apart if cell in beyond]
    largest = max(every, key=lambda cell: distances[cell])
    known = [one for one in between_seeds.values() if np.isfinite(one)]
    of_seeds = f"{min(known):.3f} to {max(known):.3f}" if known else "unknown with one seed"
    return Verdict(
        REFUTED if changed_ones and known else INCONCLUSIVE if beyond else CONFIRMED,
        f"The largest distance between the distributions of bounded and unbounded scores is {distances[largest]:.3f} "
        f"({largest}); {numbered(len(apart), len(every))} distances are significant and {len(beyond)} larger than the "
        f"largest one between two seeds of the unbounded loss ({of_seeds}), {len(changed_ones)} are both.",
        statistic="largest distance between two distributions of scores",
        value=distances[largest],
        p_value=min(p_values.values()),
        n=len(every),
        shown_in=("figure_5_3",),
    )


@decides("T38")
def bounded_nrbp_has_fewer_low_scores(evidence: Evidence) -> Verdict:
    """Decide by whether fewer lists are in the lowest tenth and quarter, under every bounding at every ratio."""
    found = {
        (cell, end): contrast(_share(pair(evidence, cell), end))
        for cell in cells(evidence, ["nRBP"], BOUNDED, columns(evidence, MOVIELENS))
        for end in LOW
    }
    family = Family.of(found)
    least, most = family.extremes
    low, high = found[most].interval
    return Verdict(
        family.all_lower(),
        "The share of lists below the lowest tenth and quarter of the unbounded scores shrinks significantly in "
        f"{numbered(len(family.lower), len(found))} cases and grows in {len(family.higher)}; {len(family.alike)} are "
        f"alike within the noise margin; changes lie between {_points(found[least])} and {_points(found[most])} "
        f"percentage points ({most[0]}, {most[1]:.0%}).",
        statistic="share of low-scoring lists, bounded minus unbounded, largest",
        value=found[most].mean,
        low=low,
        high=high,
        p_value=family.worst_p,
        n=len(found),
        shown_in=("figure_5_4",),
    )


@decides("T41")
def bounding_may_lift_the_lowest_lists(evidence: Evidence) -> Verdict:
    """Decide by whether boundings at the lowest ratio raise the lists with the lowest tenth of average scores."""
    lowest = columns(evidence, MOVIELENS)[0]
    found = {cell: contrast(_lowest_lists(pair(evidence, cell))) for cell in cells(evidence, LOSSES, BOUNDED, [lowest])}
    family = Family.of(found)
    _, most = family.extremes
    low, high = found[most].interval
    none_above = len(family.lower) + len(family.alike) == len(found)
    return Verdict(
        CONFIRMED if len(family.higher) > len(family.lower) else REFUTED if none_above else INCONCLUSIVE,
        f"In the tenth of the lists at ratio {lowest.nsr} with the lowest average of both scores, the mean rises "
        f"significantly under {numbered(len(family.higher), len(found))} losses and boundings and falls under "
        f"{len(family.lower)}; the largest change is {found[most].mean:+.4f} ({most.loss} with {most.bounding}).",
        statistic="mean difference in the lowest tenth, largest",
        value=found[most].mean,
        low=low,
        high=high,
        p_value=family.p_values[most],
        n=found[most].n,
        shown_in=("figure_5_5", "figure_5_6", "figure_5_7"),
    )


def _share(of: Pair, end: float) -> Pair:
    """Score lists 1 at or beyond this quantile of the unbounded scores, below a low one or above a high one, else 0."""
    point = float(np.nanquantile(of.b, end))
    if end < 0.5:
        return changed(of, lambda values: (values <= point).astype(np.float64))
    return changed(of, lambda values: (values >= point).astype(np.float64))


def _lowest_lists(of: Pair) -> Pair:
    """Keep the lists in the lowest tenth by the average over both losses and all seeds, and their topics."""
    average = (mean_of_known(of.a) + mean_of_known(of.b)) / 2
    chosen = average <= np.nanquantile(average, LOWEST_TENTH)
    kept = any_over(chosen, 1)
    if kept.sum() < 2:
        raise MissingEvidence(f"the lowest tenth of the lists has {int(kept.sum())} topics; a test takes two")
    a, b = (np.where(chosen[:, :, None], values, np.nan)[kept] for values in (of.a, of.b))
    return Pair(a, b, [name for name, one in zip(of.units, kept, strict=True) if one], of.gaps)


def _no_fewer(top: Sequence[Contrast]) -> str:
    if any(one.margin > 0 and one.p_below_margin <= LEVEL / len(top) for one in top):
        return REFUTED
    return CONFIRMED if all(one.is_no_lower for one in top) else INCONCLUSIVE


def _between_seeds(evidence: Evidence, loss: str, column: Column) -> float:
    found = scores(evidence, judge(loss), loss, column)
    return distance_between_seeds(found.values[list(found.systems).index(UNBOUNDED)])


def _points(one: Contrast) -> str:
    return f"{100 * one.mean:+.2f}"
