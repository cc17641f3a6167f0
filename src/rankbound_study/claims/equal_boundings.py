"""Claims that boundings are alike: one hardly changes a loss, or scales it by a constant, or acts as another does."""

from collections.abc import Mapping
from itertools import combinations, product

import numpy as np

import rankbound as rb
from rankbound_study.claims.cells import MOVIELENS, Cell, Contrast, columns, contrast, judge, pair, values
from rankbound_study.claims.declared import Differences, of_cells
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import FLAT, Family, together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.vocabulary import AFFINE, LOSSES


def _apart(evidence: Evidence, loss: str, one: str, other: str, column: DataSet) -> Contrast:
    return contrast(pair(evidence, Cell(loss, one, column, judge(loss)), other))


def _sizes(evidence: Evidence, loss: str, column: DataSet) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes (items, relevant items) of the lists."""
    n, p = (values(evidence, name, loss, column) for name in ("n", "p"))
    known = np.isfinite(n) & np.isfinite(p)
    return n[known].astype(np.int64), p[known].astype(np.int64)


def _floors(evidence: Evidence, family: Family[Cell]) -> Mapping[str, object]:
    """Return the range of the lowest possible AP, and the differences, by ratio."""
    ratios = columns(evidence, MOVIELENS)
    spreads = [float(np.ptp(rb.minimum("AP", *_sizes(evidence, "AP", column)))) for column in ratios]
    return {
        "spreads": ", ".join(f"{one:.2f}" for one in spreads),
        "changes": ", ".join(map(str, family.contrasts.values())),
        "ratios": ", ".join(str(column.nsr) for column in ratios),
        "margins": ", ".join(f"{one.margin:.4f}" for one in family.contrasts.values()),
    }


_WITHIN = (
    "{within} of {count} mean differences are within the noise margin between trainings; the largest is {widest} "
    "({at_widest}, margin {widest.margin:.4f})."
)
_LARGEST = "mean difference of two boundings, largest"

DECLARED = {
    "T07": Differences(
        of_cells(["AP"], ["min-max"], [MOVIELENS]),
        Family.all_alike,
        "The lowest possible AP varies by {spreads} between the lists of one ratio; min-max bounding changes mean AP "
        "by {changes} at ratios {ratios}, where the noise margin between trainings is {margins}.",
        "mean AP, min-max minus unbounded, largest difference",
        Family.widest,
        Family.alike_p,
        of_topics=True,
        takes_noise=True,
        facts=_floors,
        shown_in="figure_3_1 table_5_1",
    ),
    "T14": Differences(
        lambda evidence: {
            f"{one}, {other} on {column}": _apart(evidence, "nRBP", one, other, column)
            for column, (one, other) in product(columns(evidence), combinations(AFFINE, 2))
        },
        Family.all_alike,
        "In theory min-max, expectation and expectation-max bounding multiply the nRBP loss of a list by 1, 2 and 2 "
        f"over its largest value, which differ by a constant factor; {_WITHIN}",
        _LARGEST,
        Family.widest,
        Family.alike_p,
        takes_noise=True,
        shown_in="table_5_1",
    ),
}

_AS_EXPECTATION = Differences[str](
    lambda evidence: {
        f"{loss} on {column}": _apart(evidence, loss, "expectation-max", "expectation", column)
        for column, loss in product(columns(evidence), LOSSES)
    },
    Family.all_alike,
    _WITHIN,
    _LARGEST,
    Family.widest,
    takes_noise=True,
)


@decides("T16")
def expectation_max_is_as_expectation(evidence: Evidence) -> Verdict:
    """Decide by whether both weigh the lists of a ratio alike, and score alike.

    Weights whose quotient varies by less than 10 % are alike. That it varies more decides nothing: whether that matters
    is what the scores tell.
    """
    alike = _AS_EXPECTATION(evidence)
    quotients = {
        loss: [_variation_of_quotient(evidence, loss, column) for column in columns(evidence, MOVIELENS)]
        for loss in LOSSES
    }
    most = max(max(found) for found in quotients.values())
    texts = ", ".join(f"{min(found):.2f} to {max(found):.2f} ({loss})" for loss, found in quotients.items())
    return Verdict(
        together(CONFIRMED if most < FLAT else INCONCLUSIVE, alike.verdict),
        "Over the lists of one ratio the quotient of the factors by which the two boundings multiply a loss has a "
        f"coefficient of variation of {texts}, where {FLAT:g} is little; {alike.reason[0].lower()}{alike.reason[1:]}",
        "coefficient of variation of the quotient of the two boundings' factors, largest",
        most,
        n=alike.n,
        shown_in="figure_3_4 table_5_1",
    )


def _variation_of_quotient(evidence: Evidence, loss: str, column: DataSet) -> float:
    """Return the coefficient of variation over the lists of (max - E) / E, the quotient of 1 / E and 1 / (max - E).

    Their correlation says nothing: where the maximum is 1, one falls as the other rises, however little both vary.
    """
    n, p = _sizes(evidence, loss, column)
    expected = np.asarray(rb.expectation(loss, n, p))
    room = np.asarray(rb.maximum(loss, n, p)) - expected
    usable = (expected > 0) & (room > 0)
    quotient = room[usable] / expected[usable]
    return float(quotient.std() / quotient.mean()) if usable.any() else 0.0
