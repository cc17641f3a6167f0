"""A loss of ranks beside a metric's own loss: the unbounded nRBP loss, a sum of smooth ranks, judged by nDCG and AP."""

from collections.abc import Mapping

import polars as pl

from rankbound_study.claims.cells import Contrast, contrast
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.verdict import MissingEvidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.paired_scores import scores_of_runs
from rankbound_study.vocabulary import UNBOUNDED

RANKS = "nRBP"
OF_METRIC = ("nDCG", "AP")
"""Losses that are named after the metric that judges them."""


def rank_loss_minus_metric_loss(evidence: Evidence) -> Mapping[tuple[DataSet, str], Contrast]:
    """Return, for every data set and metric, the score of the loss of ranks minus that of the metric's own loss."""
    found = {}
    for column in evidence.data_sets:
        try:
            rows = evidence.cell(column.dataset, column.nsr).filter(pl.col("bounding") == UNBOUNDED)
        except MissingEvidence:
            continue
        for metric in OF_METRIC:
            own = rows.filter(pl.col("loss").is_in([RANKS, metric])).select(*KEY, metric).collect()
            scores = scores_of_runs(own, metric, by=("loss",))
            if {RANKS, metric} <= set(scores.systems) and len((pair := scores.pair(RANKS, metric)).units) > 1:
                found[column, metric] = contrast(pair)
    return found
