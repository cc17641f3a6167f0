"""Claims about the persistence p of the metric nRBP(p): its effect on results, and its agreement with other metrics."""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import stats

from rankbound.compare.scores import Floats, per_unit
from rankbound.compare.statistics import Estimate
from rankbound_study.claims.cells import Contrast, cells, columns, contrasts, scores, values
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import Family
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.vocabulary import BOUNDINGS, LOSSES

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
