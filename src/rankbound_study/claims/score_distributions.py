"""Claims about the distribution of scores over lists (Figures 5.2 to 5.4), and about its low end.

A list belongs to a topic in one fold and is ranked under one seed. Topics are the sampled units: each has a share of
low (or high) scores among its lists, and the topics' shares are compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from rankbound.compare import Pair
from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import any_over, mean_of_known
from rankbound_study.claims.cells import (
    MOVIELENS,
    Cell,
    Contrast,
    cells,
    changed,
    columns,
    contrast,
    distinct,
    enough,
    kept_units,
    pair,
    pairs,
)
from rankbound_study.claims.declared import Differences
from rankbound_study.claims.distances import distance, permuted_p_value, upper_limit
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.ratios import several_ratios, slope_over_ratios
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import HALF, NEGLIGIBLE, Family, adjusted, together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.vocabulary import AFFINE, BOUNDED, LOSSES

ENDS = (0.05, 0.95)
TENTHS = (0.1, 0.9)
LOW = (0.1, 0.25)
LOWEST_TENTH = 0.1

AS_IT_IS = 0.05
"""Largest distance between two distributions that count as the same: a twentieth of the lists on another side of some
score."""


def _shares(evidence: Evidence, every: Sequence[Cell], ends: Sequence[float]) -> dict[tuple[Cell, float], Contrast]:
    """Return the change in each cell's share of lists at or beyond each end."""
    return {(cell, end): contrast(_share(pair(evidence, cell), end)) for cell, end in product(every, ends)}


def _share(of: Pair, end: float) -> Pair:
    """Score lists 1 at or beyond this quantile of the unbounded scores, below a low one or above a high one, else 0."""
    point = float(np.nanquantile(of.b, end))
    return changed(of, lambda values: ((values <= point) if end < HALF else (values >= point)).astype(np.float64))


def _by_column(evidence: Evidence, family: Family[tuple[Cell, float]]) -> Mapping[str, object]:
    """Return the changes of the shares at both ends, by column."""
    points = {(cell.column, end): one.points for (cell, end), one in family.contrasts.items()}
    texts = [
        f"{column}: {points[column, ENDS[0]]} lowest and {points[column, ENDS[1]]} highest"
        for column in dict.fromkeys(column for column, _ in points)
    ]
    return {"columns": "; ".join(texts)}


def _lowest_ratio(evidence: Evidence) -> DataSet:
    return columns(evidence, MOVIELENS)[0]


def _of_lowest_lists(evidence: Evidence) -> dict[Cell, Contrast]:
    found = pairs(evidence, distinct(cells(evidence, LOSSES, BOUNDED, [_lowest_ratio(evidence)])))
    return {cell: contrast(_lowest_lists(one)) for cell, one in found.items()}


def _lowest_lists(of: Pair) -> Pair:
    """Keep the lists in the lowest tenth by the average over both losses and all seeds, and their topics."""
    average = (mean_of_known(of.a) + mean_of_known(of.b)) / 2
    chosen = average <= np.nanquantile(average, LOWEST_TENTH)
    kept = any_over(chosen, 1)
    enough(int(kept.sum()), "in the lowest tenth of the lists")
    a, b = (np.where(chosen[:, :, None], values, np.nan) for values in (of.a, of.b))
    return kept_units(replace(of, a=a, b=b), kept)


def _some_higher(family: Family[Cell]) -> str:
    """Return confirmed if one is significantly higher (Holm), refuted if all are lower or alike."""
    none_above = len(family.lower) + len(family.alike) == len(family)
    return CONFIRMED if family.higher else REFUTED if none_above else INCONCLUSIVE


DECLARED = {
    "T35": Differences(
        lambda evidence: _shares(evidence, cells(evidence, ["nDCG"], ["expectation-max"]), ENDS),
        partial(Family.all_higher, at_least=NEGLIGIBLE),
        "Changes in the shares of lists at or beyond the 5 and 95 % quantiles of the unbounded scores, in percentage "
        "points: {columns}; {higher} of {count} grow significantly, {lower} shrink, and {short} "
        "grow by significantly less than 0.1, if at all.",
        "share of lists at an end, bounded minus unbounded, smallest",
        Family.least,
        facts=_by_column,
        shown_in="figure_5_2",
        matters=NEGLIGIBLE,
    ),
    "T38": Differences(
        lambda evidence: _shares(
            evidence, distinct(cells(evidence, ["nRBP"], BOUNDED, columns(evidence, MOVIELENS))), LOW
        ),
        partial(Family.all_lower, at_least=NEGLIGIBLE),
        "The share of lists below the lowest tenth and quarter of the unbounded scores shrinks significantly in "
        "{lower} of {count} distinct cases and grows in {higher}; changes lie between "
        "{least.points} and {most.points} percentage points ({at_most[0]}, {at_most[1]:.0%}).",
        "share of low-scoring lists, bounded minus unbounded, largest",
        Family.most,
        shown_in="figure_5_4",
        matters=NEGLIGIBLE,
    ),
    "T41": Differences(
        _of_lowest_lists,
        _some_higher,
        "In the tenth of the lists at ratio {ratio} with the lowest average of both scores, the mean rises "
        "significantly under {higher} of {count} losses and boundings and falls under {lower}; the largest change is "
        "{most.mean:+.4f} ({at_most.loss} with {at_most.bounding}).",
        "mean difference in the lowest tenth, largest",
        Family.most,
        Family.own_p,
        of_topics=True,
        facts=lambda evidence, family: {"ratio": _lowest_ratio(evidence).nsr},
        shown_in="figure_5_5 figure_5_6 figure_5_7",
    ),
}


@decides("T36")
def distribution_bounding_of_ap_lifts_low_scores(evidence: Evidence) -> Verdict:
    """Decide by whether the lowest tenth shrinks at every ratio, less so at higher ones, and the highest does not."""
    ratios = several_ratios(evidence)
    found = pairs(evidence, cells(evidence, ["AP"], ["distribution"], ratios)).values()
    at_low, at_top = ([_share(one, end) for one in found] for end in TENTHS)
    fewer = Family.of(dict(enumerate(map(contrast, at_low))))
    top = list(map(contrast, at_top))
    slope = slope_over_ratios(at_low, ratios)
    p_value = slope.estimate.p_value()
    fades = INCONCLUSIVE if p_value > LEVEL else CONFIRMED if slope.mean > 0 else REFUTED
    low, high = slope.interval
    lowest, highest = (", ".join(one.points for one in group) for group in (fewer.contrasts.values(), top))
    return Verdict(
        together(fewer.all_lower(NEGLIGIBLE), _no_fewer(top), fades),
        f"At ratios {', '.join(str(column.nsr) for column in ratios)} the share of lists in the lowest tenth of the "
        f"unbounded scores changes by {lowest} percentage points (significantly down in {len(fewer.lower)}), that in "
        f"the highest tenth by {highest}; per step of the ratio the former changes by {slope.points} "
        f"({100 * low:+.2f} to {100 * high:+.2f}).",
        "change per step of the ratio in the share of lists in the lowest tenth",
        *slope.measured,
        p_value,
        slope.n,
        "figure_5_3",
    )


def _no_fewer(top: Sequence[Contrast]) -> str:
    if any(one.margin > 0 and one.p_below_margin <= LEVEL / len(top) for one in top):
        return REFUTED
    return CONFIRMED if all(one.is_no_lower for one in top) else INCONCLUSIVE


@decides("T37")
def other_boundings_of_ap_leave_the_distribution(evidence: Evidence) -> Verdict:
    """Decide by whether all distances between bounded and unbounded distributions are below 0.05.

    Confirmed if the upper 95 % limit of each is, over topics; refuted by a larger one that is significant (Holm).
    """
    found = pairs(evidence, cells(evidence, ["AP"], AFFINE))
    distances = {cell: distance(one) for cell, one in found.items()}
    limits = {cell: upper_limit(one) for cell, one in found.items()}
    p_values = adjusted({cell: permuted_p_value(one) for cell, one in found.items()})
    apart = [cell for cell in found if p_values[cell] <= LEVEL]
    beyond = [cell for cell in apart if distances[cell] > AS_IT_IS]
    within = [cell for cell in found if limits[cell] <= AS_IT_IS]
    largest = max(found, key=lambda cell: distances[cell])
    return Verdict(
        REFUTED if beyond else CONFIRMED if len(within) == len(found) else INCONCLUSIVE,
        f"The largest distance between the distributions of bounded and unbounded scores is {distances[largest]:.3f} "
        f"({largest}), with an upper 95 % limit of {limits[largest]:.3f}; of {len(found)} distances, {len(apart)} are "
        f"significant, {len(beyond)} of them above {AS_IT_IS:g}, and {len(within)} are shown to be below it.",
        "largest distance between two distributions of scores",
        distances[largest],
        high=limits[largest],
        p_value=min(p_values.values()),
        n=len(found),
        shown_in="figure_5_3",
    )
