"""Claims about losses beside those that the thesis bounds: WARP's weights, and softmax with one relevant item."""

from itertools import product

import polars as pl
import torch

from rankbound.compare.margins import MARGIN
from rankbound.compare.statistics import Estimate
from rankbound.losses.sampled import warp_penalty, warp_rank
from rankbound_study.claims.cells import MOVIELENS, MQ2008, Contrast, contrast
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import Family, adjusted, by_p, together
from rankbound_study.claims.sample_sizes import Sample
from rankbound_study.claims.varied import column_of, columns_of, pair_in, picked_by_validation, picked_rows
from rankbound_study.claims.verdict import MissingEvidence, Verdict, holds
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import UNBOUNDED

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
    lists = [scores for size in range(1, _LONGEST + 1) for scores in product(_VALUES, repeat=size)]
    cases = [_is_error_of_the_top(scores, true) for scores in lists for true in range(len(scores))]
    ran = [columns[0] for dataset in (MQ2008, MOVIELENS) if (columns := columns_of(evidence, "warp", dataset))]
    if not ran:
        raise MissingEvidence("the experiment warp did not run: see experiments in config.yaml")
    precision, ap = ({column: _spread(evidence, column, metric) for column in ran} for metric in (PRECISION, "AP"))
    family = Family.of(precision)
    least = precision[family.least()]
    texts = [
        f"{one} in precision at 10 ({one.range}) and {ap[at]} in average precision on {at}"
        for at, one in precision.items()
    ]
    return Verdict(
        together(holds(all(cases)), family.tend_higher()),
        f"In {sum(cases)} of {len(cases)} short lists the penalty with all weight on rank 1 is the top-1 error; on "
        f"lists of more than {PLACES} items ten equal weights instead of one change the score by {'; '.join(texts)}.",
        "mean precision at ten, ten places minus one, least",
        *least.measured,
        family.worst_p(),
        least.n,
        sample=Sample.of(least, least.margin if least.margin > 0 else MARGIN),
    )


def _is_error_of_the_top(scores: tuple[float, ...], true: int) -> bool:
    """Check that the penalty is 1 if another label is at the top or ties with the true one, else 0."""
    error = any(score >= scores[true] for place, score in enumerate(scores) if place != true)
    rank = warp_rank(torch.tensor(scores), true)
    return float(warp_penalty(rank, "constant", 1)) == float(warp_penalty(rank, torch.tensor([1.0]))) == float(error)


def _spread(evidence: Evidence, column: DataSet, metric: str) -> Contrast:
    """Return ten weights minus one, on lists with more than ten items."""
    lazy = next(iter(evidence.varied("warp", column.dataset, column.nsr).values()))
    rows = lazy.filter(pl.col("n") > PLACES, pl.col("p") > 0).select(*KEY, metric).collect()
    where = f"on lists of {column} longer than {PLACES}"
    return contrast(pair_in(rows, metric, "loss", (SPREAD, FIRST), where))


@decides("M04")
def softmax_ranks_one_relevant_item_no_worse(evidence: Evidence) -> Verdict:
    """Decide by whether its reciprocal rank is at most 0.01 below that of every other loss, at rates by validation."""
    column = column_of(evidence, "one-relevant")
    found = _softmax_minus_others(evidence, column)
    not_worse, worse = (
        adjusted({loss: test(one.estimate, -MARGIN) for loss, one in found.items()}).values()
        for test in (Estimate.p_above, Estimate.p_below)
    )
    lowest = min(found, key=lambda loss: found[loss].mean)
    low, high = map(signed, found[lowest].interval)
    return Verdict(
        by_p(max(not_worse), min(worse)),
        f"With one relevant item in each test list of {column}, the mean reciprocal rank of the softmax loss minus "
        f"that of each other loss is {', '.join(f'{loss} {one}' for loss, one in found.items())}; lowest against "
        f"{lowest}, with a 95 % interval from {low} to {high}, where up to {MARGIN} less counts as no worse.",
        "mean reciprocal rank, softmax minus another loss, lowest",
        *found[lowest].measured,
        max(not_worse),
        found[lowest].n,
        sample=Sample.of(found[lowest], MARGIN),
    )


def _softmax_minus_others(evidence: Evidence, column: DataSet) -> dict[str, Contrast]:
    lazy = evidence.varied("one-relevant", column.dataset, column.nsr)
    rows = {name: one.select(*KEY, "RR").collect() for name, one in lazy.items()}
    picked = picked_by_validation(evidence, "one-relevant", column, "RR")
    others = [loss for loss, bounding in sorted(picked) if loss != "softmax" and bounding == UNBOUNDED]
    if ("softmax", UNBOUNDED) not in picked or not others:
        raise MissingEvidence("the experiment one-relevant has no softmax loss beside others: see config.yaml")
    best = picked_rows(rows, picked)
    where = f"of {column} with one relevant item"
    return {loss: contrast(pair_in(best, "RR", "loss", ("softmax", loss), where)) for loss in others}
