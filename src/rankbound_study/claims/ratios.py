"""Claims about the effect of a growing ratio of negatives to relevant items on MovieLens."""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy import stats

from rankbound.compare import Pair, PairedScores
from rankbound.compare.draws import draws
from rankbound.compare.effects import LEVEL
from rankbound.compare.estimates import Estimate
from rankbound.compare.randomisation import holm
from rankbound.compare.scores import Floats
from rankbound_study.claims.cells import (
    MOVIELENS,
    Cell,
    Column,
    Contrast,
    columns,
    control_scores,
    estimate,
    judge,
    pair,
    scores,
)
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.resampled import RESAMPLES
from rankbound_study.claims.rules import Family
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.claims.words import numbered
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import BOUNDED, LOSSES, UNBOUNDED

_LEAST_FOR_PAGE = 3
"""Fewest columns that scipy's test accepts; for two, Page's test is the sign test."""


@decides("T24")
def scores_fall_with_the_ratio(evidence: Evidence) -> Verdict:
    """Decide by Page's trend test over the ratios, for every loss and bounding."""
    ratios = several_ratios(evidence)
    rows = {
        (loss, bounding): _by_ratio([scores(evidence, judge(loss), loss, column) for column in ratios], bounding)
        for loss in LOSSES
        for bounding in (UNBOUNDED, *BOUNDED)
    }
    falls, rises = (
        dict(zip(rows, holm([_trend(sign * row) for row in rows.values()]), strict=True)) for sign in (-1, 1)
    )
    falling = [key for key in rows if falls[key] <= LEVEL]
    rising = [key for key in rows if rises[key] <= LEVEL]
    changes = [float((row[:, -1] - row[:, 0]).mean()) for row in rows.values()]
    return Verdict(
        REFUTED if rising else CONFIRMED if len(falling) == len(rows) else INCONCLUSIVE,
        f"{numbered(len(falling), len(rows))} losses and boundings score significantly lower as the ratio grows, by "
        f"{min(-one for one in changes):.3f} to {max(-one for one in changes):.3f} from ratio {ratios[0].nsr} to "
        f"{ratios[-1].nsr}{_fall_of_random_orders(evidence, ratios)}.",
        statistic="change of the mean score from the lowest to the highest ratio, mean over rows",
        value=float(np.mean(changes)),
        p_value=max(falls.values()),
        n=len(rows),
        shown_in=("table_5_1",),
    )


@decides("T39")
def benefit_of_distribution_bounding_shrinks(evidence: Evidence) -> Verdict:
    """Decide by whether the slope of its difference on the ratio is below zero for AP and nRBP."""
    ratios = several_ratios(evidence)
    pairs = {
        loss: [pair(evidence, Cell(loss, "distribution", column, judge(loss))) for column in ratios] for loss in LOSSES
    }
    slopes = {loss: slope_over_ratios(differences, ratios) for loss, differences in pairs.items()}
    family = Family.of({loss: slopes[loss] for loss in ("AP", "nRBP")})
    _, steepest = family.extremes
    low, high = slopes[steepest].interval
    texts = []
    for loss in LOSSES:
        means = [one.differences.mean() for one in pairs[loss]]
        interval = slopes[loss].interval
        texts.append(
            f"{loss}: {', '.join(signed(float(one)) for one in means)}, slope {signed(slopes[loss].mean)} "
            f"({signed(interval[0])} to {signed(interval[1])})"
        )
    return Verdict(
        family.all_lower(),
        f"Differences from the unbounded loss at ratios {', '.join(str(column.nsr) for column in ratios)} and their "
        f"slope with its 95 % interval: {'; '.join(texts)}; the benefit shrinks where the slope is below zero.",
        statistic="slope of the mean difference on the ratio, largest of AP and nRBP",
        value=slopes[steepest].mean,
        low=low,
        high=high,
        p_value=family.worst_p,
        n=slopes[steepest].n,
        shown_in=("table_5_1",),
    )


@decides("T42")
def scatter_grows_with_the_ratio(evidence: Evidence) -> Verdict:
    """Decide by whether the variance over lists of bounded minus unbounded grows with the ratio in every cell."""
    ratios = several_ratios(evidence)
    growth = {
        (loss, bounding): _growth_of_variance(
            on_same_users([pair(evidence, Cell(loss, bounding, column, judge(loss))) for column in ratios]), ratios
        )
        for loss in LOSSES
        for bounding in BOUNDED
    }
    family = Family.of(growth)
    least, most = family.extremes
    control = {loss: _growth_between_seeds(evidence, loss, ratios) for loss in LOSSES}
    texts = ", ".join(f"{np.exp(one):.2f} ({loss})" for loss, one in control.items() if np.isfinite(one))
    low, high = growth[least].interval
    return Verdict(
        REFUTED if family.lower else CONFIRMED if len(family.higher) == len(growth) else INCONCLUSIVE,
        f"{numbered(len(family.higher), len(growth))} variances of the difference grow significantly with the ratio "
        f"and {len(family.lower)} shrink significantly; one step of the ratio multiplies them by "
        f"{np.exp(growth[least].mean):.2f} to "
        f"{np.exp(growth[most].mean):.2f}"
        f"{f', those between two seeds of the unbounded loss by {texts}' if texts else ''}.",
        statistic="slope of the log variance of the difference on the ratio, smallest",
        value=growth[least].mean,
        low=low,
        high=high,
        p_value=family.worst_p,
        n=len(growth),
        shown_in=("figure_5_5", "figure_5_6", "figure_5_7"),
    )


def slope_over_ratios(differences: Sequence[Pair], ratios: Sequence[Column]) -> Contrast:
    """Return the slope of a mean difference on the ratio, over the users with a score at every ratio."""
    weights = _slope_weights(ratios)
    aligned = on_same_users(differences)
    slopes: Floats = np.tensordot(weights, aligned, 1)
    return Contrast(estimate(slopes), float("nan"), len(slopes))


def several_ratios(evidence: Evidence) -> Sequence[Column]:
    """Return the columns of MovieLens; MissingEvidence if there is only one."""
    found = columns(evidence, MOVIELENS)
    if len(found) < 2:
        raise MissingEvidence(f"{found[0]} alone shows no trend over ratios: add others to nsr of interactions")
    return found


def _by_ratio(of_ratios: Sequence[PairedScores], system: str) -> Floats:
    """Return the scores of the users that have one at every ratio, `(n_users, n_ratios)`."""
    if any(system not in one.systems for one in of_ratios):
        raise MissingEvidence(f"no runs with {system} at every ratio")
    units = sorted(set.intersection(*(set(one.units) for one in of_ratios)))
    found = np.stack([_of_units(one.matrix[:, list(one.systems).index(system)], one.units, units) for one in of_ratios])
    known: Floats = found.T[np.isfinite(found).all(0)]
    if len(known) < 2:
        raise MissingEvidence(f"{len(known)} users have a score at every ratio; a test takes two")
    return known


def _trend(rows: Floats) -> float:
    """Return the one-sided p-value of scores that grow from column to column."""
    if rows.shape[1] >= _LEAST_FOR_PAGE:
        return float(stats.page_trend_test(rows, method="asymptotic").pvalue)
    changes = rows[:, -1] - rows[:, 0]
    changes = changes[changes != 0]
    return (
        float(stats.binomtest(int((changes > 0).sum()), len(changes), alternative="greater").pvalue)
        if len(changes)
        else 1.0
    )


def _fall_of_random_orders(evidence: Evidence, ratios: Sequence[Column]) -> str:
    texts = []
    for loss in LOSSES:
        of_ratios = [control_scores(evidence, judge(loss), column) for column in ratios]
        if all("random" in one.systems for one in of_ratios):
            rows = _by_ratio(of_ratios, "random")
            texts.append(f"{float((rows[:, 0] - rows[:, -1]).mean()):.3f} in {judge(loss)}")
    return f"; the lists themselves get harder: random orders fall by {', '.join(texts)}" if texts else ""


def _slope_weights(ratios: Sequence[Column]) -> Floats:
    """Return the weights of the least-squares slope on the ratio."""
    steps = np.array([float(column.nsr or 0) for column in ratios])
    steps -= steps.mean()
    weights: Floats = steps / (steps**2).sum()
    return weights


def on_same_users(differences: Sequence[Pair]) -> Floats:
    """Return differences `(n_ratios, n_users, n_folds, n_seeds)` of the users with lists at every ratio."""
    units = sorted(set.intersection(*(set(one.units) for one in differences)))
    if len(units) < 2:
        raise MissingEvidence(f"{len(units)} users have a score at every ratio; a test takes two")
    if len({one.a.shape[1:] for one in differences}) > 1:
        raise MissingEvidence("folds or seeds differ between ratios")
    return np.stack([_of_units(one.a - one.b, one.units, units) for one in differences])


def _of_units(values: Floats, names: Sequence[str], wanted: Sequence[str]) -> Floats:
    places = {name: place for place, name in enumerate(names)}
    found: Floats = values[[places[name] for name in wanted]]
    return found


def _growth_of_variance(aligned: Floats, ratios: Sequence[Column]) -> Contrast:
    """Return the slope of the log variance over lists on the ratio, with its bootstrap error over users."""
    n_users = aligned.shape[1]
    lists = np.isfinite(aligned).sum((2, 3)).astype(np.float64)
    sums, squares = (np.nan_to_num(aligned**power).sum((2, 3)) for power in (1, 2))
    weights = np.concatenate([np.ones((1, n_users)), draws(np.random.default_rng(0), n_users, RESAMPLES)])
    counts, means, moments = (weights @ one.T for one in (lists, sums, squares))
    variances = moments / counts - (means / counts) ** 2
    if not (variances > 0).all():
        raise MissingEvidence("scores hardly differ between users: there is no variance to compare")
    slopes = np.log(variances) @ _slope_weights(ratios)
    return Contrast(Estimate(float(slopes[0]), float(slopes[1:].std(ddof=1)), math.inf), math.nan, n_users)


def _growth_between_seeds(evidence: Evidence, loss: str, ratios: Sequence[Column]) -> float:
    """Return the same slope for two seeds of the unbounded loss; NaN for one seed."""
    of_ratios = [scores(evidence, judge(loss), loss, column) for column in ratios]
    values = [one.values[list(one.systems).index(UNBOUNDED)] for one in of_ratios]
    units = sorted(set.intersection(*(set(one.units) for one in of_ratios)))
    between = [
        np.stack([one[..., i] - one[..., j] for i, j in combinations(range(one.shape[-1]), 2)], -1)
        for one in values
        if one.shape[-1] > 1
    ]
    if len(between) < len(ratios):
        return math.nan
    aligned = np.stack([_of_units(one, of.units, units) for one, of in zip(between, of_ratios, strict=True)])
    return _growth_of_variance(aligned, ratios).mean
