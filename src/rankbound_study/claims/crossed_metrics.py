"""The metric trained and the metric judged: every loss on every metric, against the loss that is trained for it.

Losses are compared as they are, and each with its best bounding, which the validation part picks by the metric that
judges the loss. No loss is trained for RR and P@k: there, all are compared with that of nDCG.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from rankbound.compare import PairedScores
from rankbound.compare.scores import mean_of_known, per_unit
from rankbound_study.claims.cells import contrast, judge
from rankbound_study.claims.certainty import adjusted_p_values
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.paired_scores import scores_of_runs
from rankbound_study.results.validation import best_of, validation_scores
from rankbound_study.vocabulary import JUDGED_BY, LOSSES, UNBOUNDED

JUDGED = ("nDCG", "nDCG@10", "AP", JUDGED_BY["nRBP"], "RR", "P@5", "P@10")
"""The metrics that judge, in the order of the table's columns."""

TRAINED_FOR = {**{metric: loss for loss, metric in JUDGED_BY.items()}, "nDCG@10": "nDCG"}
"""Metric -> the loss that is trained for it."""

COMMON = "nDCG"
"""The loss that others are compared with on metrics without a loss of their own."""

DIFFERENCE: dict[str, pl.DataType] = {
    **dict.fromkeys(("score", "difference", "low", "high", "p_value", "p_holm"), pl.Float64()),
    "n_topics": pl.Int64(),
}
"""A mean score, and its difference from that of a reference: null for the reference itself, or without one. Intervals
are of 95 % over topics and trainings; `p_holm` is corrected over all differences of the table."""

COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    "bounded": pl.Boolean(),
    **dict.fromkeys(("loss", "bounding", "metric", "reference"), pl.String()),
    **DIFFERENCE,
}
"""Columns of the table; `reference` is the loss with which others are compared, bounded if they are."""


def metrics_crossed(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set, loss (unbounded, then bounded) and judging metric."""
    rows = [row for column in evidence.data_sets for row in _of_data_set(evidence, column)]
    table = pl.DataFrame(rows, schema=COLUMNS)
    return table.with_columns(adjusted_p_values(table))


def compared(scores: PairedScores, system: str, reference: str) -> dict[str, object]:
    """Return a system's mean score and its difference from a reference, without `p_holm`."""
    own = per_unit(scores.values[list(scores.systems).index(system)])
    row: dict[str, object] = {"score": float(mean_of_known(own)), "n_topics": int(np.isfinite(own).sum())}
    if reference in (system, "") or reference not in scores.systems:
        return row
    pair = scores.pair(system, reference)
    if len(pair.units) < 2:
        return row
    found = contrast(pair)
    low, high = found.interval
    return row | {"difference": found.mean, "low": low, "high": high, "p_value": found.estimate.p_value()}


def _of_data_set(evidence: Evidence, column: DataSet) -> Iterator[dict[str, object]]:
    lazy = evidence.cell(column.dataset, column.nsr).filter(pl.col("loss").is_in(LOSSES))
    rows = lazy.select(*KEY, *JUDGED).collect()
    losses = [loss for loss in LOSSES if loss in rows["loss"]]
    picked = {loss: _best_bounding(evidence, column, rows.filter(pl.col("loss") == loss)) for loss in losses}
    for bounded, boundings in ((False, dict.fromkeys(losses, UNBOUNDED)), (True, picked)):
        chosen = pl.col("bounding") == pl.col("loss").replace_strict(boundings, default=None, return_dtype=pl.String)
        own = rows.filter(chosen)
        for metric in JUDGED:
            scores = scores_of_runs(own, metric, by=("loss",))
            reference = TRAINED_FOR.get(metric, COMMON)
            where = {"dataset": column.dataset, "nsr": column.nsr, "bounded": bounded, "metric": metric}
            for loss in [loss for loss in losses if loss in scores.systems]:
                named = {"loss": loss, "bounding": boundings[loss], "reference": reference}
                yield {**where, **named, **compared(scores, loss, reference)}


def _best_bounding(evidence: Evidence, column: DataSet, rows: pl.DataFrame) -> str | None:
    """Return the bounding of a loss that scores highest on the validation part; None without validation scores."""
    loss = rows["loss"][0]
    epochs = evidence.epochs_of(column.dataset, column.nsr).filter(pl.col("loss") == loss)
    scores: Mapping[str, float] = validation_scores(epochs, judge(loss), "bounding")
    return best_of([name for name in rows["bounding"].unique() if name != UNBOUNDED], scores)
