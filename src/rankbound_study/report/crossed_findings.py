"""Compute the finding about losses that are judged by another metric than the one that they were trained for."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rankbound.texts import quantity
from rankbound_study.claims.cells import significance
from rankbound_study.claims.comparisons import METRIC_COLUMNS, TRAINED_FOR
from rankbound_study.report.findings import Finding
from rankbound_study.report.table_files import read_table
from rankbound_study.report.tables.crossed import METRICS_CROSSED
from rankbound_study.report.typeset_numbers import signed


def crossed_findings(folder: Path) -> Iterator[Finding]:
    """Count the losses that rank better or worse than the one trained for the metric; nothing without the table."""
    path = folder / f"{METRICS_CROSSED}.csv"
    if not path.exists():
        return
    table = read_table(path, METRIC_COLUMNS).filter(
        pl.col("metric").is_in(list(TRAINED_FOR)), pl.col("p_holm").is_not_null()
    )
    if table.is_empty():
        return
    better, worse = _sides(table)
    yield Finding(
        "Losses trained for another metric score significantly higher than the loss trained for it in "
        f"{better} of {quantity(len(table), 'comparison')}, and significantly lower in {worse}.",
        "Each comparison has one data set and one judging metric: two unbounded losses, or each with its best bounding "
        "by validation. Holm's correction is over all differences of the table.",
        ("judged by", "trained on", "comparisons", "higher", "lower", "mean difference"),
        tuple(
            (str(metric), str(loss), str(len(part)), *map(str, _sides(part)), signed(_mean(part)))
            for (metric, loss), part in table.group_by("metric", "loss", maintain_order=True)
        ),
    )


def _sides(table: pl.DataFrame) -> tuple[int, int]:
    """Count the differences that are significantly above and below zero."""
    sides = [significance(*row) for row in table.select("difference", "p_holm").rows()]
    return sides.count(1), sides.count(-1)


def _mean(table: pl.DataFrame) -> float:
    mean: float = table.select(pl.col("difference").mean()).item()
    return mean
