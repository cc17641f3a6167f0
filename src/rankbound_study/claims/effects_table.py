"""The tables of the effects of bounding: a row per cell, and a row per mean effect."""

import polars as pl

from rankbound_study.claims.effects import Effects

NAME, MEANS = "table_effects", "table_effects_means"

COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("loss", "bounding", "metric"), pl.String()),
    **dict.fromkeys(("effect", "low", "high", "margin", "p_holm"), pl.Float64()),
    "alike": pl.Boolean(),
    "n_topics": pl.Int64(),
}
MEAN_COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(("bounds", "loss"), pl.String()),
    "n": pl.Int64(),
    **dict.fromkeys(("mean", "low", "high", "between", "new_low", "new_high"), pl.Float64()),
}


def cells_table(found: Effects) -> pl.DataFrame:
    """Return a row per cell."""
    rows = [
        {
            **cell.column._asdict(),
            "loss": cell.loss,
            "bounding": cell.bounding,
            "metric": cell.metric,
            **dict(zip(("effect", "low", "high"), one.measured, strict=True)),
            "margin": one.margin,
            "p_holm": found.p_values[cell],
            "alike": one.is_alike,
            "n_topics": one.n,
        }
        for cell, one in found.contrasts.items()
    ]
    return pl.DataFrame(rows, schema=COLUMNS).with_columns(pl.col("margin").fill_nan(None))


def means_table(found: Effects) -> pl.DataFrame:
    """Return a row per kind of bounds and loss."""
    rows = [
        (kind, loss, one.n, one.estimate.mean, *one.interval, one.between, *one.of_new_cell)
        for kind, loss, one in (found.means() if len(found.pairs) > 1 else ())
    ]
    return pl.DataFrame(rows, schema=MEAN_COLUMNS, orient="row").with_columns(
        pl.col("new_low", "new_high").fill_nan(None)
    )
