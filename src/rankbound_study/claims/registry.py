"""The claims, and what decides each: a declaration or a function, known by lying in a module of this package."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules
from typing import Generic

import polars as pl

from rankbound.compare.margins import MARGIN
from rankbound_study.claims.cells import Cell, Contrast, cells, columns, contrasts, distinct
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.rules import Family, Key, Sample, among, no_noise, sample_of_most
from rankbound_study.claims.verdict import INCONCLUSIVE, NOT_RUN, NOT_TESTABLE, MissingEvidence, Untrained, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.vocabulary import BOUNDED, LOSSES

Decider = Callable[[Evidence], Verdict]
_DECIDERS: dict[str, Decider] = {}


@dataclass(frozen=True)
class Claim:
    """A claim of a source: a row of `reference/claims.csv`, whose order and groups are those of every table."""

    id: str
    group: str
    source: str
    claim: str
    kind: str
    datasets: str
    how_to_test: str
    printed_evidence: str


def claims() -> list[Claim]:
    """Return all claims by weight: those that decide the main question first, definitions and examples last."""
    table = pl.read_csv(files("rankbound_study.reference").joinpath("claims.csv").read_bytes(), infer_schema=False)
    return [Claim(**row) for row in table.fill_null("").iter_rows(named=True)]


def decides(claim: str) -> Callable[[Decider], Decider]:
    """Register the decorated function as the one that decides a claim."""

    def register(decider: Decider) -> Decider:
        if claim in _DECIDERS:
            raise ValueError(f"{claim} is decided twice: by {_DECIDERS[claim]} and by {decider}")
        _DECIDERS[claim] = decider
        return decider

    return register


@cache
def deciders() -> Mapping[str, Decider]:
    """Import all modules of this package; return the function of every claim, or its declaration (`DECLARED`)."""
    package = __name__.rpartition(".")[0]
    for found in iter_modules(import_module(package).__path__):
        for claim, declared in getattr(import_module(f"{package}.{found.name}"), "DECLARED", {}).items():
            decides(claim)(declared)
    return _DECIDERS


def decide(evidence: Evidence) -> Iterator[tuple[Claim, Verdict]]:
    """Yield every claim with its verdict."""
    for claim in claims():
        try:
            yield claim, verdict_on(claim.id, evidence)
        except Untrained as untrained:
            yield claim, Verdict(INCONCLUSIVE, f"{untrained}.")
        except MissingEvidence as missing:
            yield claim, Verdict(NOT_RUN, str(missing))


def verdict_on(claim: str, evidence: Evidence) -> Verdict:
    """Decide one claim; the reason counts the cells that are left out because they did not train.

    Raises:
        MissingEvidence: the results cannot decide it.
        Untrained: they cannot, because models did not train: their runs would decide it.
    """
    decider = deciders().get(claim)
    if decider is None:
        raise MissingEvidence("no function decides this claim")
    evidence.left_out.clear()
    try:
        verdict = decider(evidence)
    except Untrained:
        raise
    except MissingEvidence as missing:
        _require_trained(decider, evidence, missing)
        raise
    if verdict.verdict == NOT_TESTABLE:
        _require_trained(decider, evidence)
    if not evidence.left_out:
        return verdict
    count, names = len(evidence.left_out), among(sorted(evidence.left_out))
    of_cells = "cell is left out because it" if count == 1 else "cells are left out because they"
    return replace(verdict, reason=f"{verdict.reason} {count} {of_cells} did not train{names}.")


def _require_trained(decider: Decider, evidence: Evidence, missing: MissingEvidence | None = None) -> None:
    """Raise Untrained for a claim that the runs of models that did not train would decide."""
    names = sorted(evidence.left_out) or evidence.untrained()
    if names and _is_decided(decider, evidence.of_all_trainings()):
        raise Untrained(f"The models that would decide it did not train{among(names)}") from missing


def _is_decided(decider: Decider, evidence: Evidence) -> bool:
    try:
        return decider(evidence).verdict != NOT_TESTABLE
    except MissingEvidence:
        return False


@dataclass(frozen=True)
class Differences(Generic[Key]):
    """A claim about differences, all of which are tested as one family.

    Attributes:
        of: finds the differences in a study's results.
        rule: gives the verdict on the family.
        reason: a sentence; names in braces are `Family.facts`, and those of `facts`.
        statistic: the meaning of the deciding difference, with the same names.
        deciding: picks that difference; None for a claim about most of them, of which `share` counts those that hold.
        p_value: the p-value that decides.
        of_topics: the verdict's number of units is that of topics instead of differences.
        takes_noise: without a noise margin, nothing is decided.
        facts: further facts that the sentence names.
        shown_in: names of the tables and figures that show it.
        matters: the smallest difference that matters; NaN: the noise margin, or 0.01 if it is unknown.
        share: the number of differences that hold, whose share is the verdict's value if no single one decides.
    """

    of: Callable[[Evidence], Mapping[Key, Contrast]]
    rule: Callable[[Family[Key]], str]
    reason: str
    statistic: str
    deciding: Callable[[Family[Key]], Key] | None
    p_value: Callable[[Family[Key], Key], float] = Family.worst_p
    of_topics: bool = False
    takes_noise: bool = False
    facts: Callable[[Evidence, Family[Key]], Mapping[str, object]] = lambda evidence, family: {}
    shown_in: str = ""
    matters: float = math.nan
    share: Callable[[Family[Key]], int] = lambda family: len(family.higher)

    def __call__(self, evidence: Evidence) -> Verdict:
        """Decide the claim."""
        family = Family.of(self.of(evidence))
        if self.takes_noise and (missing := no_noise(family.contrasts.values())):
            return Verdict(INCONCLUSIVE, missing, n=len(family))
        facts = {**family.facts(), **self.facts(evidence, family)}
        if self.deciding is None:
            return Verdict(
                self.rule(family),
                self.reason.format_map(facts),
                self.statistic,
                self.share(family) / len(family),
                n=len(family),
                shown_in=self.shown_in,
                sample=sample_of_most(family.contrasts, self.matters),
            )
        key = self.deciding(family)
        decisive = family.contrasts[key]
        facts |= {"at_deciding": key}
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
