"""Claims over single lists: correlations, distributions of scores (Figures 5.2 to 5.4), the persistence of nRBP.

A list belongs to a topic in one fold and is ranked under one seed. Topics are the sampled units: each has a share of
low (or high) scores among its lists, and the topics' shares are compared.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from rankbound_study.claims.verdict import MissingEvidence, Ruling, each_way
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.specs import signed
from rankbound_study.vocabulary import AFFINE, BOUNDED, BOUNDINGS, LOSSES

STRONG = 0.7
"""Smallest correlation that counts as strong (Schober, Boer and Schwarte 2018)."""

UNRELATED = 0.2
"""Rank correlations below this count as none: they explain less than 4 % of the variance of ranks."""


@decides("T40")
def lists_score_alike(evidence: Evidence) -> Ruling:
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
    # Between every two seeds of the unbounded losses, on all data.
    own = [values(evidence, judge(loss), loss, column) for loss, column in product(LOSSES, columns(evidence))]
    seeds = [
        correlation(one[:, :, [i]], one[:, :, [j]]).value
        for one in own
        for i, j in combinations(range(one.shape[2]), 2)
    ]
    facts = {
        "strong": len(strong),
        "count": len(kept),
        "limit": STRONG,
        "weak": len(weak),
        "at_weak": among(sorted({str(cell) for cell, _ in weak})),
        "least": found[least].value,
        "at_least": f"{least[1]}'s of {least[0]}",
        "fallen": len(fallen),
        "weak_of_all": len(weak_of_all),
        "with_all": with_all,
        "of_seeds": f"; between two seeds of the unbounded loss, Pearson's is {min(seeds):.2f} to {max(seeds):.2f}"
        if seeds
        else "",
    }
    return Ruling(verdict, facts, *found[least].measured, n=len(kept))


def _all_strong(found: Mapping[Key, Correlation]) -> tuple[str, list[Key], list[Key]]:
    """Return the verdict that all correlations are strong, and the keys of those significantly above and below."""
    above = adjusted({key: one.p_above(STRONG) for key, one in found.items()})
    below = adjusted({key: one.p_below(STRONG) for key, one in found.items()})
    strong, weak = ([key for key in found if p_values[key] <= LEVEL] for p_values in (above, below))
    return each_way(bool(found) and len(strong) == len(found), bool(weak)), strong, weak


@decides("T43")
def change_is_unrelated_to_relevant_items(evidence: Evidence) -> Ruling:
    """Decide by whether all rank correlations of nDCG's and AP's change with P are shown to be within 0.2 of zero.

    Refuted by one that is shown to be beyond. Collapsed losses are left out: what they lose depends on the list.
    """
    found = {cell: _with_relevant(evidence, cell) for cell in cells(evidence, ["nDCG", "AP"])}
    fallen = collapsed(contrasts(evidence, found))
    kept = {cell: one for cell, one in found.items() if cell not in fallen}
    verdict, related, p_value = _all_unrelated(kept)
    with_all, related_of_all, _ = _all_unrelated(found)
    widest = max(kept or found, key=lambda cell: abs(found[cell].value))
    names = [f"{cell} {found[cell].value:+.2f}" for cell in sorted(related, key=lambda cell: -abs(found[cell].value))]
    facts: dict[str, object] = {"unrelated": sum(_p_unrelated(one) <= LEVEL for one in kept.values())}
    facts |= {"count": len(kept), "limit": UNRELATED, "related": len(related), "at_related": among(names)}
    facts |= {"widest": found[widest].value, "at_widest": widest, "fallen": len(fallen)}
    facts |= {"related_of_all": len(related_of_all), "with_all": with_all}
    return Ruling(verdict, facts, *found[widest].measured, p_value, len(kept))


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
def many_relevant_items_gain_more_under_nrbp(evidence: Evidence) -> Ruling:
    """Decide by whether the gain at higher ratios grows with the relevant items and users with fewest do not lose."""
    every = distinct(cells(evidence, ["nRBP"], BOUNDED, several_ratios(evidence)[1:]))
    found = {cell: _with_relevant(evidence, cell) for cell in every}
    fewest = {cell: _of_lowest_third(evidence, cell) for cell in every}
    p_values = adjusted({cell: one.p_value() for cell, one in found.items()})
    related = [cell for cell, p_value in p_values.items() if p_value <= LEVEL]
    growing, shrinking = (sum(sign * found[cell].value > 0 for cell in related) for sign in (1, -1))
    least = min(every, key=lambda cell: found[cell].value)
    lowest = min(fewest.values(), key=lambda one: one.mean)
    facts: dict[str, object] = {"growing": growing, "count": len(found), "shrinking": shrinking}
    facts |= {"least": found[least].value, "lowest": lowest}
    facts |= {"highest": signed(max(one.mean for one in fewest.values()))}
    return Ruling(
        together(each_way(growing == len(found), bool(shrinking)), _none_loses(fewest)),
        facts,
        *found[least].measured,
        max(p_values.values()),
        len(found),
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
    return each_way(all(one.is_no_lower for one in groups.values()), min(p_values.values()) <= LEVEL)


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


DECLARED = {
    "T35": Differences(
        lambda evidence: _shares(evidence, cells(evidence, ["nDCG"], ["expectation-max"]), ENDS),
        Family.all_rise,
        Family.least,
        facts=_by_column,
        matters=NEGLIGIBLE,
    ),
    "T38": Differences(
        lambda evidence: _shares(
            evidence, distinct(cells(evidence, ["nRBP"], BOUNDED, columns(evidence, MOVIELENS))), LOW
        ),
        Family.all_fall,
        Family.most,
        matters=NEGLIGIBLE,
    ),
    "T41": Differences(
        _of_lowest_lists,
        Family.some_higher,
        Family.most,
        Family.own_p,
        of_topics=True,
        facts=lambda evidence, family: {"ratio": _lowest_ratio(evidence).nsr},
    ),
}


@decides("T36")
def distribution_bounding_of_ap_lifts_low_scores(evidence: Evidence) -> Ruling:
    """Decide by whether the lowest tenth shrinks at every ratio, less so at higher ones, and the highest does not."""
    ratios = several_ratios(evidence)
    found = pairs(evidence, cells(evidence, ["AP"], ["distribution"], ratios)).values()
    at_low, at_top = ([_share(one, end) for one in found] for end in TENTHS)
    fewer = Family(dict(enumerate(map(contrast, at_low))))
    top = list(map(contrast, at_top))
    slope = slope_over_ratios(at_low, ratios)
    p_value = slope.estimate.p_value()
    fewer_on_top = any(one.margin > 0 and one.p_below_margin <= LEVEL / len(top) for one in top)
    no_fewer = each_way(all(one.is_no_lower for one in top), fewer_on_top)
    fades = p_value <= LEVEL and slope.mean > 0, p_value <= LEVEL and slope.mean <= 0
    low, high = slope.interval
    facts: dict[str, object] = {"ratios": ", ".join(str(column.nsr) for column in ratios)}
    facts |= {"lowest": ", ".join(one.points for one in fewer.contrasts.values())}
    facts |= {"highest": ", ".join(one.points for one in top), "down": len(fewer.lower), "slope": slope}
    facts |= {"low": 100 * low, "high": 100 * high}
    return Ruling(together(fewer.all_fall(), no_fewer, each_way(*fades)), facts, *slope.measured, p_value, slope.n)


@decides("T37")
def other_boundings_of_ap_leave_the_distribution(evidence: Evidence) -> Ruling:
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
    facts: dict[str, object] = {"largest": distances[largest], "at_largest": largest, "upper": limits[largest]}
    facts |= {"count": len(found), "apart": len(apart), "beyond": len(beyond), "as_it_is": AS_IT_IS}
    facts |= {"within": len(within)}
    return Ruling(
        each_way(len(within) == len(found), bool(beyond)),
        facts,
        distances[largest],
        high=limits[largest],
        p_value=min(p_values.values()),
        n=len(found),
    )


REPORTED = "nRBP(p=0.95)"
"""The persistence that the thesis reports."""
OTHERS = ("nRBP(p=0.8)", "nRBP(p=0.9)")
PERSISTENCES = (*OTHERS, REPORTED)
AGREES_WITH = ("nDCG", "AP")
AGREEMENT = 0.5
"""Kendall's tau above which two orders count as agreeing: three of four pairs agree."""


@decides("T33")
def results_hold_for_other_persistence(evidence: Evidence) -> Ruling:
    """Decide by whether differences significant at one persistence are so at all, with one sign, and orders agree."""
    every = cells(evidence, ["nRBP"], metrics=PERSISTENCES)
    family = Family(contrasts(evidence, every))
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
    facts: dict[str, object] = {"count": len(signs), "significant": len(significant), "same": same}
    facts |= {"contrary": contrary, "agreeing": sum(agree), "compared": len(agree), "tau": tau}
    return Ruling(each_way(settled, bool(contrary)), facts, tau, n=len(taus))


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
def highest_persistence_agrees_best(evidence: Evidence) -> Ruling:
    """Decide by whether the tau with nDCG and AP, over the topics of all runs, is highest at p = 0.95."""
    taus = {column: _agreements(evidence, column) for column in columns(evidence)}
    leads = {
        (column, metric, other): taus[column][metric, REPORTED].lead(taus[column][metric, other])
        for column, metric, other in product(taus, AGREES_WITH, OTHERS)
    }
    # Without a margin none can be alike, so it takes a significant difference to confirm or to refute.
    family = Family({key: Contrast(lead, math.nan, 0) for key, lead in leads.items()})
    least = family.least()
    means = {
        other: float(np.mean([found[metric, other].value for found in taus.values() for metric in AGREES_WITH]))
        for other in PERSISTENCES
    }
    facts = family.facts({"taus": ", ".join(f"{value:.3f} for {metric}" for metric, value in means.items())})
    return Ruling(family.all_higher(), facts, *family.contrasts[least].measured, family.worst_p(), len(leads))


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
