"""Claims of correlations over lists: bounded with unbounded scores, and gains with the number of relevant items."""

from collections.abc import Mapping
from itertools import combinations, product

import numpy as np

from rankbound.compare.effects import LEVEL
from rankbound.compare.scores import Floats, per_unit
from rankbound_study.claims.cells import (
    Cell,
    Contrast,
    cells,
    columns,
    contrast,
    enough,
    judge,
    kept_units,
    pair,
    pairs,
    scores,
    values,
)
from rankbound_study.claims.correlations import PEARSON, SPEARMAN, Correlation, correlation
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.ratios import several_ratios
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import Key, adjusted, among, together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import BOUNDED, LOSSES

STRONG = 0.7
"""Smallest correlation that counts as strong (Schober, Boer and Schwarte 2018)."""

UNRELATED = 0.2
"""Rank correlations below this count as none: they explain less than 4 % of the variance of ranks."""

_SCATTERS = "figure_5_5 figure_5_6 figure_5_7"


@decides("T40")
def lists_score_alike(evidence: Evidence) -> Verdict:
    """Decide by whether Pearson's and Spearman's correlations over lists are strong in every cell."""
    every = pairs(evidence, cells(evidence))
    found = {
        (cell, kind): correlation(one.a, one.b, kind)
        for (cell, one), kind in product(every.items(), (PEARSON, SPEARMAN))
    }
    above = adjusted({key: one.p_above(STRONG) for key, one in found.items()})
    below = adjusted({key: one.p_below(STRONG) for key, one in found.items()})
    strong, weak = ([key for key in found if p_values[key] <= LEVEL] for p_values in (above, below))
    least = min(found, key=lambda key: found[key].value)
    seeds = [value for loss in LOSSES for value in _between_seeds(evidence, loss)]
    of_seeds = (
        f"; between two seeds of the unbounded loss, Pearson's is {min(seeds):.2f} to {max(seeds):.2f}" if seeds else ""
    )
    return Verdict(
        REFUTED if weak else CONFIRMED if len(strong) == len(found) else INCONCLUSIVE,
        f"{len(strong)} of {len(found)} correlations over lists are significantly above {STRONG} and {len(weak)} below"
        f"{among(sorted({str(cell) for cell, _ in weak}))}; the median is "
        f"{float(np.median([one.value for one in found.values()])):.2f}, the lowest {found[least].value:.2f} "
        f"({least[1]}'s of {least[0]}){of_seeds}.",
        "correlation over lists, lowest",
        *found[least].measured,
        max(above.values()),
        len(found),
        _SCATTERS,
    )


def _between_seeds(evidence: Evidence, loss: str) -> list[float]:
    """Return Pearson's correlation between every two seeds of the unbounded loss, on all data."""
    found = []
    for column in columns(evidence):
        own = values(evidence, judge(loss), loss, column)
        every = combinations(range(own.shape[2]), 2)
        found += [correlation(own[:, :, [i]], own[:, :, [j]]).value for i, j in every]
    return found


@decides("T43")
def change_is_unrelated_to_relevant_items(evidence: Evidence) -> Verdict:
    """Decide by whether no difference of nDCG or AP correlates with the number of relevant items by 0.2 or more."""
    found = {cell: _with_relevant(evidence, cell) for cell in cells(evidence, ["nDCG", "AP"])}
    p_values, related = _tested(found)
    unrelated = sum(max(one.p_above(-UNRELATED), one.p_below(UNRELATED)) <= LEVEL for one in found.values())
    widest = max(found, key=lambda cell: abs(found[cell].value))
    names = [f"{cell} {found[cell].value:+.2f}" for cell in sorted(related, key=lambda cell: -abs(found[cell].value))]
    return Verdict(
        REFUTED if related else CONFIRMED if unrelated == len(found) else INCONCLUSIVE,
        f"{len(related)} of {len(found)} rank correlations of the change with the number of relevant items differ "
        f"significantly from 0{among(names)}; {unrelated} are shown to be weaker than {UNRELATED}, and the strongest "
        f"is {found[widest].value:+.2f} ({widest}).",
        "rank correlation of the difference with the number of relevant items, strongest",
        *found[widest].measured,
        min(p_values.values()),
        len(found),
        "figure_5_8 figure_5_9",
    )


@decides("T44")
def many_relevant_items_gain_more_under_nrbp(evidence: Evidence) -> Verdict:
    """Decide by whether the gain at higher ratios grows with the relevant items and users with fewest do not lose."""
    every = cells(evidence, ["nRBP"], BOUNDED, several_ratios(evidence)[1:])
    found = {cell: _with_relevant(evidence, cell) for cell in every}
    fewest = {cell: _of_lowest_third(evidence, cell) for cell in every}
    p_values, related = _tested(found)
    growing, shrinking = (sum(sign * found[cell].value > 0 for cell in related) for sign in (1, -1))
    grows = REFUTED if shrinking else CONFIRMED if growing == len(found) else INCONCLUSIVE
    least = min(every, key=lambda cell: found[cell].value)
    lowest = min(fewest.values(), key=lambda one: one.mean)
    return Verdict(
        together(grows, _none_loses(fewest)),
        f"The gain grows significantly with the number of relevant items under {growing} of {len(found)} boundings and "
        f"ratios and falls under {shrinking} (lowest rank correlation {found[least].value:+.2f}); in the third of "
        f"users with the fewest the mean changes by {lowest} to {signed(max(one.mean for one in fewest.values()))} "
        f"(lowest with its 95 % interval {lowest.range}).",
        "rank correlation of the difference with the number of relevant items, lowest",
        *found[least].measured,
        max(p_values.values()),
        len(found),
        "figure_5_10",
    )


def _with_relevant(evidence: Evidence, cell: Cell) -> Correlation:
    return correlation(pair(evidence, cell).differences, _relevant(evidence, cell), SPEARMAN)


def _relevant(evidence: Evidence, cell: Cell) -> Floats:
    """Return the mean number of relevant items in the lists of every topic that both scores have."""
    means = per_unit(values(evidence, "p", cell.loss, cell.column, cell.bounding))
    by_name = dict(zip(scores(evidence, "p", cell.loss, cell.column).units, means, strict=True))
    return np.array([by_name[name] for name in pair(evidence, cell).units])


def _of_lowest_third(evidence: Evidence, cell: Cell) -> Contrast:
    relevant = _relevant(evidence, cell)
    kept = relevant <= np.quantile(relevant, 1 / 3)
    enough(int(kept.sum()), "in the third with the fewest relevant items")
    return contrast(kept_units(pair(evidence, cell), kept))


def _none_loses(groups: Mapping[Cell, Contrast]) -> str:
    """Return refuted if a group lost more than the noise margin, confirmed if no group can have lost as much."""
    p_values = adjusted(
        {cell: one.estimate.p_below(-one.margin if one.margin > 0 else 0.0) for cell, one in groups.items()}
    )
    if min(p_values.values()) <= LEVEL:
        return REFUTED
    return CONFIRMED if all(one.is_no_lower for one in groups.values()) else INCONCLUSIVE


def _tested(found: Mapping[Key, Correlation]) -> tuple[dict[Key, float], list[Key]]:
    """Return the p-values of no correlation, and the keys of the significant ones."""
    p_values = adjusted({key: one.p_value() for key, one in found.items()})
    return p_values, [key for key, p_value in p_values.items() if p_value <= LEVEL]
