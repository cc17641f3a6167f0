"""Claims that boundings are alike: one hardly changes a loss, or scales it by a constant, or acts as another does."""

from itertools import combinations

import numpy as np

import rankbound as rb
from rankbound_study.claims.cells import (
    MOVIELENS,
    Cell,
    Column,
    Contrast,
    cells,
    columns,
    contrast,
    contrasts,
    judge,
    pair,
    scores,
)
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import all_alike, together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict
from rankbound_study.claims.words import no_noise, numbered
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import AFFINE, LOSSES

SAME = 0.9
"""Smallest correlation of two weights at which they count as interchangeable."""


@decides("T07")
def min_max_hardly_changes_ap(evidence: Evidence) -> Verdict:
    """Decide by whether the two losses score alike at every ratio; the range of AP's floor is reported beside it."""
    ratios = columns(evidence, MOVIELENS)
    found = contrasts(evidence, cells(evidence, ["AP"], ["min-max"], ratios))
    if missing := no_noise(found.values()):
        return Verdict(INCONCLUSIVE, missing, n=len(found))
    spreads = [float(np.ptp(rb.minimum("AP", *_sizes(evidence, "AP", column)))) for column in ratios]
    widest = max(found.values(), key=lambda one: abs(one.mean))
    return Verdict(
        all_alike(list(found.values())),
        f"The lowest possible AP varies by {', '.join(f'{one:.2f}' for one in spreads)} between the lists of one "
        f"ratio; min-max bounding changes mean AP by {', '.join(signed(one.mean) for one in found.values())} at ratios "
        f"{', '.join(str(column.nsr) for column in ratios)}, where the noise margin between trainings is "
        f"{', '.join(f'{one.margin:.4f}' for one in found.values())}.",
        statistic="mean AP, min-max minus unbounded, largest difference",
        value=widest.mean,
        low=widest.interval[0],
        high=widest.interval[1],
        p_value=max(one.p_alike for one in found.values()),
        n=widest.n,
        shown_in=("figure_3_1", "table_5_1"),
    )


@decides("T14")
def nrbp_boundings_are_alike(evidence: Evidence) -> Verdict:
    """Decide by whether three boundings of nRBP, which are multiples of one another, score alike."""
    found = {
        (column, one, other): _against(evidence, "nRBP", one, other, column)
        for column in columns(evidence)
        for one, other in combinations(AFFINE, 2)
    }
    return _alike(
        found,
        "In theory min-max, expectation and expectation-max bounding multiply the nRBP loss of a list by 1, 2 and 2 "
        "over its largest value, which differ by a constant factor",
    )


@decides("T16")
def expectation_max_is_as_expectation(evidence: Evidence) -> Verdict:
    """Decide by whether both weights correlate over the lists of a ratio, and the two boundings score alike."""
    found = {
        (column, loss, ""): _against(evidence, loss, "expectation-max", "expectation", column)
        for column in columns(evidence)
        for loss in LOSSES
    }
    weights = {
        loss: [_correlation_of_weights(evidence, loss, column) for column in columns(evidence, MOVIELENS)]
        for loss in LOSSES
    }
    least = min(min(values) for values in weights.values())
    alike = _alike(found, "")
    of_weights = CONFIRMED if least >= SAME else REFUTED if least <= 0 else INCONCLUSIVE
    texts = ", ".join(f"{min(values):+.2f} to {max(values):+.2f} ({loss})" for loss, values in weights.items())
    return Verdict(
        together(of_weights, alike.verdict),
        "Over the lists of one ratio the factors by which the two boundings multiply a loss correlate by "
        + texts
        + "; "
        f"{alike.reason[0].lower()}{alike.reason[1:]}",
        statistic="correlation of the two boundings' factors, lowest",
        value=least,
        n=len(found),
        shown_in=("figure_3_4", "table_5_1"),
    )


def _against(evidence: Evidence, loss: str, bounding: str, other: str, column: Column) -> Contrast:
    return contrast(pair(evidence, Cell(loss, bounding, column, judge(loss)), other))


def _alike(found: dict[tuple[Column, str, str], Contrast], why: str) -> Verdict:
    if missing := no_noise(found.values()):
        return Verdict(INCONCLUSIVE, missing, n=len(found))
    alike = [one for one in found.values() if one.is_alike]
    place, widest = max(found.items(), key=lambda item: abs(item[1].mean))
    compared = ", ".join(filter(None, place[1:]))
    return Verdict(
        all_alike(list(found.values())),
        f"{why}{'; ' if why else ''}{numbered(len(alike), len(found))} mean differences are within the noise margin "
        f"between trainings; the largest is {signed(widest.mean)} ({compared} on {place[0]}, margin "
        f"{widest.margin:.4f}).",
        statistic="mean difference of two boundings, largest",
        value=widest.mean,
        low=widest.interval[0],
        high=widest.interval[1],
        p_value=max(one.p_alike for one in found.values()),
        n=len(found),
        shown_in=("table_5_1",),
    )


def _correlation_of_weights(evidence: Evidence, loss: str, column: Column) -> float:
    """Return the correlation of 1 / E and 1 / (max - E) over the lists; 1 if all lists have one size."""
    n, p = _sizes(evidence, loss, column)
    expected = np.asarray(rb.expectation(loss, n, p))
    room = np.asarray(rb.maximum(loss, n, p)) - expected
    usable = (expected > 0) & (room > 0)
    slopes = 1 / expected[usable], 1 / room[usable]
    if not usable.any() or any(np.ptp(one) == 0 for one in slopes):
        return 1.0
    return float(np.corrcoef(*slopes)[0, 1])


def _sizes(evidence: Evidence, loss: str, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes (items, relevant items) of the lists."""
    n, p = (scores(evidence, name, loss, column).values[0] for name in ("n", "p"))
    known = np.isfinite(n) & np.isfinite(p)
    return n[known].astype(np.int64), p[known].astype(np.int64)
