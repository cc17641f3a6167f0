"""Claims about faces: families of methods, convolution, pixels and features of VGG16, pairs and labels, ages."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl

from rankbound.compare import PairedScores
from rankbound.compare.comparison import LEVEL
from rankbound.compare.scores import Floats, Mask
from rankbound.compare.statistics import Estimate, over_members
from rankbound_study.claims.cells import OF_SHARES
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import (
    CLASSIFICATION,
    FEATURES,
    PIXELS,
    RANK,
    REGRESSION,
    Gap,
    GapFamily,
    Methods,
    compared,
    difference_text,
)
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import (
    CONFIRMED,
    NOT_TESTABLE,
    REFUTED,
    MissingEvidence,
    Ruling,
    Untrained,
    Verdict,
    each_way,
)
from rankbound_study.data.images import read_faces
from rankbound_study.results.neural_pairs import GAPS, coefficients, explained, read_pairs
from rankbound_study.results.neural_runs import CONTROL, FAMILIES
from rankbound_study.results.scores import names_pairs, scores_of_runs
from rankbound_study.results.study_files import score

CLAIMED_ORDER = (RANK, REGRESSION, CLASSIFICATION)
CONVOLUTION, CONNECTED = "RankCNN", "RankNet"
SHIFTED = "-shifted"  # suffix of methods that are trained on moved pictures
OF_FEATURES = " on features"
ON_PAIRS, ON_LABELS = "Rank-LR", "Class-LR"
NOT_MUCH = 0.1  # "not by much", in shares of pairs: the largest printed gain is 0.06
A_LOT = 0.05  # "a lot", in shares of pairs; 0.32 is printed
HALF_WIDTH, HALF_HEIGHT = 0.35, 0.45  # half axes of the face's ellipse in a picture, as shares of its sides
CLEARER = 0.01  # smallest difference in the share of the weights' energy that counts
PRINTED_R_SQUARED = 0.28  # the share of variance that the best age regression explains (Li and Wu section 5)
CLOSE = 0.05  # largest difference from it that counts as the same


@decides("N07")
def ranking_beats_regression_beats_classification(evidence: Evidence) -> Ruling:
    """Compare the best methods of the families by validation, neighbours in the claimed order, on the same pairs."""
    methods = Methods(evidence, PIXELS)
    best = [methods.best(methods.of(family)) for family in CLAIMED_ORDER]
    means = ", ".join(f"{name} {score(methods.mean(name))}" for name in best)
    half = (pl.col(methods.metric) == 0.5).mean()
    ties = methods.frame.filter(pl.col("model").is_in(best)).group_by("model").agg(half.alias("ties"))["ties"]
    found = GapFamily.between(methods, pairwise(best))
    return found.decided("pairs", title=methods.title, means=means, ties=float(ties.to_numpy().max()))


@decides("N09")
def convolution_ranks_raw_images_best(evidence: Evidence) -> Ruling:
    """Compare a convolutional ranker with every other ranker that sees all pixels, on the same pairs.

    Confirmed if it beats all of them, refuted if it loses to one, or is shown to be alike.
    """
    methods = Methods(evidence, PIXELS, width=_width(evidence))
    methods.needs(CONVOLUTION)
    others = [name for name in methods.of(RANK) if name != CONVOLUTION]
    if not others:
        raise MissingEvidence(f"no ranker beside {CONVOLUTION} on {methods.title}: see comparisons in config.yaml")
    found = GapFamily.between(methods, [(CONVOLUTION, other) for other in others])
    return found.decided("pairs", title=methods.title, convolution=CONVOLUTION)


@decides("N12")
def convolution_wins_where_faces_are_not_centred(evidence: Evidence) -> Ruling:
    """Decide by the lead of convolution on moved faces, and by its growth over that on centred faces, pair by pair."""
    names, moved_names = (CONVOLUTION, CONNECTED), (f"{CONVOLUTION}{SHIFTED}", f"{CONNECTED}{SHIFTED}")
    moved = Methods(evidence, PIXELS, shifted=True)
    lead = Gap(*moved_names, moved.compare(*moved_names))
    try:
        centred = Methods(evidence, PIXELS)
        centred.needs(*names)
    except MissingEvidence as missing:
        raise MissingEvidence(f"faces as they are, to compare moved ones with: {missing}") from missing
    scores = _on_the_same_pairs(moved.frame, centred.frame, moved.metric)
    of = dict(zip(scores.systems, scores.matrix.T, strict=True))
    leads = np.stack([of[one] - of[other] for one, other in (moved_names, names)], 1)
    on = ("lead on moved faces", "lead on centred faces")
    both = PairedScores.of_matrix(leads, on, scores.units, scores.members)
    found = GapFamily.of([lead, Gap(*on, compared(replace(both.pair(*on), metric=moved.metric)))])
    changes = " and ".join(
        f"{name} orders {score(moved.mean(f'{name}{SHIFTED}'))} instead of {score(centred.mean(name))}"
        for name in names
    )
    facts = {"title": moved.title, "changes": changes, "growth": difference_text(found.each[1].found)}
    return found.decided("pairs", convolution=CONVOLUTION, connected=CONNECTED, **facts)


def _on_the_same_pairs(one: pl.DataFrame, other: pl.DataFrame, metric: str) -> PairedScores:
    """Return the scores of trained methods of two data sets on the same pairs."""
    frame = pl.concat([one.drop("dataset"), other.drop("dataset")], how="diagonal").filter(pl.col("loss") != "none")
    return scores_of_runs(frame, metric, by=("model",), members=names_pairs(frame))


@decides("N08")
def pretrained_features_improve_every_method_a_little(evidence: Evidence) -> Ruling | Verdict:
    """Compare each method on VGG16's features with the same method on pixels, on the same pairs.

    Refuted, too, if a gain is significantly above the limit; inconclusive if one may be.
    """
    try:
        features = Methods(evidence, FEATURES)
    except Untrained:
        raise
    except MissingEvidence:
        reason = "The published weights of VGG16 are not available here, so no method has run on its features."
        return Verdict(NOT_TESTABLE, reason)
    pixels = Methods(evidence, PIXELS)
    shared = [name for name in features.families if name in pixels.families and features.families[name] != CONTROL]
    if not shared:
        raise MissingEvidence("no method on both pixels and features of VGG16")
    renamed = features.frame.with_columns(pl.col("model") + OF_FEATURES)
    scores = _on_the_same_pairs(pixels.frame, renamed, pixels.metric)
    pairs = [(f"{name}{OF_FEATURES}", name) for name in sorted(shared)]
    found = GapFamily.of([Gap(*pair, compared(scores.pair(*pair))) for pair in pairs])
    gained = ", ".join(f"{one.other} {difference_text(one.found)}" for one in found.each)
    confirmed = found.verdict == CONFIRMED and all(one.found.high <= NOT_MUCH for one in found.each)
    refuted = found.verdict == REFUTED or any(one.found.low > NOT_MUCH for one in found.each)
    return found.decided("pairs", each_way(confirmed, refuted), title=features.title, gained=gained)


@decides("N10")
def networks_lead_on_pixels_and_hardly_on_features(evidence: Evidence) -> Ruling:
    """Compare each family's best network with its best other model, both by validation.

    "Hardly" on features is refuted where a lead there is significantly above the margin.
    """
    pixels = Methods(evidence, PIXELS, width=_width(evidence))
    of_pixels = _leads(pixels)
    verdict = of_pixels.verdict
    try:
        of_features = _leads(Methods(evidence, FEATURES))
    except Untrained:
        on_features = "the features of VGG16 no method trained"
    except MissingEvidence:
        on_features = "the features of VGG16 none could be trained, as its published weights are not available here"
    else:
        on_features = f"features of VGG16 their leads are {of_features}"
        if any(one.found.low > OF_SHARES for one in of_features.each):
            verdict = REFUTED
    return of_pixels.decided("pairs", verdict, title=pixels.title, on_features=on_features)


def _leads(methods: Methods) -> GapFamily:
    kinds = [[methods.of(family, network=network) for network in (True, False)] for family in FAMILIES]
    pairs = [(methods.best(networks), methods.best(others)) for networks, others in kinds if networks and others]
    if not pairs:
        raise MissingEvidence(f"no network beside another model of its family on {methods.title}")
    return GapFamily.between(methods, pairs)


def _width(evidence: Evidence) -> int | None:
    """Return the number of values of a picture; None without pictures."""
    if evidence.images is None:
        return None
    channels, height, width = read_faces(evidence.images).shape
    return channels * height * width


@decides("N11")
def pairs_teach_logistic_regression_more_and_clearer(evidence: Evidence) -> Ruling:
    """Compare logistic regression on pairs with that on single labels, and their weights inside the face.

    Refuted by a gain significantly below the limit; confirmed by one significantly above it with clearer weights.
    """
    methods = Methods(evidence, PIXELS)
    gain = GapFamily.between(methods, [(ON_PAIRS, ON_LABELS)], A_LOT)
    on_pairs, on_labels = (_energy_inside(evidence, methods, name) for name in (ON_PAIRS, ON_LABELS))
    clearer, energy = False, "there are no weights in which to look for a face"
    if evidence.images is not None and on_pairs is not None and on_labels is not None:
        clearer = on_pairs > on_labels + CLEARER
        pixels = face_mask(*read_faces(evidence.images).shape[1:]).mean()
        energy = (
            f"{on_pairs:.1%} of the squares of its weights lie in the ellipse of the face, {on_labels:.1%} with single "
            f"labels, and {pixels:.1%} of the pixels"
        )
    lead = gain.each[0].found
    verdict = each_way(lead.low > A_LOT and clearer, lead.high < A_LOT)
    names = {"on_pairs": ON_PAIRS, "on_labels": ON_LABELS, "a_lot": A_LOT}
    return gain.decided("pairs", verdict, title=methods.title, energy=energy, **names)


def face_mask(height: int, width: int) -> Mask:
    """Return the mask `(height, width)` of the pixels whose centre lies in the ellipse."""
    down, right = ((np.arange(count) + 0.5) / count - 0.5 for count in (height, width))
    inside: Mask = (down[:, None] / HALF_HEIGHT) ** 2 + (right / HALF_WIDTH) ** 2 <= 1
    return inside


def energy_inside(weights: Floats, mask: Mask) -> float | None:
    """Return the mask's share of the sum of squares of `weights` `(3, height, width)`; None if all are zero."""
    squares = (weights**2).sum(0)
    return float(squares[mask].sum() / squares.sum()) if squares.any() else None


def _energy_inside(evidence: Evidence, methods: Methods, name: str) -> float | None:
    """Return the share of a method's weights; None without weights or pictures."""
    files = [path for path in evidence.weights if path.parts[-4] == methods.dataset and path.parts[-3] == name]
    if evidence.images is None or not files:
        return None
    shape = read_faces(evidence.images).shape
    weights = coefficients(files[0], shape)
    return None if weights is None else energy_inside(weights, face_mask(*shape[1:]))


@decides("N13")
def best_regression_explains_28_percent(evidence: Evidence) -> Ruling:
    """Decide by whether the best regression by validation explains the printed share of the variance, within 0.05.

    Confirmed if the whole interval is within this distance, refuted if none of it is.
    """
    methods = Methods(evidence, PIXELS)
    found = explained(pairs_of(evidence, methods, methods.of(REGRESSION)))
    best = methods.best(sorted(found))
    value, low, high, faces = found[best]
    others = ", ".join(f"{name} {found[name][0]:.1%}" for name in sorted(found) if name != best)
    least, most = PRINTED_R_SQUARED - CLOSE, PRINTED_R_SQUARED + CLOSE
    facts: dict[str, object] = {"best": best, "value": value, "low": low, "high": high, "faces": faces}
    facts |= {"title": methods.title, "of_others": f"; of the others, {others}" if others else ""}
    verdict = each_way(least <= low and high <= most, high < least or low > most)
    return Ruling(verdict, facts, value, low, high, n=faces)


@decides("N14")
def wrongly_ordered_pairs_are_close_in_age(evidence: Evidence) -> Ruling:
    """Decide by whether the accuracy of the best method by validation rises with the age difference."""
    methods = Methods(evidence, PIXELS)
    best = methods.best([name for family in FAMILIES for name in methods.of(family)])
    slope, groups = trend_over_ages(pairs_of(evidence, methods, [best]))
    low, high = slope.interval(1 - LEVEL)
    by_group = ", ".join(
        f"{share:.1%} of {count} at {least}{f' to {most}' if most < GAPS[-1][1] else ' or more'}"
        for (least, most), (count, share) in groups.items()
    )
    significant = slope.p_value() < LEVEL
    verdict = each_way(significant and slope.mean > 0, significant and slope.mean <= 0)
    facts = {"title": methods.title, "rise": slope.mean, "low": low, "high": high, "best": best, "by_group": by_group}
    return Ruling(verdict, facts, slope.mean, low, high, sum(count for count, _ in groups.values()))


def trend_over_ages(pairs: pl.DataFrame) -> tuple[Estimate, dict[tuple[int, int], tuple[int, float]]]:
    """Return the trend of one method's accuracy over the groups of age differences that have pairs.

    It is the least-squares slope over the numbered groups, whose error allows for shared faces: the mean of each pair's
    influence on it. Beside it stand the number of pairs and the accuracy of every group, averaged over seeds.

    Raises:
        MissingEvidence: all pairs are in one group, or of fewer than five faces.
    """
    numbered = pl.sum_horizontal(pl.col("years") > most for _, most in GAPS).cast(pl.Int64)
    means = pairs.group_by("fold", "topic").agg(
        pl.col("years", "older", "younger").first(), pl.col("PairAccuracy").mean().alias("right")
    )
    found = means.filter(pl.col("years").is_between(GAPS[0][0], GAPS[-1][1])).sort("fold", "topic")
    group: Floats = found.select(numbered).to_series().to_numpy().astype(np.float64)
    right: Floats = found["right"].to_numpy().astype(np.float64)
    if len(group) < 3 or np.ptp(group) == 0:
        raise MissingEvidence("no pairs of faces in several groups of age differences")
    centred = group - group.mean()
    squares = float((centred**2).sum())
    slope = float(centred @ right) / squares
    residuals = right - right.mean() - slope * centred
    influence: Floats = slope + len(group) * centred * residuals / squares
    estimate = over_members(influence, found.select("older", "younger").to_numpy().astype(np.int64))
    if estimate is None:
        raise MissingEvidence("too few faces for the error of a slope")
    within = {years: right[group == place] for place, years in enumerate(GAPS)}
    return estimate, {years: (len(of), float(of.mean())) for years, of in within.items() if len(of)}


def pairs_of(evidence: Evidence, methods: Methods, names: list[str]) -> pl.DataFrame:
    """Read the pairs of faces of a data set as these methods scored them.

    Raises:
        MissingEvidence: there are no pairs, or no ages.
    """
    if evidence.images is None:
        raise MissingEvidence("no images file, which holds the ages")
    files = [path for path in evidence.predictions if path.parts[-4] == methods.dataset and path.parts[-3] in names]
    if not files:
        raise MissingEvidence(f"no predictions of {', '.join(names) or 'any method'} on {methods.title}")
    return read_pairs(files, evidence.images)
