"""Claims that are declared: the differences that decide them, the rule, and a sentence for the reason."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic

from rankbound.compare.margins import MARGIN
from rankbound_study.claims.cells import Cell, Contrast, cells, columns, contrasts, distinct
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.rules import Family, Key, no_noise
from rankbound_study.claims.sample_sizes import Sample
from rankbound_study.claims.verdict import INCONCLUSIVE, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.vocabulary import BOUNDED, LOSSES


@dataclass(frozen=True)
class Differences(Generic[Key]):
    """A claim about differences, all of which are tested as one family.

    Attributes:
        of: finds the differences in a study's results.
        rule: gives the verdict on the family.
        reason: a sentence; names in braces are `Family.facts`, and those of `facts`.
        statistic: the meaning of the deciding difference, with the same names.
        deciding: picks that difference.
        p_value: the p-value that decides.
        of_topics: the verdict's number of units is that of topics instead of differences.
        takes_noise: without a noise margin, nothing is decided.
        facts: further facts that the sentence names.
        shown_in: names of the tables and figures that show it.
        matters: the smallest difference that matters; NaN: the noise margin, or 0.01 if it is unknown.
    """

    of: Callable[[Evidence], Mapping[Key, Contrast]]
    rule: Callable[[Family[Key]], str]
    reason: str
    statistic: str
    deciding: Callable[[Family[Key]], Key]
    p_value: Callable[[Family[Key], Key], float] = Family.worst_p
    of_topics: bool = False
    takes_noise: bool = False
    facts: Callable[[Evidence, Family[Key]], Mapping[str, object]] = lambda evidence, family: {}
    shown_in: str = ""
    matters: float = math.nan

    def __call__(self, evidence: Evidence) -> Verdict:
        """Decide the claim."""
        family = Family.of(self.of(evidence))
        if self.takes_noise and (missing := no_noise(family.contrasts.values())):
            return Verdict(INCONCLUSIVE, missing, n=len(family))
        key = self.deciding(family)
        decisive = family.contrasts[key]
        facts = {**family.facts(), "at_deciding": key, **self.facts(evidence, family)}
        return Verdict(
            self.rule(family),
            self.reason.format_map(facts),
            self.statistic.format_map(facts),
            *decisive.measured,
            self.p_value(family, key),
            decisive.n if self.of_topics else len(family),
            self.shown_in,
            Sample.of(decisive, self._matters(decisive)),
        )

    def _matters(self, decisive: Contrast) -> float:
        if not math.isnan(self.matters):
            return self.matters
        return decisive.margin if decisive.margin > 0 else MARGIN


def of_cells(
    losses: Iterable[str] = LOSSES,
    boundings: Iterable[str] = BOUNDED,
    datasets: Iterable[str] = (),
    metrics: Iterable[str] = (),
) -> Callable[[Evidence], Mapping[Cell, Contrast]]:
    """Return a function that finds bounded minus unbounded in the distinct cells of these axes (default: Table 5.1)."""

    def find(evidence: Evidence) -> Mapping[Cell, Contrast]:
        where: tuple[DataSet, ...] = columns(evidence, *datasets)
        return contrasts(evidence, distinct(cells(evidence, losses, boundings, where, metrics)))

    return find
