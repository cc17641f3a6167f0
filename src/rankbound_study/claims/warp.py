"""Claims about WARP: the meaning of its weights on the first ranks."""

from itertools import product

import polars as pl
import torch

from rankbound.compare.frames import scores_of_runs
from rankbound.losses.warp import warp_penalty, warp_rank
from rankbound_study.claims.cells import MQ2008, Column, Contrast, contrast
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import Family, together
from rankbound_study.claims.varied import column_of
from rankbound_study.claims.verdict import MissingEvidence, Verdict, holds
from rankbound_study.results.number_texts import signed

EXPERIMENT = "warp"
FIRST, SPREAD = "WARP(alpha=constant)@1", "WARP(alpha=constant)@10"
"""All weight on rank 1; equal weights on ranks 1 to 10."""

PLACES = 10
PRECISION = f"P@{PLACES}"

_LONGEST = 4
_VALUES = (0.0, 1.0, 2.0)
"""Scores of the enumerated lists: with ties, in every order."""


@decides("M03")
def weights_on_k_places_serve_precision_at_k(evidence: Evidence) -> Verdict:
    """Decide by whether one weight gives the top-1 error in all short lists and ten weights raise precision at 10."""
    cases = [_is_error_of_the_top(scores, true) for scores, true in _short_lists()]
    found = {
        column: {metric: _difference(evidence, column, metric) for metric in (PRECISION, "AP")}
        for column in _columns(evidence)
    }
    family = Family.of({column: of[PRECISION] for column, of in found.items()})
    least, _ = family.extremes
    low, high = family.contrasts[least].interval
    texts = [
        f"{signed(of[PRECISION].mean)} in precision at 10 ({signed(of[PRECISION].interval[0])} to "
        f"{signed(of[PRECISION].interval[1])}) and {signed(of['AP'].mean)} in average precision on {column}"
        for column, of in found.items()
    ]
    return Verdict(
        together(holds(all(cases)), family.tend_higher()),
        f"In {sum(cases)} of {len(cases)} short lists the penalty with all weight on rank 1 is the top-1 error; on "
        f"lists of more than {PLACES} items ten equal weights instead of one change the score by {'; '.join(texts)}.",
        statistic="mean precision at ten, ten places minus one, least",
        value=family.contrasts[least].mean,
        low=low,
        high=high,
        p_value=family.worst_p,
        n=family.contrasts[least].n,
    )


def _short_lists() -> list[tuple[tuple[float, ...], int]]:
    return [
        (scores, true)
        for size in range(1, _LONGEST + 1)
        for scores in product(_VALUES, repeat=size)
        for true in range(size)
    ]


def _is_error_of_the_top(scores: tuple[float, ...], true: int) -> bool:
    """Check that the penalty is 1 if another label is at the top or ties with the true one, else 0."""
    error = any(score >= scores[true] for place, score in enumerate(scores) if place != true)
    rank = warp_rank(torch.tensor(scores), true)
    return float(warp_penalty(rank, "constant", 1)) == float(warp_penalty(rank, torch.tensor([1.0]))) == float(error)


def _columns(evidence: Evidence) -> list[Column]:
    """Return the columns on which the experiment ran."""
    found: list[Column] = []
    missing: list[MissingEvidence] = []
    for where in (_on_queries, _on_ratings):
        try:
            found.append(where(evidence))
        except MissingEvidence as error:
            missing.append(error)
    if not found:
        raise missing[0]
    return found


def _on_queries(evidence: Evidence) -> Column:
    evidence.varied(EXPERIMENT, MQ2008)
    return Column(MQ2008, None)


def _on_ratings(evidence: Evidence) -> Column:
    return column_of(evidence, EXPERIMENT)


def _difference(evidence: Evidence, column: Column, metric: str) -> Contrast:
    """Return ten weights minus one, on lists with more than ten items."""
    lazy = next(iter(evidence.varied(EXPERIMENT, column.dataset, column.nsr).values()))
    rows = lazy.filter(pl.col("n") > PLACES, pl.col("p") > 0).select(*KEY, metric).collect()
    if not {FIRST, SPREAD} <= set(rows["loss"]):
        raise MissingEvidence(f"{EXPERIMENT} lacks {FIRST} or {SPREAD} on {column}, or lists longer than {PLACES}")
    found = scores_of_runs(rows, metric, by=("loss",))
    both = found.pair(SPREAD, FIRST)
    if len(both.units) < 2:
        raise MissingEvidence(f"{column} has {len(both.units)} topics with a score; a test takes two")
    return contrast(both)
