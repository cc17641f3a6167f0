"""The claims, and the functions that decide them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files

import polars as pl

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.verdict import NOT_RUN, MissingEvidence, Verdict

SUBJECTS: tuple[str, ...] = (
    "floors",
    "expectations",
    "bounded_ends",
    "random_order_scores",
    "definitions",
    "pair_models",
    "linear_ndcg",
    "web_queries",
    "faces",
    "face_features",
    "face_ages",
    "face_weights",
    "networks",
    "mean_scores",
    "equal_boundings",
    "cut_offs",
    "persistence",
    "ratios",
    "data_sets",
    "score_distributions",
    "agreement",
    "relevant_items",
    "capacity",
    "optimiser",
    "vanishing",
    "crossed",
    "one_relevant",
    "warp",
    "tilted",
)
"""The modules of this package that decide claims."""

Decider = Callable[[Evidence], Verdict]
_DECIDERS: dict[str, Decider] = {}


@dataclass(frozen=True)
class Claim:
    """One claim of a seed, as `reference/claims.csv` has it."""

    id: str
    source: str
    claim: str
    kind: str
    datasets: str
    how_to_test: str
    printed_evidence: str


def claims() -> list[Claim]:
    """All claims, in the order of their sources."""
    table = pl.read_csv(files("rankbound_study.reference").joinpath("claims.csv").read_bytes(), infer_schema=False)
    return [Claim(**row) for row in table.fill_null("").iter_rows(named=True)]


def decides(claim: str) -> Callable[[Decider], Decider]:
    """Mark the function that decides a claim."""

    def register(decider: Decider) -> Decider:
        if claim in _DECIDERS:
            raise ValueError(f"two functions decide {claim}: {_DECIDERS[claim].__name__} and {decider.__name__}")
        _DECIDERS[claim] = decider
        return decider

    return register


def deciders() -> dict[str, Decider]:
    """The function of every claim that has one."""
    for subject in SUBJECTS:
        import_module(f"rankbound_study.claims.{subject}")
    return dict(_DECIDERS)


def decide(evidence: Evidence) -> Iterator[tuple[Claim, Verdict]]:
    """Every claim with its verdict."""
    known = deciders()
    for claim in claims():
        try:
            yield claim, known.get(claim.id, _undecided)(evidence)
        except MissingEvidence as missing:
            yield claim, Verdict(NOT_RUN, str(missing))


def _undecided(evidence: Evidence) -> Verdict:
    raise MissingEvidence("no experiment of this study decides it yet")
