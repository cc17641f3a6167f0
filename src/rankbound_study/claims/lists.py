"""Claims over single lists: correlations, distributions of scores (Figures 5.2 to 5.4), the persistence of nRBP.

A list belongs to a topic in one fold and is ranked under one seed. Topics are the sampled units: each has a share of
low (or high) scores among its lists, and the topics' shares are compared.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product

import numpy as np
from scipy import stats

from rankbound.compare import Pair
from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import Floats, any_over, mean_of_known, per_unit
from rankbound.compare.statistics import Estimate
from rankbound_study.claims.cells import (
    MOVIELENS,
    Cell,
    Contrast,
    cells,
    changed,
    columns,
    contrast,
    contrasts,
    distinct,
    enough,
    judge,
    kept_units,
    pair,
    pairs,
    scores,
    values,
)
from rankbound_study.claims.data_sets import several_ratios, slope_over_ratios
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import Differences, decides
from rankbound_study.claims.rules import HALF, NEGLIGIBLE, Family, Key, adjusted, among, by_p, collapsed, together
from rankbound_study.claims.statistics import (
    PEARSON,
    SPEARMAN,
    Correlation,
    correlation,
    distance,
    permuted_p_value,
    upper_limit,
)
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.specs import signed
from rankbound_study.vocabulary import AFFINE, BOUNDED, BOUNDINGS, LOSSES

STRONG = 0.7
"""Smallest correlation that counts as strong (Schober, Boer and Schwarte 2018)."""

UNRELATED = 0.2
"""Rank correlations below this count as none: they explain less than 4 % of the variance of ranks."""

_SCATTERS = "figure_5_5 figure_5_6 figure_5_7"


@decides("T40")
def lists_score_alike(evidence: Evidence) -> Verdict:
    """Decide by whether Pearson's and Spearman's correlations over lists are strong in every cell without a collapse.

    A collapsed loss ranks differently because its training failed, which is a claim of its own (T26).
    """
    every = pairs(evidence, distinct(cells(evidence)))
    fallen = collapsed({cell: contrast(one) for cell, one in every.items()})
    found = {
        (cell, kind): correlation(one.a, one.b, kind)
        for (cell, one), kind in product(every.items(), (PEARSON, SPEARMAN))
    }
    kept = {key: one for key, one in found.items() if key[0] not in fallen}
    verdict, strong, weak = _all_strong(kept)
    with_all, _, weak_of_all = _all_strong(found)
    least = min(kept or found, key=lambda key: found[key].value)
    seeds = [value for loss in LOSSES for value in _between_seeds(evidence, loss)]
    of_seeds = (
        f"; between two seeds of the unbounded loss, Pearson's is {min(seeds):.2f} to {max(seeds):.2f}" if seeds else ""
    )
    return Verdict(
        verdict,
        f"{len(strong)} of {len(kept)} correlations over lists are significantly above {STRONG} and {len(weak)} below"
        f"{among(sorted({str(cell) for cell, _ in weak}))}; the lowest is {found[least].value:.2f} ({least[1]}'s of "
        f"{least[0]}), without {len(fallen)} distinct cells that collapse, with which {len(weak_of_all)} are below and "
        f"the verdict would be {with_all}{of_seeds}.",
        "correlation over lists, lowest without collapsed cells",
        *found[least].measured,
        n=len(kept),
        shown_in=_SCATTERS,
    )


CellAndKind = tuple[Cell, str]


def _all_strong(
    found: Mapping[CellAndKind, Correlation],
) -> tuple[str, list[CellAndKind], list[CellAndKind]]:
    """Return the verdict that all correlations are strong, and the keys of those significantly above and below."""
    above = adjusted({key: one.p_above(STRONG) for key, one in found.items()})
    below = adjusted({key: one.p_below(STRONG) for key, one in found.items()})
    strong, weak = ([key for key in found if p_values[key] <= LEVEL] for p_values in (above, below))
    return (REFUTED if weak else CONFIRMED if found and len(strong) == len(found) else INCONCLUSIVE), strong, weak


def _between_seeds(evidence: Evidence, loss: str) -> list[float]:
    """Return Pearson's correlation between every two seeds of the unbounded loss, on all data."""
    found = []
    for column in columns(evidence):
        own = values(evidence, judge(loss), loss, column)
        every = combinations(range(own.shape[2]), 2)
        found += [correlation(own[:, :, [i]], own[:, :, [j]]).value for i, j in every]
    return found


@decides("T43")
def change_is_unrelated_to_relevant_items(evidence: Evidence) -> Verdict:
    """Decide by whether all rank correlations of nDCG's and AP's change with P are shown to be within 0.2 of zero.

    Refuted by one that is shown to be beyond. Collapsed losses are left out: what they lose depends on the list.
    """
    found = {cell: _with_relevant(evidence, cell) for cell in cells(evidence, ["nDCG", "AP"])}
    fallen = collapsed(contrasts(evidence, found))
    kept = {cell: one for cell, one in found.items() if cell not in fallen}
    verdict, related, p_value = _all_unrelated(kept)
    with_all, related_of_all, _ = _all_unrelated(found)
    unrelated = sum(_p_unrelated(one) <= LEVEL for one in kept.values())
    widest = max(kept or found, key=lambda cell: abs(found[cell].value))
    names = [f"{cell} {found[cell].value:+.2f}" for cell in sorted(related, key=lambda cell: -abs(found[cell].value))]
    return Verdict(
        verdict,
        f"{unrelated} of {len(kept)} rank correlations of the change with the number of relevant items are shown to be "
        f"weaker than {UNRELATED} and {len(related)} to be stronger{among(names)}; the strongest is "
        f"{found[widest].value:+.2f} ({widest}), without {len(fallen)} cells that collapse, with which "
        f"{len(related_of_all)} are stronger and the verdict would be {with_all}.",
        "rank correlation of the difference with the number of relevant items, strongest without collapsed cells",
        *found[widest].measured,
        p_value,
        len(kept),
        "figure_5_8 figure_5_9",
    )


def _all_unrelated(found: Mapping[Cell, Correlation]) -> tuple[str, list[Cell], float]:
    """Return the verdict that all correlations are weak, the cells of strong ones, and the p-value of the former."""
    beyond = adjusted({cell: 2 * min(one.p_above(UNRELATED), one.p_below(-UNRELATED)) for cell, one in found.items()})
    related = [cell for cell, p_value in beyond.items() if p_value <= LEVEL]
    p_value = max((_p_unrelated(one) for one in found.values()), default=1.0)
    return by_p(p_value, min(beyond.values(), default=1.0)), related, p_value


def _p_unrelated(one: Correlation) -> float:
    """Return the p-value of a correlation within the limit on both sides (two one-sided tests)."""
    return max(one.p_above(-UNRELATED), one.p_below(UNRELATED))


@decides("T44")
def many_relevant_items_gain_more_under_nrbp(evidence: Evidence) -> Verdict:
    """Decide by whether the gain at higher ratios grows with the relevant items and users with fewest do not lose."""
    every = distinct(cells(evidence, ["nRBP"], BOUNDED, several_ratios(evidence)[1:]))
    found = {cell: _with_relevant(evidence, cell) for cell in every}
    fewest = {cell: _of_lowest_third(evidence, cell) for cell in every}
    p_values, related = _tested(found)
    growing, shrinking = (sum(sign * found[cell].value > 0 for cell in related) for sign in (1, -1))
    grows = REFUTED if shrinking else CONFIRMED if growing == len(found) else INCONCLUSIVE
    least = min(every, key=lambda cell: found[cell].value)
    lowest = min(fewest.values(), key=lambda one: one.mean)
    return Verdict(
        together(grows, _none_loses(fewest)),
        f"The gain grows significantly with the number of relevant items under {growing} of {len(found)} boundings and "
        f"ratios and falls under {shrinking} (lowest rank correlation {found[least].value:+.2f}); in the third of "
        f"users with the fewest the mean changes by {lowest} to {signed(max(one.mean for one in fewest.values()))} "
        f"(lowest with its 95 % interval {lowest.range}).",
        "rank correlation of the difference with the number of relevant items, lowest",
        *found[least].measured,
        max(p_values.values()),
        len(found),
        "figure_5_10",
    )


def _with_relevant(evidence: Evidence, cell: Cell) -> Correlation:
    return correlation(pair(evidence, cell).differences, _relevant(evidence, cell), SPEARMAN)


def _relevant(evidence: Evidence, cell: Cell) -> Floats:
    """Return the mean number of relevant items in the lists of every topic that both scores have."""
    means = per_unit(values(evidence, "p", cell.loss, cell.column, cell.bounding))
    by_name = dict(zip(scores(evidence, "p", cell.loss, cell.column).units, means, strict=True))
    return np.array([by_name[name] for name in pair(evidence, cell).units])


def _of_lowest_third(evidence: Evidence, cell: Cell) -> Contrast:
    relevant = _relevant(evidence, cell)
    kept = relevant <= np.quantile(relevant, 1 / 3)
    enough(int(kept.sum()), "in the third with the fewest relevant items")
    return contrast(kept_units(pair(evidence, cell), kept))


def _none_loses(groups: Mapping[Cell, Contrast]) -> str:
    """Return refuted if a group lost more than the noise margin, confirmed if no group can have lost as much."""
    p_values = adjusted(
        {cell: one.estimate.p_below(-one.margin if one.margin > 0 else 0.0) for cell, one in groups.items()}
    )
    if min(p_values.values()) <= LEVEL:
        return REFUTED
    return CONFIRMED if all(one.is_no_lower for one in groups.values()) else INCONCLUSIVE


def _tested(found: Mapping[Key, Correlation]) -> tuple[dict[Key, float], list[Key]]:
    """Return the p-values of no correlation, and the keys of the significant ones."""
    p_values = adjusted({key: one.p_value() for key, one in found.items()})
    return p_values, [key for key, p_value in p_values.items() if p_value <= LEVEL]


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


REPORTED = "nRBP(p=0.95)"
"""The persistence that the thesis reports."""
OTHERS = ("nRBP(p=0.8)", "nRBP(p=0.9)")
PERSISTENCES = (*OTHERS, REPORTED)
AGREES_WITH = ("nDCG", "AP")
AGREEMENT = 0.5
"""Kendall's tau above which two orders count as agreeing: three of four pairs agree."""


@decides("T33")
def results_hold_for_other_persistence(evidence: Evidence) -> Verdict:
    """Decide by whether differences significant at one persistence are so at all, with one sign, and orders agree."""
    every = cells(evidence, ["nRBP"], metrics=PERSISTENCES)
    family = Family.of(contrasts(evidence, every))
    signs: dict[tuple[str, DataSet], list[int]] = {}
    for cell in every:
        sign = (cell in family.higher) - (cell in family.lower)
        signs.setdefault((cell.bounding, cell.column), []).append(sign)
    contrary = sum({-1, 1} <= set(found) for found in signs.values())
    significant = [found for found in signs.values() if any(found)]
    same = sum(len(set(found)) == 1 for found in significant)
    agree = [
        family.contrasts[cell].mean * family.contrasts[cell._replace(metric=REPORTED)].mean > 0
        for cell in every
        if cell.metric != REPORTED
    ]
    taus = [_tau_of_orders(evidence, column, metric) for column, metric in product(columns(evidence), OTHERS)]
    tau = float(np.nanmean(taus)) if np.isfinite(taus).any() else float("nan")
    settled = bool(significant) and same == len(significant) and tau > AGREEMENT
    return Verdict(
        REFUTED if contrary else CONFIRMED if settled else INCONCLUSIVE,
        f"Of {len(signs)} boundings and data sets {len(significant)} differ significantly from the unbounded loss at "
        f"p = 0.8, 0.9 or 0.95: {same} of them at all three with the same sign, {contrary} with opposite signs; signs "
        f"agree with those at 0.95 in {sum(agree)} of {len(agree)}, and the orders of the boundings have a mean tau of "
        f"{tau:.2f}.",
        "Kendall's tau between the orders of the boundings, mean",
        tau,
        n=len(taus),
    )


def _tau_of_orders(evidence: Evidence, column: DataSet, metric: str) -> float:
    """Return the tau between the boundings' orders by mean at two persistences; NaN if all means are equal at one."""
    means = [
        [float(np.nanmean(per_unit(values(evidence, which, "nRBP", column, name)))) for name in BOUNDINGS]
        for which in (REPORTED, metric)
    ]
    if any(np.ptp(one) == 0 for one in means):
        return float("nan")
    return float(stats.kendalltau(*means).statistic)


@decides("T34")
def highest_persistence_agrees_best(evidence: Evidence) -> Verdict:
    """Decide by whether the tau with nDCG and AP, over the topics of all runs, is highest at p = 0.95."""
    taus = {column: _agreements(evidence, column) for column in columns(evidence)}
    leads = {
        (column, metric, other): taus[column][metric, REPORTED].lead(taus[column][metric, other])
        for column, metric, other in product(taus, AGREES_WITH, OTHERS)
    }
    # Without a margin none can be alike, so it takes a significant difference to confirm or to refute.
    family = Family.of({key: Contrast(lead, math.nan, 0) for key, lead in leads.items()})
    least = family.least()
    means = {
        other: float(np.mean([found[metric, other].value for found in taus.values() for metric in AGREES_WITH]))
        for other in PERSISTENCES
    }
    texts = ", ".join(f"{value:.3f} for {metric}" for metric, value in means.items())
    return Verdict(
        family.all_higher(),
        f"The mean tau with nDCG and AP is {texts}; p = 0.95 agrees significantly better than another persistence in "
        f"{len(family.higher)} of {len(leads)} comparisons and worse in {len(family.lower)}; its smallest lead is "
        f"{family.contrasts[least]} ({least[2]}, against {least[1]} on {least[0]}).",
        "Kendall's tau with another metric, p = 0.95 minus another p, smallest",
        *family.contrasts[least].measured,
        family.worst_p(),
        len(leads),
    )


def _agreements(evidence: Evidence, column: DataSet) -> dict[tuple[str, str], "_Tau"]:
    """Return the tau between each other metric and nRBP at each persistence, over pairs of topics of all runs."""
    products: dict[tuple[str, str], Floats | float] = dict.fromkeys(product(AGREES_WITH, PERSISTENCES), 0.0)
    untied: dict[str, Floats | float] = dict.fromkeys((*AGREES_WITH, *PERSISTENCES), 0.0)
    for loss in LOSSES:
        means = {name: per_unit(scores(evidence, name, loss, column).values) for name in untied}
        for run in range(len(means[REPORTED])):
            signs = {name: np.sign(values[run][:, None] - values[run]) for name, values in means.items()}
            signs = {name: np.nan_to_num(found).astype(np.float32) for name, found in signs.items()}
            for name in untied:
                untied[name] += np.einsum("ij,ij->i", signs[name], signs[name]).astype(np.float64)
            for one, other in products:
                products[one, other] += np.einsum("ij,ij->i", signs[one], signs[other]).astype(np.float64)
    for name, found in untied.items():
        if not np.any(found):
            raise MissingEvidence(f"{name} is the same in all topics of {column}")
    return {
        (one, other): _Tau.of(np.asarray(found), np.asarray(untied[one]), np.asarray(untied[other]))
        for (one, other), found in products.items()
    }


@dataclass(frozen=True)
class _Tau:
    """Tau-b, and every topic's influence on it: its derivative by the topic's weight (infinitesimal jackknife)."""

    value: float
    moved_by: Floats

    @classmethod
    def of(cls, agreeing: Floats, untied: Floats, others_untied: Floats) -> "_Tau":
        """Compute it from each topic's agreeing minus disagreeing pairs, and its untied pairs of each metric."""
        value = float(agreeing.sum() / math.sqrt(untied.sum() * others_untied.sum()))
        own = 2 * agreeing / math.sqrt(untied.sum() * others_untied.sum())
        return cls(value, own - value * (untied / untied.sum() + others_untied / others_untied.sum()))

    def lead(self, other: "_Tau") -> Estimate:
        """Estimate by how much this tau exceeds the other."""
        return Estimate(
            self.value - other.value, math.sqrt(float(((self.moved_by - other.moved_by) ** 2).sum())), math.inf
        )
