"""The predictions of docs/law.md, written before the experiment ran, and the verdict on the law."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankbound.compare.margins import LEVEL
from rankbound.compare.statistics import percentiles
from rankbound_study.claims.cells import Cell
from rankbound_study.claims.law import EXPERIMENT, SECOND, TOLERANCE, Effect, Law, Line
from rankbound_study.claims.rules import FLAT, among, by_interval
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.list_weights import ListWeights
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import LOSSES

SLOPES = (-0.0030, -0.0008)
"""The predicted region of the slope over all cells."""

NOTHING, BEYOND = 0.001, TOLERANCE
"""The largest mean absolute effect of weights that hardly vary (`FLAT`), and a single effect that refutes it."""

PAIRS = "pairs"
"""The quantity whose powers are the doses."""

FALLS = (-1.5, -1.0, 0.5)
"""Powers at which nDCG and AP should fall on MovieLens."""

OF_PAIRS, MOVED = "pairs^-1", "permuted(pairs^-1)"

SECOND_HYPOTHESIS = "Second hypothesis"
"""How its predictions begin."""

PAIRWISE = "nRBP"
"""The loss that counts pairs."""


@dataclass(frozen=True)
class Outcome:
    """A prediction, its outcome (a verdict) and the deciding numbers in a sentence."""

    prediction: str
    outcome: str
    found: str


def verdict(law: Law) -> Outcome:
    """Return the verdict on the direction of the law.

    Confirmed if the slopes over all cells and of each loss are significantly below zero, refuted if one of them is
    significantly above it.
    """
    prediction = "The effect falls with the mismatch of the lists, over all cells and for each loss."
    line = law.line()
    if line is None:
        return Outcome(prediction, NOT_RUN, "There are too few cells for a line.")
    of_losses = {loss: one for loss in LOSSES if (one := law.line(cells=loss)) is not None}
    sides = [_side(line), *map(_side, of_losses.values())]
    outcome = REFUTED if max(sides) > 0 else CONFIRMED if max(sides) < 0 else INCONCLUSIVE
    by_loss = "; ".join(f"{loss} {_slope(one)}" for loss, one in of_losses.items())
    return Outcome(
        prediction,
        outcome,
        f"Slope of the effect per unit of mismatch over {line.n} cells: {_slope(line)}, R² {line.r_squared:.2f}. "
        f"By loss: {by_loss}.",
    )


def fit(law: Law) -> Outcome:
    """Return whether mismatch alone predicts the effects.

    Refuted if a cell lies significantly farther than `BEYOND` from the line (Holm), confirmed if all lie significantly
    nearer.
    """
    prediction = f"Mismatch alone predicts the effect: no cell lies farther than {BEYOND:g} from the line."
    if law.line() is None:
        return Outcome(prediction, NOT_RUN, "There are too few cells for a line.")
    off = [cell for cell, p_value in law.p_residuals.items() if p_value <= LEVEL]
    outcome = REFUTED if off else CONFIRMED if all(_is_near(law, one) for one in law.counted) else INCONCLUSIVE
    named = among([_named(cell) for cell in sorted(off, key=lambda cell: -_distance(law, cell))])
    return Outcome(
        prediction, outcome, f"Cells that lie significantly farther: {len(off)} of {len(law.counted)}{named}."
    )


def _is_near(law: Law, effect: Effect) -> bool:
    estimate, limit = effect.contrast.estimate, law.predicted(effect)
    return max(estimate.p_above(limit - BEYOND), estimate.p_below(limit + BEYOND)) <= LEVEL


def _distance(law: Law, cell: Cell) -> float:
    effect = next(one for one in law.counted if one.cell == cell)
    return abs(effect.contrast.mean - law.predicted(effect))


def outcomes(law: Law) -> Iterator[Outcome]:
    """Yield the outcome of every other prediction; none without runs of the experiment."""
    if any(one.origin == EXPERIMENT for one in law.effects):
        yield from _slope_in_region(law)
        yield from _doses(law)
        yield _falls(law)
        yield from _permuted(law)
        yield _nothing(law)
    yield from _second_doses(law)


def _slope_in_region(law: Law) -> Iterator[Outcome]:
    line = law.line()
    if line is None:
        return
    low, high = SLOPES
    held = low <= line.slope <= high and _side(line) < 0
    yield Outcome(
        f"The slope over all cells lies between {signed(low)} and {signed(high)}, and its interval excludes zero.",
        _holds(held),
        f"{_slope(line)}.",
    )
    through = line.intercept_low <= 0 <= line.intercept_high
    yield Outcome(
        "The intercept's interval contains zero.",
        _holds(through),
        f"{signed(line.intercept)} ({signed(line.intercept_low)} to {signed(line.intercept_high)}).",
    )


def _doses(law: Law) -> Iterator[Outcome]:
    """Yield, for each loss and data set, at which power of the number of pairs the score is highest."""
    for (loss, column), places in _curves(law, EXPERIMENT):
        expected = (0.0,) if loss != PAIRWISE else (-1.0,) if column.sampled else (-1.0, -0.5)
        yield _highest(law, places, expected, f"{loss} on {column.label}")


def _second_doses(law: Law) -> Iterator[Outcome]:
    """Yield the same for the second hypothesis: the best influence of a list is proportional to P."""
    for (loss, column), places in _curves(law, SECOND):
        expected = (0.5,) if loss != PAIRWISE else (-0.5,)
        yield _highest(law, places, expected, f"{SECOND_HYPOTHESIS}: {loss} on {column.label}")


def _curves(law: Law, origin: str) -> Iterable[tuple[tuple[str, DataSet], dict[float, int]]]:
    """Return, for each loss and data set, the places of an experiment's cells by power of the number of pairs."""
    curves: dict[tuple[str, DataSet], dict[float, int]] = {}
    for place, one in enumerate(law.effects):
        weights = ListWeights.of(one.cell.bounding)
        if one.origin == origin and weights.quantity == PAIRS and not weights.permuted:
            curves.setdefault((one.cell.loss, one.cell.column), {})[weights.power] = place
    return curves.items()


def _highest(law: Law, places: Mapping[float, int], expected: Sequence[float], what: str) -> Outcome:
    """Return whether the score is highest at an expected power.

    The prediction holds if it is in 95 % of the bootstrap samples, and fails if it is in 5 %.
    """
    powers = np.array([0.0, *places])
    resampled = law.resampled[:, list(places.values())]
    best = powers[np.argmax(np.column_stack([np.zeros(len(resampled)), resampled]), axis=1)]
    means = [0.0, *(law.effects[place].contrast.mean for place in places.values())]
    share = float(np.isin(best, expected).mean())
    named = " or ".join(f"{power:g}" for power in expected)
    return Outcome(
        f"{what} scores highest at the power {named} of P(N - P).",
        CONFIRMED if share >= 1 - LEVEL else REFUTED if share <= LEVEL else INCONCLUSIVE,
        f"Highest at {powers[np.argmax(means)]:g}; in {100 * share:.0f} % of bootstrap samples as predicted.",
    )


def _falls(law: Law) -> Outcome:
    def chosen(one: Effect) -> bool:
        if one.origin != EXPERIMENT or one.cell.loss == PAIRWISE or not one.cell.column.sampled:
            return False
        weights = ListWeights.of(one.cell.bounding)
        return weights.quantity == PAIRS and not weights.permuted and weights.power in FALLS

    powers = ", ".join(f"{power:g}" for power in FALLS)
    prediction = f"nDCG and AP on MovieLens fall, on average, at the powers {powers} of P(N - P)."
    return _mean_below_zero(law, prediction, chosen)


def _permuted(law: Law) -> Iterator[Outcome]:
    yield _mean_below_zero(
        law,
        f"Permuted, the weights {OF_PAIRS} of {PAIRWISE} cost instead of gaining.",
        lambda one: (one.cell.loss, one.cell.bounding) == (PAIRWISE, MOVED),
    )
    places = {one.cell: place for place, one in enumerate(law.effects)}
    both = [
        (place, places[moved])
        for cell, place in places.items()
        if cell.loss != PAIRWISE and cell.bounding == OF_PAIRS and (moved := cell._replace(bounding=MOVED)) in places
    ]
    prediction = f"Permuted, the weights {OF_PAIRS} of nDCG and AP cost what they cost in place, within {TOLERANCE:g}."
    if both:
        in_place, permuted = (law.resampled[:, [pair[side] for pair in both]].mean(1) for side in (0, 1))
        mean = float(np.mean([law.effects[b].contrast.mean - law.effects[a].contrast.mean for a, b in both]))
        low, high = percentiles(permuted - in_place)
        found = f"Permuted minus in place, mean of {len(both)} cells: {_with_range(mean, low, high)}."
        alike = low >= -TOLERANCE and high <= TOLERANCE
        yield Outcome(prediction, CONFIRMED if alike else INCONCLUSIVE if low <= 0 <= high else REFUTED, found)


def _nothing(law: Law) -> Outcome:
    flat = [one for one in law.counted if one.weighted.of_weights < FLAT]
    prediction = (
        f"Weights with a coefficient of variation below {FLAT:g} do nothing: the mean absolute effect is below "
        f"{NOTHING:g}, and no effect is significantly beyond {BEYOND:g}."
    )
    if not flat:
        return Outcome(prediction, NOT_RUN, "No cell has such weights.")
    mean = float(np.mean([abs(one.contrast.mean) for one in flat]))
    beyond = [_named(one.cell) for one in flat if max(one.contrast.interval[0], -one.contrast.interval[1]) > BEYOND]
    found = f"Mean absolute effect of {len(flat)} cells: {mean:.4f}; beyond {BEYOND:g}: {len(beyond)}{among(beyond)}."
    return Outcome(prediction, _holds(mean < NOTHING and not beyond), found)


def _mean_below_zero(law: Law, prediction: str, chosen: Callable[[Effect], bool]) -> Outcome:
    """Return the outcome of a prediction that the mean effect of some cells lies below zero."""
    places = [place for place, one in enumerate(law.effects) if chosen(one)]
    if not places:
        return Outcome(prediction, NOT_RUN, "No cell has such weights.")
    mean = float(np.mean([law.effects[place].contrast.mean for place in places]))
    low, high = percentiles(law.resampled[:, places].mean(1))
    return Outcome(
        prediction, by_interval(-high, -low, 0), f"Mean effect of {len(places)} cells: {_with_range(mean, low, high)}."
    )


def _named(cell: Cell) -> str:
    return f"{cell.loss} with {cell.bounding} on {cell.column.label}"


def _side(line: Line) -> int:
    """Return the sign of a slope whose interval excludes zero, otherwise 0."""
    return (line.slope_low > 0) - (line.slope_high < 0)


def _slope(line: Line) -> str:
    return _with_range(line.slope, line.slope_low, line.slope_high)


def _with_range(value: float, low: float, high: float) -> str:
    return f"{signed(value)} ({signed(low)} to {signed(high)})"


def _holds(condition: bool) -> str:
    return CONFIRMED if condition else REFUTED
