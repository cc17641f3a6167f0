"""Claims about floors and ends of metrics: closed forms, and all orders of small lists."""

import numpy as np

import rankbound as rb
from rankbound.claims.evidence import Evidence
from rankbound.claims.registry import decides
from rankbound.claims.verdict import Verdict, holds


@decides("T03")
def low_lists_that_outscore_higher_ones(evidence: Evidence) -> Verdict:
    """nDCG of a list with its only relevant item second, and of one with all five at the bottom."""
    offsets = np.array([0, 2, 8])
    relevance = np.array([0, 1, 0, 1, 1, 1, 1, 1])
    scores = -np.arange(8.0)
    second, bottom = rb.metric("nDCG")(scores, relevance, offsets).tolist()
    return Verdict(
        holds(bottom > second),
        f"nDCG is {second:.2f} for the relevant item in second place of two, and {bottom:.2f} for five relevant items "
        "behind the only other one.",
        statistic="nDCG, bottom minus second",
        value=bottom - second,
        n=2,
        shown_in=("table_1_1",),
    )
