"""Claims that compare data sets: how hard their lists are, and which bounding is best on each."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product

import numpy as np
import polars as pl
from scipy import stats

import rankbound as rb
from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import Floats, per_unit
from rankbound.compare.statistics import Estimate
from rankbound_study.claims.cells import (
    MOVIELENS,
    MQ2008,
    Cell,
    Contrast,
    columns,
    contrast,
    control_scores,
    enough,
    estimate,
    judge,
    pair,
    some_trained,
    values,
)
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import listed
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import Family, together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.validation import best_of, validation_scores
from rankbound_study.vocabulary import BOUNDINGS, LOSSES, UNBOUNDED

LEAST_FOR_FRIEDMAN = 3
"""Fewest boundings that Friedman's test compares; of fewer, all count as the best."""


@decides("T25")
def mq2008_is_lower_by_its_share_of_relevant_items(evidence: Evidence) -> Verdict:
    """Decide by whether MQ2008 scores lower than MovieLens, but not on a scale from random order (0) to best (1)."""
    ratios, (queries,) = columns(evidence, MOVIELENS), columns(evidence, MQ2008)
    places = [key for key in product(LOSSES, BOUNDINGS, ratios) if evidence.trained(*key[:2], key[2], queries)]
    some_trained(places, "loss on both")
    raw, above_random = (
        Family.of({key: _gap(evidence, *key, queries, above_random=above) for key in places}) for above in (False, True)
    )
    remains = len(above_random.lower)
    by_share = REFUTED if remains > len(places) / 2 else INCONCLUSIVE if remains else CONFIRMED
    smallest = above_random.contrasts[above_random.most()]
    return Verdict(
        together(raw.all_lower(), by_share),
        f"MQ2008 scores lower for {len(raw.lower)} of {len(places)} losses, boundings and ratios, by "
        f"{-float(np.mean(raw.means)):.3f} on average; on a scale where a random order of the same list counts 0 and "
        "the best one 1, which removes the effect of the share of relevant items, it is still lower for "
        f"{remains}, by {-float(np.mean(above_random.means)):.3f} on average"
        f"{_random_orders(evidence, [*ratios, queries])}.",
        "MQ2008 minus MovieLens with a random order as 0, smallest gap",
        *smallest.measured,
        raw.worst_p(),
        len(places),
        "table_5_1",
    )


def _gap(
    evidence: Evidence, loss: str, bounding: str, column: DataSet, queries: DataSet, *, above_random: bool
) -> Contrast:
    """Return MQ2008 minus MovieLens: two samples, each with its own error and degrees of freedom (Welch)."""
    both = [_mean(evidence, loss, bounding, one, above_random) for one in (queries, column)]
    squares = [one.standard_error**2 for one in both]
    variance = sum(squares)
    terms = [square**2 / one.degrees_of_freedom for square, one in zip(squares, both, strict=True)]
    freedom = variance**2 / sum(terms) if variance else 1.0
    return Contrast(Estimate(both[0].mean - both[1].mean, math.sqrt(variance), freedom), math.nan, 2)


@lru_cache(maxsize=256)
def _mean(evidence: Evidence, loss: str, bounding: str, column: DataSet, above_random: bool) -> Estimate:
    found = values(evidence, judge(loss), loss, column, bounding)
    if above_random:
        expected = _expected(evidence, loss, bounding, column)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.where(expected < 1, (found - expected) / (1 - expected), np.nan)
    found = found[np.isfinite(found).any((1, 2))]
    enough(len(found), f"of {column} with a score")
    return estimate(found)


@lru_cache(maxsize=64)
def _expected(evidence: Evidence, loss: str, bounding: str, column: DataSet) -> Floats:
    """Return the metric's mean over all orders of every list; NaN where a list has no relevant item."""
    n, p = (values(evidence, name, loss, column, bounding) for name in ("n", "p"))
    known = np.isfinite(n) & np.isfinite(p) & (p > 0)
    sizes, place = np.unique(np.stack([n[known], p[known]]).astype(np.int64), axis=1, return_inverse=True)
    expected = np.full(n.shape, np.nan)
    expected[known] = np.asarray(rb.expectation(judge(loss), *sizes))[place.reshape(-1)]
    return expected


def _random_orders(evidence: Evidence, of: Sequence[DataSet]) -> str:
    means = []
    for column in of:
        found = control_scores(evidence, "nDCG", column)
        if "random" not in found.systems:
            return ""
        means.append(f"{float(np.nanmean(found.matrix[:, list(found.systems).index('random')])):.3f} on {column}")
    return f"; random orders have an nDCG of {', '.join(means)}"


@decides("T47")
def best_bounding_depends_on_the_data(evidence: Evidence) -> Verdict:
    """Decide by whether no bounding is among the best in all columns, neither for nDCG nor for AP.

    The best ones are the best by validation, and those that it does not beat significantly.
    """
    best = {loss: {column: _best_of(evidence, loss, column) for column in columns(evidence)} for loss in ("nDCG", "AP")}
    shared = {
        loss: [name for name in BOUNDINGS if all(name in found for found in by_column.values())]
        for loss, by_column in best.items()
    }
    texts = [
        f"For {loss}, the best bounding by validation and those that are not significantly worse are "
        f"{_of_columns(by_column)}; on all data sets these include {_names(shared[loss]) if shared[loss] else 'none'}."
        for loss, by_column in best.items()
    ]
    return Verdict(
        together(*(_depends(list(best[loss].values()), shared[loss]) for loss in best)),
        " ".join(texts),
        "boundings among the best on all data sets, fewest of nDCG and AP",
        min(len(names) for names in shared.values()),
        n=sum(len(by_column) for by_column in best.values()),
        shown_in="table_5_1",
    )


def _best_of(evidence: Evidence, loss: str, column: DataSet) -> list[str]:
    """Return the boundings that the best one by validation does not beat; all if Friedman's test is not significant."""
    boundings = [name for name in BOUNDINGS if evidence.trained(loss, name, column)]
    some_trained(boundings, f"bounding of {loss}")
    if len(boundings) < LEAST_FOR_FRIEDMAN:
        return boundings
    means = [per_unit(values(evidence, judge(loss), loss, column, name)) for name in boundings]
    matrix = np.stack(means, 1)
    matrix = matrix[np.isfinite(matrix).all(1)]
    enough(len(matrix), f"of {column} with a score")
    if not np.ptp(matrix, axis=1).any() or stats.friedmanchisquare(*matrix.T).pvalue > LEVEL:
        return boundings
    of_loss = evidence.epochs_of(column.dataset, column.nsr).filter(pl.col("loss") == loss)
    best = best_of(boundings, validation_scores(of_loss, judge(loss), "bounding"))
    if best is None:
        raise MissingEvidence(f"no validation scores of {loss} on {column}")
    others = [Cell(loss, name, column, judge(loss)) for name in boundings if name != best]
    beaten = Family.of({cell.bounding: contrast(pair(evidence, cell, best)) for cell in others}).lower
    return [name for name in boundings if name not in beaten]


def _of_columns(by_column: Mapping[DataSet, Sequence[str]]) -> str:
    """Name the boundings of each column; columns with the same ones share a phrase."""
    columns_of: dict[tuple[str, ...], list[str]] = {}
    for column, names in by_column.items():
        columns_of.setdefault(tuple(names), []).append(str(column))
    return "; ".join(f"{_names(names)} on {listed(where)}" for names, where in columns_of.items())


def _names(boundings: Sequence[str]) -> str:
    if set(boundings) == set(BOUNDINGS):
        return "all boundings"
    return listed(["no bounding" if name == UNBOUNDED else name for name in boundings])


def _depends(best: Sequence[Sequence[str]], shared: Sequence[str]) -> str:
    if not shared:
        return CONFIRMED
    same = all(set(one) == set(shared) for one in best)
    return REFUTED if same and len(shared) < len(BOUNDINGS) else INCONCLUSIVE
