"""Claims over single lists: correlations, distributions of scores (Figures 5.2 to 5.4), the persistence of nRBP.

A list belongs to a topic in one fold and is ranked under one seed. Topics are the sampled units: each has a share of
low (or high) scores among its lists, and the topics' shares are compared. Correlations over lists have errors by topic,
as lists of one topic are not independent. The distance of two systems is the largest one between the distributions of
their scores over lists; it has an upper limit and a permutation test.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from rankbound.compare import Pair
from rankbound.compare.comparison import LEVEL
from rankbound.compare.scores import Floats, any_over, mean_of_known, per_unit
from rankbound.compare.statistics import CONFIDENCE, Estimate, draws
from rankbound.texts import quantity
from rankbound_study.claims.effects import RESAMPLES
from rankbound_study.claims.evidence import SHARE, Cell, Contrast, Evidence, judge, kept_units
from rankbound_study.claims.means import ratios_named, slope_over_ratios
from rankbound_study.claims.registry import Facts, decides, shape
from rankbound_study.claims.rules import Family, adjusted
from rankbound_study.claims.verdicts import MissingEvidence, Ruling, each_way, enough
from rankbound_study.config.data_sets import DataSet
from rankbound_study.vocabulary import AFFINE, BOUNDINGS, LOSSES

PEARSON, SPEARMAN = "Pearson", "Spearman"
_LARGEST = 1 - 1e-12


class Correlation(Contrast):
    """A correlation, with the standard error of its Fisher transform, which is near normal."""

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the interval of level `confidence`."""
        low, high = self._transformed(0.0).interval(confidence)
        return math.tanh(low), math.tanh(high)

    def p_above(self, limit: float) -> float:
        """Return the one-sided p-value, small for correlations above the limit."""
        return self._transformed(limit).p_above(0.0)

    def p_below(self, limit: float) -> float:
        """Return the one-sided p-value, small for correlations below the limit."""
        return self._transformed(limit).p_below(0.0)

    def _transformed(self, limit: float) -> Estimate:
        value = math.atanh(max(-_LARGEST, min(_LARGEST, self.mean)))
        return Estimate(value - math.atanh(limit), self.standard_error, math.inf)


def correlation(x: Floats, y: Floats, kind: str = PEARSON) -> Correlation:
    r"""Correlate values `(n_topics, ...)`, where both are defined.

    With $z$ the standardised values (ranks for Spearman's), value $i$ moves $r = \overline{z_x z_y}$ by
    $(z_{xi} z_{yi} - r (z_{xi}^2 + z_{yi}^2) / 2) / n$; the variance is the sum of the squared sums by topic.

    Raises:
        MissingEvidence: there are fewer than three topics, or all values are equal.
    """
    x, y = (values.reshape(len(values), -1) for values in (x, y))
    known = np.isfinite(x) & np.isfinite(y)
    topic = np.nonzero(known)[0]
    values = [x[known], y[known]]
    if len(np.unique(topic)) < 3:
        raise MissingEvidence(f"no correlation over {quantity(len(np.unique(topic)), 'topic')}")
    if any(np.ptp(one) == 0 for one in values):
        raise MissingEvidence("no correlation: one of the two scores is the same in all lists")
    if kind == SPEARMAN:
        values = [stats.rankdata(one) for one in values]
    first, second = ((one - one.mean()) / one.std() for one in values)
    found = float((first * second).mean())
    moved = (first * second - found * (first**2 + second**2) / 2) / len(topic)
    variance = float((np.bincount(topic, weights=moved) ** 2).sum())
    return Correlation(found, math.sqrt(variance) / max(1 - found**2, 1 - _LARGEST), math.inf, math.nan, 0)


class OfKind(NamedTuple):
    """A kind of correlation in a cell."""

    cell: Cell
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}'s of {self.cell}"


@shape
def list_correlations(evidence: Evidence, **axes: Any) -> tuple[Mapping[OfKind, Correlation], Facts]:
    """Return Pearson's and Spearman's correlations between the bounded and the unbounded scores of lists.

    The facts are the range of Pearson's between every two seeds of the unbounded losses, on all data.
    """
    every = evidence.pairs(evidence.cells(**axes))
    found = {
        OfKind(cell, kind): correlation(one.a, one.b, kind)
        for (cell, one), kind in product(every.items(), (PEARSON, SPEARMAN))
    }
    own = [evidence.values(judge(loss), loss, column) for loss, column in product(LOSSES, evidence.columns())]
    both = [(one[:, :, [i]], one[:, :, [j]]) for one in own for i, j in combinations(range(one.shape[2]), 2)]
    # Seeds of other drawings have other lists.
    seeds = [correlation(i, j).mean for i, j in both if (np.isfinite(i) & np.isfinite(j)).any()]
    lowest, highest = min(seeds, default=0.0), max(seeds, default=0.0)
    return found, {"seeds": len(seeds), "lowest_of_seeds": lowest, "highest_of_seeds": highest}


@shape
def correlations_with_relevant_items(evidence: Evidence, **axes: Any) -> Mapping[Cell, Correlation]:
    """Return the rank correlations of the change by bounding with the number of relevant items."""
    every = evidence.pairs(evidence.cells(**axes))
    return {cell: correlation(one.differences, _relevant(evidence, cell), SPEARMAN) for cell, one in every.items()}


def _relevant(evidence: Evidence, cell: Cell) -> Floats:
    """Return the mean number of relevant items in the lists of every topic that both scores have."""
    means = per_unit(evidence.values("p", cell.loss, cell.column, cell.bounding))
    by_name = dict(zip(evidence.scores("p", cell.loss, cell.column).units, means, strict=True))
    return np.array([by_name[name] for name in evidence.pair(cell).units])


@shape
def third_with_fewest_relevant_items(evidence: Evidence, **axes: Any) -> Mapping[Cell, Contrast]:
    """Return each cell's difference in the third of the topics with the fewest relevant items."""
    found = {}
    for cell, one in evidence.pairs(evidence.cells(**axes)).items():
        relevant = _relevant(evidence, cell)
        kept = relevant <= np.quantile(relevant, 1 / 3)
        enough(int(kept.sum()), "in the third with the fewest relevant items")
        found[cell] = Contrast.of(kept_units(one, kept))
    return found


@shape
def shares(evidence: Evidence, at: Sequence[float], **axes: Any) -> tuple[Mapping[tuple[Cell, float], Contrast], Facts]:
    """Return the change in each cell's share of lists at or beyond some quantiles of the unbounded scores.

    The facts are those at both ends, by column.
    """
    every = evidence.pairs(evidence.cells(**axes))
    found = {(cell, end): Contrast.of(_share(one, end)) for (cell, one), end in product(every.items(), at)}
    points: dict[DataSet, list[str]] = {}
    for (cell, _), one in found.items():
        points.setdefault(cell.column, []).append(one.points)
    texts = (f"{column}: {of[0]} lowest and {of[-1]} highest" for column, of in points.items())
    return found, {"columns": "; ".join(texts)}


def _share(of: Pair, end: float) -> Pair:
    """Score lists 1 at or beyond this quantile of the unbounded scores, below a low one or above a high one, else 0."""
    point = float(np.nanquantile(of.b, end))
    reached = ((values <= point) if end < 0.5 else (values >= point) for values in (of.a, of.b))
    a, b = (np.where(np.isfinite(own), at, np.nan) for own, at in zip((of.a, of.b), reached, strict=True))
    return replace(of, metric=SHARE, a=a, b=b)


@shape
def lowest_lists(evidence: Evidence, **axes: Any) -> Mapping[Cell, Contrast]:
    """Return each cell's difference in the tenth of the lists with the lowest average of both losses and all seeds."""
    found = {}
    for cell, one in evidence.pairs(evidence.cells(**axes)).items():
        average = (mean_of_known(one.a) + mean_of_known(one.b)) / 2
        chosen = average <= np.nanquantile(average, 0.1)
        kept = any_over(chosen, 1)
        enough(int(kept.sum()), "in the lowest tenth of the lists")
        a, b = (np.where(chosen[:, :, None], values, np.nan) for values in (one.a, one.b))
        found[cell] = Contrast.of(kept_units(replace(one, a=a, b=b), kept))
    return found


@shape
def slope_of_share(evidence: Evidence, at: float, **axes: Any) -> tuple[Mapping[str, Contrast], Facts]:
    """Return the slope on the ratio of the change in such a share of lists, of the only cell of each ratio."""
    of_ratios = [_share(one, at) for one in evidence.pairs(evidence.cells(**axes)).values()]
    slope = slope_over_ratios(of_ratios, evidence.several_ratios())
    return {"slope": slope}, {"ratios": ratios_named(evidence)}


AS_IT_IS = 0.05
"""Largest distance between two distributions that count as the same: a twentieth of the lists on another side of some
score."""


class Distance(NamedTuple):
    """The largest distance between two cumulative shares of lists, in which topics weigh equally.

    Attributes:
        p_value: the share of random swaps of each topic's two sets of lists that give a distance at least as large.
        upper: the upper 95 % limit, from a bootstrap of topics. A largest distance is larger in samples than in truth,
            so that the limit is too high rather than too low.
    """

    value: float
    p_value: float
    upper: float


def distance(of: Pair) -> Distance:
    """Return the distance of the distributions of two systems' scores, at 400 quantiles of both together."""
    both = np.concatenate([own[np.isfinite(own)] for own in (of.a, of.b)])
    points = np.unique(np.quantile(both, np.linspace(0, 1, 400), method="inverted_cdf"))
    # Of each system, the shares of every topic's lists that score at most each point, `(n_topics, n_points)`.
    shares: list[Floats] = []
    for own in (of.a, of.b):
        flat = own.reshape(len(own), -1)
        known = np.isfinite(flat)
        counts = np.zeros((len(flat), len(points) + 1))
        np.add.at(counts, (np.nonzero(known)[0], np.searchsorted(points, flat[known])), 1.0)
        shares.append(counts[:, :-1].cumsum(1) / known.sum(1, keepdims=True))
    # Every topic's contribution to the difference of the two distributions.
    steps = (shares[0] - shares[1]) / len(of.a)
    observed = np.abs(steps.sum(0)).max()
    signs = np.random.default_rng(0).integers(0, 2, (RESAMPLES, len(steps))) * 2.0 - 1
    reached = np.abs(signs @ steps).max(1) >= observed - 1e-12
    resampled = np.abs(draws(np.random.default_rng(0), len(steps), RESAMPLES) @ steps).max(1)
    p_value = float((1 + reached.sum()) / (1 + RESAMPLES))
    return Distance(float(observed), p_value, float(np.quantile(resampled, 1 - LEVEL)))


@decides("T37")
def other_boundings_of_ap_leave_the_distribution(evidence: Evidence) -> Ruling:
    """Decide by whether all distances between bounded and unbounded distributions are below 0.05.

    Confirmed if the upper 95 % limit of each is, over topics; refuted by a larger one that is significant (Holm).
    """
    found = {cell: distance(one) for cell, one in evidence.pairs(evidence.cells(["AP"], AFFINE)).items()}
    p_values = adjusted({cell: one.p_value for cell, one in found.items()})
    apart = [cell for cell in found if p_values[cell] <= LEVEL]
    beyond = [cell for cell in apart if found[cell].value > AS_IT_IS]
    within = [cell for cell in found if found[cell].upper <= AS_IT_IS]
    at_largest = max(found, key=lambda cell: found[cell].value)
    largest, _, upper = found[at_largest]
    facts: dict[str, object] = {"largest": largest, "at_largest": at_largest, "upper": upper, "as_it_is": AS_IT_IS}
    facts |= {"count": len(found), "apart": len(apart), "beyond": len(beyond), "within": len(within)}
    verdict = each_way(len(within) == len(found), bool(beyond))
    return Ruling(verdict, facts, largest, high=upper, n=len(found))


*OTHERS, REPORTED = PERSISTENCES = ("nRBP(p=0.8)", "nRBP(p=0.9)", "nRBP(p=0.95)")
"""nRBP at each persistence; the thesis reports the last one."""
AGREES_WITH = ("nDCG", "AP")
AGREEMENT = 0.5  # Kendall's tau above which two orders count as agreeing: three of four pairs agree


@decides("T33")
def results_hold_for_other_persistence(evidence: Evidence) -> Ruling:
    """Decide by whether differences significant at one persistence are so at all, with one sign, and orders agree."""
    every = evidence.cells(["nRBP"], metrics=PERSISTENCES)
    family = Family(evidence.contrasts(every))
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
    taus = []
    for column, metric in product(evidence.columns(), OTHERS):
        # Of the boundings' orders by mean at two persistences, unless all means are equal at one.
        own = [[evidence.values(of, "nRBP", column, name) for name in BOUNDINGS] for of in (REPORTED, metric)]
        means = [[float(np.nanmean(per_unit(one))) for one in each] for each in own]
        taus.append(float(stats.kendalltau(*means).statistic) if all(np.ptp(one) for one in means) else math.nan)
    tau = float(np.nanmean(taus)) if np.isfinite(taus).any() else math.nan
    settled = bool(significant) and same == len(significant) and tau > AGREEMENT
    facts: dict[str, object] = {"count": len(signs), "significant": len(significant), "same": same}
    facts |= {"contrary": contrary, "agreeing": sum(agree), "compared": len(agree), "tau": tau}
    return Ruling(each_way(settled, bool(contrary)), facts, tau, n=len(taus))


@shape
def leads_in_agreement(evidence: Evidence) -> tuple[Mapping[tuple[DataSet, str, str], Contrast], Facts]:
    """Return by how much the tau with nDCG and AP, over the topics of all runs, is larger at p = 0.95."""
    taus, leads = {column: _agreements(evidence, column) for column in evidence.columns()}, {}
    for (column, found), metric, other in product(taus.items(), AGREES_WITH, OTHERS):
        (tau, moved), (other_tau, other_moved) = found[metric, REPORTED], found[metric, other]
        error = math.sqrt(float(((moved - other_moved) ** 2).sum()))
        leads[column, metric, other] = Contrast(tau - other_tau, error, math.inf, math.nan, 0)
    means = {
        name: np.mean([found[metric, name][0] for found in taus.values() for metric in AGREES_WITH])
        for name in PERSISTENCES
    }
    return leads, {"taus": ", ".join(f"{value:.3f} for {name}" for name, value in means.items())}


def _agreements(evidence: Evidence, column: DataSet) -> dict[tuple[str, str], tuple[float, Floats]]:
    """Return the tau-b of each other metric and nRBP at each persistence, over pairs of topics of all runs.

    Beside it stands every topic's influence on it: its derivative by the topic's weight (infinitesimal jackknife).
    """
    products: dict[tuple[str, str], Floats | float] = dict.fromkeys(product(AGREES_WITH, PERSISTENCES), 0.0)
    untied: dict[str, Floats | float] = dict.fromkeys((*AGREES_WITH, *PERSISTENCES), 0.0)
    for loss in LOSSES:
        means = {name: per_unit(evidence.scores(name, loss, column).values) for name in untied}
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
    taus = {}
    for (one, other), found in products.items():
        agreeing, own, others = (np.asarray(of) for of in (found, untied[one], untied[other]))
        root = math.sqrt(own.sum() * others.sum())
        value = float(agreeing.sum() / root)
        taus[one, other] = value, 2 * agreeing / root - value * (own / own.sum() + others / others.sum())
    return taus
