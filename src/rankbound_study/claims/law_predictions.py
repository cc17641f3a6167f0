"""The predictions of docs/law.md, written before the experiment ran, and the verdict on the law."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rankbound.compare.effects import LEVEL
from rankbound.compare.intervals import percentiles
from rankbound_study.claims.cells import Cell
from rankbound_study.claims.law import EXPERIMENT, MISMATCH, Effect, Law, Line
from rankbound_study.claims.rules import among, by_interval
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED
from rankbound_study.config.list_weights import ListWeights
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import LOSSES

SLOPES = (-0.0030, -0.0008)
"""The predicted region of the slope over all cells."""

FLAT, NOTHING, BEYOND = 0.1, 0.001, 0.002
"""Weights that hardly vary, the largest mean absolute effect of such weights, and a single effect that refutes it."""

PAIRS = "pairs"
"""The quantity whose powers are the doses."""

OF_PAIRS, MOVED = "pairs^-1", "permuted(pairs^-1)"

PAIRWISE = "nRBP"
"""The loss that counts pairs."""


@dataclass(frozen=True)
class Outcome:
    """A prediction, its outcome (a verdict) and the deciding numbers in a sentence."""

    prediction: str
    outcome: str
    found: str


def verdict(law: Law) -> Outcome:
    """Return the verdict on the law: confirmed if the slopes over all cells and of each loss are below zero.

    It is refuted if one of these slopes is significantly above zero, otherwise inconclusive.
    """
    prediction = "The effect falls with the mismatch of the lists: over all cells and for each loss."
    line = law.line()
    if line is None:
        return Outcome(prediction, NOT_RUN, "There are too few cells for a line.")
    of_losses = {loss: one for loss in LOSSES if (one := law.line(cells=loss)) is not None}
    sides = [_side(line), *map(_side, of_losses.values())]
    outcome = REFUTED if max(sides) > 0 else CONFIRMED if max(sides) < 0 else INCONCLUSIVE
    by_loss = "; ".join(f"{loss} {_slope(one)}" for loss, one in of_losses.items())
    failing = [cell for cell, p_value in law.p_residuals.items() if p_value <= LEVEL]
    return Outcome(
        prediction,
        outcome,
        f"Slope of the effect per unit of mismatch over {line.n} cells: {_slope(line)}, R² {line.r_squared:.2f}. "
        f"By loss: {by_loss}. Cells that differ significantly from the line: {len(failing)} of {len(law.counted)}"
        f"{among([_named(cell) for cell in failing])}.",
    )


def outcomes(law: Law) -> Iterator[Outcome]:
    """Yield the outcome of every other prediction; none without runs of the experiment."""
    if not any(one.origin == EXPERIMENT for one in law.effects):
        return
    yield from _slope_in_region(law)
    yield from _doses(law)
    yield _falls(law)
    yield from _permuted(law)
    yield _nothing(law)


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
    """Yield, for each loss, the power of the number of pairs at which each data set scores highest."""
    for loss in dict.fromkeys(one.cell.loss for one in law.effects):
        best: dict[str, float] = {}
        for column in dict.fromkeys(one.cell.column for one in law.effects):
            curve = {
                weights.power: one.contrast.mean
                for one in law.effects
                if (one.cell.loss, one.cell.column, one.origin) == (loss, column, EXPERIMENT)
                and (weights := ListWeights.of(one.cell.bounding)).quantity == PAIRS
                and not weights.permuted
            }
            if curve:
                curve[0.0] = 0.0
                best[column.label] = max(curve, key=lambda power: curve[power])
        if best:
            expected = "between -1 and -0.5" if loss == PAIRWISE else "0"
            held = all(-1 <= power <= -0.5 if loss == PAIRWISE else power == 0 for power in best.values())
            found = "; ".join(f"{name}: {power:g}" for name, power in best.items())
            yield Outcome(f"{loss} scores highest at the power {expected} of P(N - P).", _holds(held), f"{found}.")


def _falls(law: Law) -> Outcome:
    def chosen(one: Effect) -> bool:
        return one.origin == EXPERIMENT and one.cell.loss != PAIRWISE and one.change(MISMATCH) > 1

    return _mean_below_zero(
        law, "Weights of nDCG and AP that add more than 1 to the mismatch cost, on average.", chosen
    )


def _permuted(law: Law) -> Iterator[Outcome]:
    yield _mean_below_zero(
        law,
        f"Permuted, the weights {OF_PAIRS} of {PAIRWISE} cost instead of gaining.",
        lambda one: one.cell.loss == PAIRWISE and ListWeights.of(one.cell.bounding).permuted,
    )
    places = {one.cell: place for place, one in enumerate(law.counted)}
    both = [
        (places[one.cell], places[moved])
        for one in law.counted
        if one.cell.loss != PAIRWISE
        and one.cell.bounding == OF_PAIRS
        and (moved := one.cell._replace(bounding=MOVED)) in places
    ]
    prediction = f"Permuted, the weights {OF_PAIRS} of nDCG and AP cost what they cost in place."
    if both:
        plain, moved_ = (law.resampled[:, [pair[side] for pair in both]].mean(1) for side in (0, 1))
        mean = float(np.mean([law.counted[b].contrast.mean - law.counted[a].contrast.mean for a, b in both]))
        low, high = percentiles(moved_ - plain)
        found = f"Permuted minus in place, mean of {len(both)} cells: {_with_range(mean, low, high)}."
        yield Outcome(prediction, _holds(low <= 0 <= high), found)


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
    places = [place for place, one in enumerate(law.counted) if chosen(one)]
    if not places:
        return Outcome(prediction, NOT_RUN, "No cell has such weights.")
    mean = float(np.mean([law.counted[place].contrast.mean for place in places]))
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
