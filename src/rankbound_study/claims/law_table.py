"""The tables of the law: its cells, the lines through them, and the outcome of the predictions."""

from dataclasses import asdict
from typing import Any

import polars as pl

from rankbound_study.claims.law import INFLUENCE, MISMATCH, WEIGHTS, Effect, Law
from rankbound_study.claims.law_predictions import fit, outcomes, verdict

NAME = "table_law"
LINES, PREDICTIONS = f"{NAME}_lines", f"{NAME}_predictions"

CHANGES = {name: f"change_{name}" for name in (MISMATCH, INFLUENCE, WEIGHTS)}
"""The column of each predictor; without a bound, weights do not vary."""

COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("loss", "weights", "metric", "origin", "same_as"), pl.String()),
    **dict.fromkeys((*CHANGES.values(), "effect", "low", "high", "predicted", "p_residual"), pl.Float64()),
    "n_topics": pl.Int64(),
}
LINE_COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(("predictor", "cells"), pl.String()),
    "n": pl.Int64(),
    **dict.fromkeys(
        ("slope", "slope_low", "slope_high", "intercept", "intercept_low", "intercept_high", "r_squared"), pl.Float64()
    ),
}
PREDICTION_COLUMNS: dict[str, pl.DataType] = dict.fromkeys(("prediction", "outcome", "found"), pl.String())


def cells_table(law: Law) -> pl.DataFrame:
    """Return a row per cell; of those that do not count, `same_as` is the one with the same relative weights."""
    return pl.DataFrame([_row(law, effect) for effect in law.effects], schema=COLUMNS)


def lines_table(law: Law) -> pl.DataFrame:
    """Return a row per line."""
    return pl.DataFrame([asdict(line) for line in law.lines] if law.effects else [], schema=LINE_COLUMNS)


def predictions_table(law: Law) -> pl.DataFrame:
    """Return the verdicts on the law, and the outcome of every prediction; no rows without cells."""
    found = [verdict(law), fit(law), *outcomes(law)] if law.effects else []
    return pl.DataFrame([asdict(one) for one in found], schema=PREDICTION_COLUMNS)


def _row(law: Law, effect: Effect) -> dict[str, Any]:
    cell = effect.cell
    low, high = effect.contrast.interval
    return {
        **cell.column._asdict(),
        "loss": cell.loss,
        "weights": cell.bounding,
        "metric": cell.metric,
        "origin": effect.origin,
        "same_as": effect.same_as,
        **{column: effect.change(predictor) for predictor, column in CHANGES.items()},
        "effect": effect.contrast.mean,
        "low": low,
        "high": high,
        "predicted": law.predicted(effect),
        "p_residual": None if effect.same_as else law.p_residuals.get(cell),
        "n_topics": effect.contrast.n,
    }
