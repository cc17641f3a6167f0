"""The uncertainty of the means of Table 5.1: their margins, and the bounded losses that differ from the unbounded one.

Errors account for topics (whole users or queries) and, with several seeds, for trainings.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import PairedScores, any_over
from rankbound.compare.statistics import CONFIDENCE, holm
from rankbound_study.claims.cells import contrast, estimate, is_distinct
from rankbound_study.results.paired_scores import scores_of_runs
from rankbound_study.vocabulary import AFFINE, UNBOUNDED

CELL = ("dataset", "nsr", "model", "loss", "bounding", "metric")
COLUMNS = {
    **{name: pl.Int8() if name == "nsr" else pl.String() for name in CELL},
    **dict.fromkeys(("margin", "change", "change_margin", "p_value"), pl.Float64()),
}
SIGNIFICANT = f"p at most {LEVEL} after Holm's correction over the distinct bounded cells of the table"


def certainty(frame: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return half of the 95 % interval of each cell's mean, and its change relative to the unbounded loss.

    `change` and `change_margin` are over topics with scores of both losses; `p_value` is uncorrected.
    """
    named = frame.rename({"nsr_test": "nsr"})
    parts = named.partition_by("dataset", "nsr", "model", "loss", maintain_order=True)
    rows = [row for part in parts for row in _rows(part, metric)]
    return pl.DataFrame(rows, schema=COLUMNS)


def _rows(part: pl.DataFrame, metric: str) -> Iterator[dict[str, object]]:
    scores = scores_of_runs(part, metric, by=("bounding",))
    first = part.row(0, named=True)
    for bounding in scores.systems:
        row: dict[str, object] = {name: first.get(name) for name in CELL} | {"bounding": bounding, "metric": metric}
        row["margin"] = _margin(scores, bounding)
        if bounding != UNBOUNDED and UNBOUNDED in scores.systems:
            row |= _change(scores, bounding)
        yield row


def _margin(scores: PairedScores, bounding: str) -> float | None:
    values = scores.values[list(scores.systems).index(bounding)]
    known = values[any_over(np.isfinite(values), (1, 2))]
    if len(known) < 2:
        return None
    found = estimate(known)
    return found.interval(CONFIDENCE)[1] - found.mean


def _change(scores: PairedScores, bounding: str) -> dict[str, object]:
    pair = scores.pair(bounding, UNBOUNDED)
    if len(pair.units) < 2:
        return {}
    found = contrast(pair)
    reach = found.interval[1] - found.mean
    return {"change": found.mean, "change_margin": reach, "p_value": found.estimate.p_value()}


def significance(change: float | None, p_value: float | None) -> int:
    """Return 1 where a bounded loss is significantly better than the unbounded one, -1 where it is worse, else 0."""
    if change is None or p_value is None or p_value > LEVEL:
        return 0
    return 1 if change > 0 else -1


def holm_adjusted(table: pl.DataFrame) -> pl.Series:
    """Return the p-values of changes, corrected over the distinct cells that the thesis prints; null for all others.

    A bounding that repeats another one (`is_distinct`) is corrected in its place, as one cell of the same family.
    """
    cells = table.select("loss", "bounding").rows()
    found = pl.Series("p_holm", [None] * len(table), dtype=pl.Float64)
    for bounding in reversed(AFFINE):
        family = pl.Series([is_distinct(loss, one, bounding) for loss, one in cells], dtype=pl.Boolean)
        own = table.with_columns(pl.when(pl.col("as_printed") & family).then("p_value"))
        found = adjusted_p_values(own).fill_null(found)
    return found


def adjusted_p_values(table: pl.DataFrame) -> pl.Series:
    """Return the p-values of a table, corrected over all of them; null where there is none."""
    places = np.flatnonzero(table["p_value"].is_not_null().to_numpy())
    adjusted: list[float | None] = [None] * len(table)
    for place, p_value in zip(places.tolist(), holm(table["p_value"].gather(places).to_list()), strict=True):
        adjusted[place] = p_value
    return pl.Series("p_holm", adjusted, dtype=pl.Float64)
