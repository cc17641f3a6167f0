"""The tables of what related work predicts: orders of systems by bounded metrics, gradients, losses of ranks."""

from dataclasses import asdict

import polars as pl

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.rank_loss import rank_loss_minus_metric_loss
from rankbound_study.claims.system_orders import bounded_orders
from rankbound_study.vocabulary import BOUNDINGS, LOSSES

NAME, GRADIENTS, RANKS = "table_related", "table_related_gradients", "table_related_ranks"

COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("metric", "bound"), pl.String()),
    **dict.fromkeys(("systems", "pairs"), pl.Int64()),
    "tau": pl.Float64(),
    **dict.fromkeys(("inverted", "exchanged", "significant", "significant_bounded", "gained", "lost"), pl.Int64()),
}
GRADIENT_COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(("loss", "bound"), pl.String()),
    **dict.fromkeys(("pairs", "incoherent"), pl.Int64()),
}
RANK_COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    "metric": pl.String(),
    **dict.fromkeys(("difference", "low", "high", "p_value"), pl.Float64()),
}


def orders_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set, metric and bound of the metric."""
    rows = [one.column._asdict() | asdict(one) for one in bounded_orders(evidence)]
    return pl.DataFrame([{name: row[name] for name in COLUMNS} for row in rows], schema=COLUMNS)


def gradients_table() -> pl.DataFrame:
    """Return a row per loss and bound."""
    from rankbound_study.claims.coherence import coherence  # imports torch, which reading the table does not need

    rows = [asdict(coherence(loss, bound)) for loss in LOSSES for bound in BOUNDINGS]
    return pl.DataFrame(rows, schema=GRADIENT_COLUMNS)


def ranks_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set and metric."""
    rows = [
        (*column, metric, *one.measured, one.estimate.p_value())
        for (column, metric), one in rank_loss_minus_metric_loss(evidence).items()
    ]
    return pl.DataFrame(rows, schema=RANK_COLUMNS, orient="row")
