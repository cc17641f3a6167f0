"""Claims about ordering faces by their pixels: families of methods, and convolution on centred and moved faces."""

from itertools import pairwise

import numpy as np
import polars as pl

from rankbound.compare import PairedScores, Settings, compare
from rankbound.compare.frames import names_pairs, scores_of_runs
from rankbound.compare.margins import MARGIN
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import (
    CLASSIFICATION,
    PIXELS,
    RANK,
    REGRESSION,
    Gap,
    Methods,
    adjusted,
    deciding,
    gaps,
    listed,
    over,
    read_methods,
    verdict_of,
)
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import MissingEvidence, Verdict
from rankbound_study.results.number_texts import score

SHOWN = "table_neural_2"
CLAIMED_ORDER = (RANK, REGRESSION, CLASSIFICATION)
CONVOLUTION, CONNECTED = "RankCNN", "RankNet"
SHIFTED = "-shifted"
"""Suffix of methods that are trained on moved pictures."""


@decides("N07")
def ranking_beats_regression_beats_classification(evidence: Evidence) -> Verdict:
    """Compare the best methods of the families by validation, neighbours in the claimed order, on the same pairs."""
    methods = read_methods(evidence, PIXELS)
    best = [methods.best(methods.of(family)) for family in CLAIMED_ORDER]
    found = gaps(methods, list(pairwise(best)))
    means = ", ".join(f"{name} {score(methods.mean(name))}" for name in best)
    return Verdict(
        verdict_of([one.side for one in found]),
        f"The best ranker, regression and classifier by validation order these shares of the pairs of {methods.title} "
        f"correctly: {means}; {listed(found)}, {over(found, 'pairs')}; at most {_ties(methods, best):.1%} of the pairs "
        "have equal scores, which count half.",
        statistic="pair accuracy, neighbours in the claimed order",
        shown_in=SHOWN,
        **deciding(found),
    )


@decides("N09")
def convolution_ranks_raw_images_best(evidence: Evidence) -> Verdict:
    """Compare a convolutional ranker with a fully connected one, on the same pairs."""
    methods = read_methods(evidence, PIXELS)
    found = gaps(methods, [(CONVOLUTION, CONNECTED)])
    return Verdict(
        verdict_of([found[0].side]),
        f"On {methods.title} the difference in pair accuracy is {found[0]}, p = {found[0].found.p_adjusted:.4f}, "
        f"{over(found, 'pairs')}.",
        statistic=f"pair accuracy, {CONVOLUTION} minus {CONNECTED}",
        shown_in=SHOWN,
        **deciding(found),
    )


@decides("N12")
def convolution_wins_where_faces_are_not_centred(evidence: Evidence) -> Verdict:
    """Decide by the lead of convolution on moved faces, and by its growth over that on centred faces."""
    moved = read_methods(evidence, PIXELS, shifted=True)
    lead = Gap(
        f"{CONVOLUTION}{SHIFTED}",
        f"{CONNECTED}{SHIFTED}",
        moved.compare(f"{CONVOLUTION}{SHIFTED}", f"{CONNECTED}{SHIFTED}"),
    )
    try:
        centred = read_methods(evidence, PIXELS)
        centred.needs(CONVOLUTION, CONNECTED)
    except MissingEvidence as missing:
        raise MissingEvidence(f"faces as they are, to compare moved ones with: {missing}") from missing
    found = adjusted([lead, _growth(moved, centred)])
    changes = [
        f"{name} orders {score(moved.mean(f'{name}{SHIFTED}'))} instead of {score(centred.mean(name))}"
        for name in (CONVOLUTION, CONNECTED)
    ]
    return Verdict(
        verdict_of([one.side for one in found]),
        f"With every face moved at random by up to a fifth of its side, {' and '.join(changes)} of the pairs of "
        f"{moved.title} correctly; {found[0]}, and this lead differs by {_differs(found[1])} from that on centred "
        f"faces (p = {found[0].found.p_adjusted:.4f} and {found[1].found.p_adjusted:.4f}, {over([lead], 'pairs')}).",
        statistic=f"pair accuracy on moved faces, {CONVOLUTION} minus {CONNECTED}, or its change",
        **deciding(found),
    )


def _growth(moved: Methods, centred: Methods) -> Gap:
    """Compare the lead on moved faces with the lead on centred ones, pair by pair."""
    frame = pl.concat([moved.frame, centred.frame], how="diagonal").filter(pl.col("loss") != "none")
    scores = scores_of_runs(frame, moved.metric, by=("model",), members=names_pairs(frame))
    column = {name: place for place, name in enumerate(scores.systems)}
    leads = [
        scores.matrix[:, column[f"{CONVOLUTION}{ending}"]] - scores.matrix[:, column[f"{CONNECTED}{ending}"]]
        for ending in (SHIFTED, "")
    ]
    names = ("lead on moved faces", "lead on centred faces")
    both = PairedScores.of_matrix(np.stack(leads, 1), names, scores.units, scores.members)
    return Gap(*names, compare(both.pair(*names), Settings(margin=MARGIN)))


def _differs(gap: Gap) -> str:
    return str(gap).removeprefix(f"{gap.name} minus {gap.other} ")


def _ties(methods: Methods, names: list[str]) -> float:
    """Return the largest share of pairs to which one of these methods gives equal scores."""
    half = (pl.col(methods.metric) == 0.5).mean()
    shares = methods.frame.filter(pl.col("model").is_in(names)).group_by("model").agg(half.alias("ties"))
    return float(shares["ties"].to_numpy().max())
