"""The claim that lists score alike under bounded and unbounded losses (Figures 5.5 to 5.7)."""

from itertools import combinations

import numpy as np

from rankbound.compare.effects import LEVEL
from rankbound.compare.randomisation import holm
from rankbound_study.claims.cells import cells, columns, judge, pair, scores
from rankbound_study.claims.correlations import PEARSON, SPEARMAN, correlation
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict
from rankbound_study.claims.words import numbered, span
from rankbound_study.vocabulary import LOSSES, UNBOUNDED

STRONG = 0.7
"""Smallest correlation that counts as strong (Schober, Boer and Schwarte 2018)."""


@decides("T40")
def lists_score_alike(evidence: Evidence) -> Verdict:
    """Decide by whether Pearson's and Spearman's correlations over lists are strong in every cell."""
    every = cells(evidence)
    pairs = {cell: pair(evidence, cell) for cell in every}
    found = {
        (cell, kind): correlation(one.a, one.b, kind) for cell, one in pairs.items() for kind in (PEARSON, SPEARMAN)
    }
    above = dict(zip(found, holm([one.p_above(STRONG) for one in found.values()]), strict=True))
    below = dict(zip(found, holm([one.p_below(STRONG) for one in found.values()]), strict=True))
    strong = [key for key in found if above[key] <= LEVEL]
    weak = [key for key in found if below[key] <= LEVEL]
    least = min(found, key=lambda key: found[key].value)
    low, high = found[least].interval
    seeds = [value for loss in LOSSES for value in _between_seeds(evidence, loss)]
    of_seeds = (
        f"; between two seeds of the unbounded loss, Pearson's is {min(seeds):.2f} to {max(seeds):.2f}" if seeds else ""
    )
    weak_ones = sorted({str(cell) for cell, _ in weak})
    return Verdict(
        REFUTED if weak else CONFIRMED if len(strong) == len(found) else INCONCLUSIVE,
        f"{numbered(len(strong), len(found))} correlations over lists are significantly above {STRONG} and {len(weak)} "
        f"below{f' ({span(weak_ones)})' if weak_ones else ''}; the median is "
        f"{float(np.median([one.value for one in found.values()])):.2f}, the lowest {found[least].value:.2f} "
        f"({least[1]}'s of {least[0]}){of_seeds}.",
        statistic="correlation over lists, lowest",
        value=found[least].value,
        low=low,
        high=high,
        p_value=max(above.values()),
        n=len(found),
        shown_in=("figure_5_5", "figure_5_6", "figure_5_7"),
    )


def _between_seeds(evidence: Evidence, loss: str) -> list[float]:
    """Return Pearson's correlation between every two seeds of the unbounded loss, on all data."""
    found = []
    for column in columns(evidence):
        of_loss = scores(evidence, judge(loss), loss, column)
        values = of_loss.values[list(of_loss.systems).index(UNBOUNDED)]
        pairs = combinations(range(values.shape[2]), 2)
        found += [correlation(values[:, :, [i]], values[:, :, [j]]).value for i, j in pairs]
    return found
