"""A claim about logistic regression on faces: its gain from pairs over single labels, and where its weights lie."""

import numpy as np

from rankbound.compare.scores import Floats, Mask
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import PIXELS, Gap, Methods, deciding, gaps, read_methods
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict
from rankbound_study.data.images import read_faces
from rankbound_study.results.coefficients import coefficients

ON_PAIRS, ON_LABELS = "Rank-LR", "Class-LR"

A_LOT = 0.05
"""The claim's "a lot", in shares of pairs; 0.32 is printed."""

HALF_WIDTH, HALF_HEIGHT = 0.35, 0.45
"""Half axes of the ellipse that the face fills in the middle of a picture, as shares of the sides."""

CLEARER = 0.01
"""Smallest difference in the share of the weights' energy that counts."""


@decides("N11")
def pairs_teach_logistic_regression_more_and_clearer(evidence: Evidence) -> Verdict:
    """Compare logistic regression on pairs with that on single labels, and their weights inside the face."""
    methods = read_methods(evidence, PIXELS)
    (gain,) = gaps(methods, [(ON_PAIRS, ON_LABELS)], A_LOT)
    shares = [_energy_inside(evidence, methods, name) for name in (ON_PAIRS, ON_LABELS)]
    return Verdict(
        _verdict(gain, *shares),
        f"On the same pairs of {methods.title} the difference in accuracy is {gain}, where a lot is read as {A_LOT} or "
        f"more; {_energy_text(evidence, *shares)}.",
        statistic=f"pair accuracy, {ON_PAIRS} minus {ON_LABELS}",
        shown_in="table_neural_2 figure_neural_3",
        **deciding([gain]),
    )


def face_mask(height: int, width: int) -> Mask:
    """Return the mask `(height, width)` of the pixels whose centre lies in the ellipse."""
    down, right = ((np.arange(count) + 0.5) / count - 0.5 for count in (height, width))
    inside: Mask = (down[:, None] / HALF_HEIGHT) ** 2 + (right / HALF_WIDTH) ** 2 <= 1
    return inside


def energy_inside(weights: Floats, mask: Mask) -> float | None:
    """Return the mask's share of the sum of squares of `weights` `(3, height, width)`; None if all are zero."""
    squares = (weights**2).sum(0)
    return float(squares[mask].sum() / squares.sum()) if squares.any() else None


def _energy_inside(evidence: Evidence, methods: Methods, name: str) -> float | None:
    """Return the share of a method's weights; None without weights or pictures."""
    files = [path for path in evidence.weights if path.parts[-4] == methods.dataset and path.parts[-3] == name]
    if evidence.images is None or not files:
        return None
    shape = read_faces(evidence.images).shape
    weights = coefficients(files[0], shape)
    return None if weights is None else energy_inside(weights, face_mask(*shape[1:]))


def _verdict(gain: Gap, on_pairs: float | None, on_labels: float | None) -> str:
    """Refute by a gain significantly below the limit; confirm by one significantly above it with clearer weights."""
    if gain.found.high < A_LOT:
        return REFUTED
    clearer = on_pairs is not None and on_labels is not None and on_pairs > on_labels + CLEARER
    return CONFIRMED if gain.found.low > A_LOT and clearer else INCONCLUSIVE


def _energy_text(evidence: Evidence, on_pairs: float | None, on_labels: float | None) -> str:
    if evidence.images is None or on_pairs is None or on_labels is None:
        return "there are no weights in which to look for a face"
    pixels = face_mask(*read_faces(evidence.images).shape[1:]).mean()
    return (
        f"{on_pairs:.1%} of the squares of its weights lie in the ellipse of the face, {on_labels:.1%} with single "
        f"labels, and {pixels:.1%} of the pixels"
    )
