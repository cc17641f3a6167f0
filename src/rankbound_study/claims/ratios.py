"""Claims about the effect of a growing ratio of negatives to relevant items on MovieLens."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np
from scipy import stats

from rankbound.compare import Pair, PairedScores
from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import Floats
from rankbound.compare.statistics import Estimate, draws
from rankbound_study.claims.cells import (
    MOVIELENS,
    Cell,
    Contrast,
    columns,
    contrast_of,
    control_scores,
    enough,
    judge,
    pair,
    place,
    scores,
    some_trained,
    values,
)
from rankbound_study.claims.declared import Differences
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.resampled import RESAMPLES
from rankbound_study.claims.rules import NEGLIGIBLE, Family, adjusted
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import BOUNDED, BOUNDINGS, LOSSES, UNBOUNDED

_LEAST_FOR_PAGE = 3
"""Fewest columns that scipy's test accepts; for two, Page's test is the sign test."""


def several_ratios(evidence: Evidence) -> Sequence[DataSet]:
    """Return the columns of MovieLens; MissingEvidence if there is only one."""
    found = columns(evidence, MOVIELENS)
    if len(found) < 2:
        raise MissingEvidence(f"{found[0]} alone shows no trend over ratios: add others to nsr of interactions")
    return found


@decides("T24")
def scores_fall_with_the_ratio(evidence: Evidence) -> Verdict:
    """Decide by Page's trend test over the ratios, for every loss and bounding."""
    ratios = several_ratios(evidence)
    rows = {
        (loss, bounding): _by_ratio([scores(evidence, judge(loss), loss, column) for column in ratios], bounding)
        for loss, bounding in product(LOSSES, BOUNDINGS)
        if evidence.trained(loss, bounding, *ratios)
    }
    some_trained(rows, "loss at all ratios")
    falls, rises = (adjusted({key: _trend(sign * row) for key, row in rows.items()}) for sign in (-1, 1))
    falling, rising = (sum(p_value <= LEVEL for p_value in found.values()) for found in (falls, rises))
    changes = [float((row[:, -1] - row[:, 0]).mean()) for row in rows.values()]
    return Verdict(
        REFUTED if rising else CONFIRMED if falling == len(rows) else INCONCLUSIVE,
        f"{falling} of {len(rows)} losses and boundings score significantly lower as the ratio grows, by "
        f"{-max(changes):.3f} to {-min(changes):.3f} from ratio {ratios[0].nsr} to {ratios[-1].nsr}"
        f"{_fall_of_random_orders(evidence, ratios)}.",
        "change of the mean score from the lowest to the highest ratio, mean over rows",
        float(np.mean(changes)),
        p_value=max(falls.values()),
        n=len(rows),
        shown_in="table_5_1",
    )


def _by_ratio(of_ratios: Sequence[PairedScores], system: str) -> Floats:
    """Return the scores of the users that have one at every ratio, `(n_users, n_ratios)`."""
    matrices = [one.matrix[:, place(one, system, f"{system} at every ratio")] for one in of_ratios]
    found = _of_same_units(matrices, [one.units for one in of_ratios])
    known: Floats = found.T[np.isfinite(found).all(0)]
    enough(len(known), "with a score at every ratio")
    return known


def _of_same_units(values: Sequence[Floats], names: Sequence[Sequence[str]]) -> Floats:
    """Stack values by unit, of the units that all have."""
    units = sorted(set.intersection(*map(set, names)))
    places = [{name: place for place, name in enumerate(own)} for own in names]
    return np.stack([one[[at[name] for name in units]] for one, at in zip(values, places, strict=True)])


def _trend(rows: Floats) -> float:
    """Return the one-sided p-value of scores that grow from column to column."""
    if rows.shape[1] >= _LEAST_FOR_PAGE:
        return float(stats.page_trend_test(rows, method="asymptotic").pvalue)
    changes = rows[:, -1] - rows[:, 0]
    changes = changes[changes != 0]
    if not len(changes):
        return 1.0
    return float(stats.binomtest(int((changes > 0).sum()), len(changes), alternative="greater").pvalue)


def _fall_of_random_orders(evidence: Evidence, ratios: Sequence[DataSet]) -> str:
    texts = []
    for loss in LOSSES:
        of_ratios = [control_scores(evidence, judge(loss), column) for column in ratios]
        if all("random" in one.systems for one in of_ratios):
            rows = _by_ratio(of_ratios, "random")
            texts.append(f"{float((rows[:, 0] - rows[:, -1]).mean()):.3f} in {judge(loss)}")
    return f"; the lists themselves get harder: random orders fall by {', '.join(texts)}" if texts else ""


def on_same_users(differences: Sequence[Pair]) -> Floats:
    """Return differences `(n_ratios, n_users, n_folds, n_seeds)` of the users with lists at every ratio."""
    if len({one.a.shape[1:] for one in differences}) > 1:
        raise MissingEvidence("folds or seeds differ between ratios")
    found = _of_same_units([one.a - one.b for one in differences], [one.units for one in differences])
    enough(found.shape[1], "with a score at every ratio")
    return found


def slope_over_ratios(differences: Sequence[Pair], ratios: Sequence[DataSet]) -> Contrast:
    """Return the slope of a mean difference on the ratio, over the users with a score at every ratio."""
    slopes: Floats = np.tensordot(_slope_weights(ratios), on_same_users(differences), 1)
    return contrast_of(slopes)


def _slope_weights(ratios: Sequence[DataSet]) -> Floats:
    """Return the weights of the least-squares slope on the ratio."""
    steps = np.array([float(column.nsr or 0) for column in ratios])
    steps -= steps.mean()
    weights: Floats = steps / (steps**2).sum()
    return weights


def _slopes(evidence: Evidence, losses: Sequence[str]) -> dict[str, Contrast]:
    """Return the slope of distribution bounding minus unbounded on the ratio, by loss."""
    ratios = several_ratios(evidence)
    return {loss: slope_over_ratios(_pairs(evidence, loss, "distribution"), ratios) for loss in losses}


def _pairs(evidence: Evidence, loss: str, bounding: str) -> list[Pair]:
    return [pair(evidence, Cell(loss, bounding, column, judge(loss))) for column in several_ratios(evidence)]


def _by_loss(evidence: Evidence, family: Family[str]) -> Mapping[str, object]:
    texts = []
    for loss, slope in _slopes(evidence, LOSSES).items():
        means = [float(one.differences.mean()) for one in _pairs(evidence, loss, "distribution")]
        texts.append(f"{loss}: {', '.join(map(signed, means))}, slope {slope} ({slope.range})")
    return {"ratios": ", ".join(str(column.nsr) for column in several_ratios(evidence)), "slopes": "; ".join(texts)}


def _growths(evidence: Evidence) -> dict[tuple[str, str], Contrast]:
    ratios = several_ratios(evidence)
    found = {
        (loss, bounding): _growth_of_variance(on_same_users(_pairs(evidence, loss, bounding)), ratios)
        for loss, bounding in product(LOSSES, BOUNDED)
        if evidence.trained(loss, UNBOUNDED, *ratios) and evidence.trained(loss, bounding, *ratios)
    }
    some_trained(found, "bounded loss at all ratios")
    return found


def _growth_of_variance(aligned: Floats, ratios: Sequence[DataSet]) -> Contrast:
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


def _growth_between_seeds(evidence: Evidence, loss: str) -> float:
    """Return the same slope for two seeds of the unbounded loss; NaN for one seed."""
    ratios = several_ratios(evidence)
    of_ratios = [values(evidence, judge(loss), loss, column) for column in ratios]
    if min(one.shape[-1] for one in of_ratios) < 2:
        return math.nan
    between = [
        np.stack([one[..., i] - one[..., j] for i, j in combinations(range(one.shape[-1]), 2)], -1) for one in of_ratios
    ]
    names = [scores(evidence, judge(loss), loss, column).units for column in ratios]
    return _growth_of_variance(_of_same_units(between, names), ratios).mean


def _factors(evidence: Evidence, family: Family[tuple[str, str]]) -> Mapping[str, object]:
    """Return the factors of the variance with one step of the ratio: smallest, largest, and between seeds."""
    control = {loss: _growth_between_seeds(evidence, loss) for loss in LOSSES}
    texts = ", ".join(f"{np.exp(one):.2f} ({loss})" for loss, one in control.items() if np.isfinite(one))
    least, most = (np.exp(family.contrasts[key].mean) for key in (family.least(), family.most()))
    between = f", those between two seeds of the unbounded loss by {texts}" if texts else ""
    return {"factors": f"{least:.2f} to {most:.2f}{between}"}


def _none_lower(family: Family[tuple[str, str]]) -> str:
    """Return the verdict that all are above zero, which alike ones do not refute."""
    return REFUTED if family.lower else CONFIRMED if len(family.higher) == len(family) else INCONCLUSIVE


A_TENTH_MORE = math.log(1.1)
"""Smallest growth of a variance that matters, as a slope of its logarithm."""

DECLARED = {
    "T39": Differences(
        lambda evidence: _slopes(evidence, ("AP", "nRBP")),
        Family.all_lower,
        "Differences from the unbounded loss at ratios {ratios} and their slope with its 95 % interval: {slopes}; the "
        "benefit shrinks where the slope is below zero.",
        "slope of the mean difference on the ratio, largest of AP and nRBP",
        Family.most,
        of_topics=True,
        facts=_by_loss,
        shown_in="table_5_1",
        matters=NEGLIGIBLE,
    ),
    "T42": Differences(
        _growths,
        _none_lower,
        "{higher} of {count} variances of the difference grow significantly with the ratio and {lower} shrink "
        "significantly; one step of the ratio multiplies them by {factors}.",
        "slope of the log variance of the difference on the ratio, smallest",
        Family.least,
        facts=_factors,
        shown_in="figure_5_5 figure_5_6 figure_5_7",
        matters=A_TENTH_MORE,
    ),
}
