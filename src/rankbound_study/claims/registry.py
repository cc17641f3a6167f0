"""The claims, and what decides each: a declaration or a function, known by lying in a module of this package."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules

import polars as pl

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.rules import among
from rankbound_study.claims.verdict import (
    INCONCLUSIVE,
    NOT_RUN,
    NOT_TESTABLE,
    MissingEvidence,
    Untrained,
    Verdict,
)

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
