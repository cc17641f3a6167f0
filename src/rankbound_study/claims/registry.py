"""The claims, and the functions that decide them; a function is known by lying in a module of this package."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules

import polars as pl

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.verdict import NOT_RUN, MissingEvidence, Verdict

Decider = Callable[[Evidence], Verdict]
_DECIDERS: dict[str, Decider] = {}


@dataclass(frozen=True)
class Claim:
    """A claim of a source: a row of `reference/claims.csv`."""

    id: str
    source: str
    claim: str
    kind: str
    datasets: str
    how_to_test: str
    printed_evidence: str


def claims() -> list[Claim]:
    """Return all claims, in the order of their sources."""
    table = pl.read_csv(files("rankbound_study.reference").joinpath("claims.csv").read_bytes(), infer_schema=False)
    return [Claim(**row) for row in table.fill_null("").iter_rows(named=True)]


def decides(claim: str) -> Callable[[Decider], Decider]:
    """Register the decorated function as the one that decides a claim."""

    def register(decider: Decider) -> Decider:
        if claim in _DECIDERS:
            raise ValueError(f"two functions decide {claim}: {_DECIDERS[claim].__name__} and {decider.__name__}")
        _DECIDERS[claim] = decider
        return decider

    return register


def deciders() -> dict[str, Decider]:
    """Import all modules of this package and return the function of every claim that has one."""
    package = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
    return dict(_DECIDERS)


def decide(evidence: Evidence) -> Iterator[tuple[Claim, Verdict]]:
    """Yield every claim with its verdict."""
    known = deciders()
    for claim in claims():
        try:
            yield claim, known.get(claim.id, _undecided)(evidence)
        except MissingEvidence as missing:
            yield claim, Verdict(NOT_RUN, str(missing))


def _undecided(evidence: Evidence) -> Verdict:
    raise MissingEvidence("no function decides this claim")
