"""Claims of correlations over lists: bounded with unbounded scores, and gains with the number of relevant items."""

from collections.abc import Mapping
from itertools import combinations, product

import numpy as np

from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import Floats, per_unit
from rankbound_study.claims.cells import (
    Cell,
    Contrast,
    cells,
    columns,
    contrast,
    contrasts,
    distinct,
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
from rankbound_study.claims.rules import Key, adjusted, among, by_p, collapsed, together
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
    """Decide by whether Pearson's and Spearman's correlations over lists are strong in every cell without a collapse.

    A collapsed loss ranks differently because its training failed, which is a claim of its own (T26).
    """
    every = pairs(evidence, distinct(cells(evidence)))
    fallen = collapsed({cell: contrast(one) for cell, one in every.items()})
    found = {
        (cell, kind): correlation(one.a, one.b, kind)
        for (cell, one), kind in product(every.items(), (PEARSON, SPEARMAN))
    }
    kept = {key: one for key, one in found.items() if key[0] not in fallen}
    verdict, strong, weak = _all_strong(kept)
    with_all, _, weak_of_all = _all_strong(found)
    least = min(kept or found, key=lambda key: found[key].value)
    seeds = [value for loss in LOSSES for value in _between_seeds(evidence, loss)]
    of_seeds = (
        f"; between two seeds of the unbounded loss, Pearson's is {min(seeds):.2f} to {max(seeds):.2f}" if seeds else ""
    )
    return Verdict(
        verdict,
        f"{len(strong)} of {len(kept)} correlations over lists are significantly above {STRONG} and {len(weak)} below"
        f"{among(sorted({str(cell) for cell, _ in weak}))}; the lowest is {found[least].value:.2f} ({least[1]}'s of "
        f"{least[0]}), without {len(fallen)} distinct cells that collapse, with which {len(weak_of_all)} are below and "
        f"the verdict would be {with_all}{of_seeds}.",
        "correlation over lists, lowest without collapsed cells",
        *found[least].measured,
        n=len(kept),
        shown_in=_SCATTERS,
    )


CellAndKind = tuple[Cell, str]


def _all_strong(
    found: Mapping[CellAndKind, Correlation],
) -> tuple[str, list[CellAndKind], list[CellAndKind]]:
    """Return the verdict that all correlations are strong, and the keys of those significantly above and below."""
    above = adjusted({key: one.p_above(STRONG) for key, one in found.items()})
    below = adjusted({key: one.p_below(STRONG) for key, one in found.items()})
    strong, weak = ([key for key in found if p_values[key] <= LEVEL] for p_values in (above, below))
    return (REFUTED if weak else CONFIRMED if found and len(strong) == len(found) else INCONCLUSIVE), strong, weak


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
    """Decide by whether all rank correlations of nDCG's and AP's change with P are shown to be within 0.2 of zero.

    Refuted by one that is shown to be beyond. Collapsed losses are left out: what they lose depends on the list.
    """
    found = {cell: _with_relevant(evidence, cell) for cell in cells(evidence, ["nDCG", "AP"])}
    fallen = collapsed(contrasts(evidence, found))
    kept = {cell: one for cell, one in found.items() if cell not in fallen}
    verdict, related, p_value = _all_unrelated(kept)
    with_all, related_of_all, _ = _all_unrelated(found)
    unrelated = sum(_p_unrelated(one) <= LEVEL for one in kept.values())
    widest = max(kept or found, key=lambda cell: abs(found[cell].value))
    names = [f"{cell} {found[cell].value:+.2f}" for cell in sorted(related, key=lambda cell: -abs(found[cell].value))]
    return Verdict(
        verdict,
        f"{unrelated} of {len(kept)} rank correlations of the change with the number of relevant items are shown to be "
        f"weaker than {UNRELATED} and {len(related)} to be stronger{among(names)}; the strongest is "
        f"{found[widest].value:+.2f} ({widest}), without {len(fallen)} cells that collapse, with which "
        f"{len(related_of_all)} are stronger and the verdict would be {with_all}.",
        "rank correlation of the difference with the number of relevant items, strongest without collapsed cells",
        *found[widest].measured,
        p_value,
        len(kept),
        "figure_5_8 figure_5_9",
    )


def _all_unrelated(found: Mapping[Cell, Correlation]) -> tuple[str, list[Cell], float]:
    """Return the verdict that all correlations are weak, the cells of strong ones, and the p-value of the former."""
    beyond = adjusted({cell: 2 * min(one.p_above(UNRELATED), one.p_below(-UNRELATED)) for cell, one in found.items()})
    related = [cell for cell, p_value in beyond.items() if p_value <= LEVEL]
    p_value = max((_p_unrelated(one) for one in found.values()), default=1.0)
    return by_p(p_value, min(beyond.values(), default=1.0)), related, p_value


def _p_unrelated(one: Correlation) -> float:
    """Return the p-value of a correlation within the limit on both sides (two one-sided tests)."""
    return max(one.p_above(-UNRELATED), one.p_below(UNRELATED))


@decides("T44")
def many_relevant_items_gain_more_under_nrbp(evidence: Evidence) -> Verdict:
    """Decide by whether the gain at higher ratios grows with the relevant items and users with fewest do not lose."""
    every = distinct(cells(evidence, ["nRBP"], BOUNDED, several_ratios(evidence)[1:]))
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
