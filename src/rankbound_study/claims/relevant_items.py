"""Claims about the topics that bounding improves: with many relevant items or with few (Figures 5.8 to 5.10)."""

from collections.abc import Sequence

import numpy as np

from rankbound.compare import Pair
from rankbound.compare.effects import LEVEL
from rankbound.compare.randomisation import holm
from rankbound.compare.scores import Floats, per_unit
from rankbound_study.claims.cells import Cell, Contrast, cells, contrast, pair, scores
from rankbound_study.claims.correlations import SPEARMAN, Correlation, correlation
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.ratios import several_ratios
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.claims.words import numbered, span
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import BOUNDED

UNRELATED = 0.2
"""Rank correlations below this count as none: they explain less than 4 % of the variance of ranks."""


@decides("T43")
def change_is_unrelated_to_relevant_items(evidence: Evidence) -> Verdict:
    """Decide by whether no difference of nDCG or AP correlates with the number of relevant items by 0.2 or more."""
    found = {cell: _with_relevant(evidence, cell) for cell in cells(evidence, ["nDCG", "AP"])}
    related = _significant(found)
    unrelated = [one for one in found.values() if max(one.p_above(-UNRELATED), one.p_below(UNRELATED)) <= LEVEL]
    widest = max(found, key=lambda cell: abs(found[cell].value))
    low, high = found[widest].interval
    names = [f"{cell} {found[cell].value:+.2f}" for cell in sorted(related, key=lambda cell: -abs(found[cell].value))]
    return Verdict(
        REFUTED if related else CONFIRMED if len(unrelated) == len(found) else INCONCLUSIVE,
        f"{numbered(len(related), len(found))} rank correlations of the change with the number of relevant items "
        f"differ significantly from 0{f' ({span(names)})' if names else ''}; {len(unrelated)} are shown to be weaker "
        f"than {UNRELATED}, and the strongest is {found[widest].value:+.2f} ({widest}).",
        statistic="rank correlation of the difference with the number of relevant items, strongest",
        value=found[widest].value,
        low=low,
        high=high,
        p_value=min(_adjusted(found).values()),
        n=len(found),
        shown_in=("figure_5_8", "figure_5_9"),
    )


@decides("T44")
def many_relevant_items_gain_more_under_nrbp(evidence: Evidence) -> Verdict:
    """Decide by whether the gain at higher ratios grows with the relevant items and users with fewest do not lose."""
    every = cells(evidence, ["nRBP"], BOUNDED, several_ratios(evidence)[1:])
    found = {cell: _with_relevant(evidence, cell) for cell in every}
    fewest = {cell: contrast(_lowest_third(evidence, cell)) for cell in every}
    related = _significant(found)
    growing, shrinking = ([cell for cell in related if sign * found[cell].value > 0] for sign in (1, -1))
    grows = REFUTED if shrinking else CONFIRMED if len(growing) == len(found) else INCONCLUSIVE
    least = min(every, key=lambda cell: found[cell].value)
    lowest = min(fewest.values(), key=lambda one: one.mean)
    low, high = found[least].interval
    return Verdict(
        together(grows, _none_loses(list(fewest.values()))),
        f"The gain grows significantly with the number of relevant items under {numbered(len(growing), len(found))} "
        f"boundings and ratios and falls under {len(shrinking)} (lowest rank correlation {found[least].value:+.2f}); "
        f"in the third of users with the fewest the mean changes by {signed(lowest.mean)} to "
        f"{signed(max(one.mean for one in fewest.values()))} (lowest with its 95 % interval "
        f"{signed(lowest.interval[0])} to {signed(lowest.interval[1])}).",
        statistic="rank correlation of the difference with the number of relevant items, lowest",
        value=found[least].value,
        low=low,
        high=high,
        p_value=max(_adjusted(found).values()),
        n=len(found),
        shown_in=("figure_5_10",),
    )


def _with_relevant(evidence: Evidence, cell: Cell) -> Correlation:
    of = pair(evidence, cell)
    return correlation(of.differences, _relevant(evidence, cell, of), SPEARMAN)


def _relevant(evidence: Evidence, cell: Cell, of: Pair) -> Floats:
    """Return the mean number of relevant items in the lists of every topic of the pair."""
    sizes = scores(evidence, "p", cell.loss, cell.column)
    by_name = dict(zip(sizes.units, per_unit(sizes.values[list(sizes.systems).index(cell.bounding)]), strict=True))
    return np.array([by_name[name] for name in of.units])


def _lowest_third(evidence: Evidence, cell: Cell) -> Pair:
    of = pair(evidence, cell)
    relevant = _relevant(evidence, cell, of)
    kept = relevant <= np.quantile(relevant, 1 / 3)
    if kept.sum() < 2:
        raise MissingEvidence(f"the third with the fewest relevant items has {int(kept.sum())} users; a test takes two")
    names = [name for name, one in zip(of.units, kept, strict=True) if one]
    return Pair(of.a[kept], of.b[kept], names, of.gaps)


def _none_loses(groups: Sequence[Contrast]) -> str:
    """Return refuted if a group lost more than the noise margin, confirmed if no group can have lost as much."""
    p_values = holm([one.estimate.p_below(-one.margin if one.margin > 0 else 0.0) for one in groups])
    if min(p_values) <= LEVEL:
        return REFUTED
    return CONFIRMED if all(one.is_no_lower for one in groups) else INCONCLUSIVE


def _adjusted(found: dict[Cell, Correlation]) -> dict[Cell, float]:
    return dict(zip(found, holm([one.p_value() for one in found.values()]), strict=True))


def _significant(found: dict[Cell, Correlation]) -> list[Cell]:
    return [cell for cell, p_value in _adjusted(found).items() if p_value <= LEVEL]
