"""Claims about faces: families of methods, convolution, pixels and features of VGG16, pairs and labels, ages."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from rankbound.compare import PairedScores, Settings, compare
from rankbound.compare.margins import LEVEL, MARGIN
from rankbound.compare.scores import Floats, Integers, Mask
from rankbound.compare.statistics import Estimate, over_members
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
    difference_text,
    read_methods,
    together_of,
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
from rankbound_study.results.neural_names import CONTROL, FAMILIES
from rankbound_study.results.neural_pairs import GAPS, coefficients, explained, read_pairs, with_readings
from rankbound_study.results.specs import score

CLAIMED_ORDER = (RANK, REGRESSION, CLASSIFICATION)
CONVOLUTION, CONNECTED = "RankCNN", "RankNet"
SHIFTED = "-shifted"
"""Suffix of methods that are trained on moved pictures."""

NOT_MUCH = 0.1
"""The claim's "not by much", in shares of pairs: the largest printed gain is 0.06."""

OF_FEATURES = " on features"

ON_PAIRS, ON_LABELS = "Rank-LR", "Class-LR"

A_LOT = 0.05
"""The claim's "a lot", in shares of pairs; 0.32 is printed."""

HALF_WIDTH, HALF_HEIGHT = 0.35, 0.45
"""Half axes of the ellipse that the face fills in the middle of a picture, as shares of the sides."""

CLEARER = 0.01
"""Smallest difference in the share of the weights' energy that counts."""


@decides("N07")
def ranking_beats_regression_beats_classification(evidence: Evidence) -> Ruling:
    """Compare the best methods of the families by validation, neighbours in the claimed order, on the same pairs."""
    methods = read_methods(evidence, PIXELS)
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
    methods = read_methods(evidence, PIXELS, width=_width(evidence))
    methods.needs(CONVOLUTION)
    others = [name for name in methods.of(RANK) if name != CONVOLUTION]
    if not others:
        raise MissingEvidence(f"no ranker beside {CONVOLUTION} on {methods.title}: see comparisons in config.yaml")
    found = GapFamily.between(methods, [(CONVOLUTION, other) for other in others])
    return found.decided("pairs", title=methods.title, convolution=CONVOLUTION)


@decides("N12")
def convolution_wins_where_faces_are_not_centred(evidence: Evidence) -> Ruling:
    """Decide by the lead of convolution on moved faces, and by its growth over that on centred faces."""
    moved = read_methods(evidence, PIXELS, shifted=True)
    names = (f"{CONVOLUTION}{SHIFTED}", f"{CONNECTED}{SHIFTED}")
    lead = Gap(*names, moved.compare(*names))
    try:
        centred = read_methods(evidence, PIXELS)
        centred.needs(CONVOLUTION, CONNECTED)
    except MissingEvidence as missing:
        raise MissingEvidence(f"faces as they are, to compare moved ones with: {missing}") from missing
    found = GapFamily.of([lead, _growth(moved, centred)])
    changes = [
        f"{name} orders {score(moved.mean(f'{name}{SHIFTED}'))} instead of {score(centred.mean(name))}"
        for name in (CONVOLUTION, CONNECTED)
    ]
    return found.decided(
        "pairs",
        title=moved.title,
        changes=" and ".join(changes),
        growth=difference_text(found.each[1].found),
        over=GapFamily([lead]).over("pairs"),
        convolution=CONVOLUTION,
        connected=CONNECTED,
    )


def _growth(moved: Methods, centred: Methods) -> Gap:
    """Compare the lead on moved faces with the lead on centred ones, pair by pair."""
    scores = together_of([moved.frame, centred.frame], moved.metric)
    column = {name: place for place, name in enumerate(scores.systems)}
    leads = [
        scores.matrix[:, column[f"{CONVOLUTION}{ending}"]] - scores.matrix[:, column[f"{CONNECTED}{ending}"]]
        for ending in (SHIFTED, "")
    ]
    names = ("lead on moved faces", "lead on centred faces")
    both = PairedScores.of_matrix(np.stack(leads, 1), names, scores.units, scores.members)
    return Gap(*names, compare(both.pair(*names), Settings(margin=MARGIN)))


@decides("N08")
def pretrained_features_improve_every_method_a_little(evidence: Evidence) -> Ruling | Verdict:
    """Compare each method on VGG16's features with the same method on pixels, on the same pairs.

    Refuted, too, if a gain is significantly above the limit; inconclusive if one may be.
    """
    try:
        features = read_methods(evidence, FEATURES)
    except Untrained:
        raise
    except MissingEvidence:
        reason = "The published weights of VGG16 are not available here, so no method has run on its features."
        return Verdict(NOT_TESTABLE, reason)
    found = _improvements(read_methods(evidence, PIXELS), features)
    if not found.each:
        raise MissingEvidence("no method on both pixels and features of VGG16")
    large, may_be_large = (any(end > NOT_MUCH for end in ends) for ends in found.ends)
    gained = ", ".join(f"{one.other} {difference_text(one.found)}" for one in found.each)
    confirmed = found.verdict == CONFIRMED and not may_be_large
    verdict = each_way(confirmed, large or found.verdict == REFUTED)
    return found.decided("pairs", verdict, title=features.title, gained=gained)


def _improvements(pixels: Methods, features: Methods) -> GapFamily:
    shared = [name for name in features.families if name in pixels.families and features.families[name] != CONTROL]
    renamed = features.frame.with_columns(pl.col("model") + OF_FEATURES)
    scores = together_of([pixels.frame, renamed], pixels.metric)
    pairs = [(f"{name}{OF_FEATURES}", name) for name in sorted(shared)]
    return GapFamily.of([Gap(*pair, compare(scores.pair(*pair), Settings(margin=MARGIN))) for pair in pairs])


@decides("N10")
def networks_lead_on_pixels_and_hardly_on_features(evidence: Evidence) -> Ruling:
    """Compare each family's best network with its best other model, both by validation.

    "Hardly" on features is refuted where a lead there is significantly above the margin.
    """
    pixels = read_methods(evidence, PIXELS, width=_width(evidence))
    of_pixels = _leads(pixels)
    verdict = of_pixels.verdict
    try:
        of_features = _leads(read_methods(evidence, FEATURES))
    except Untrained:
        on_features = "the features of VGG16 no method trained"
    except MissingEvidence:
        on_features = "the features of VGG16 none could be trained, as its published weights are not available here"
    else:
        on_features = f"features of VGG16 their leads are {of_features}"
        if any(low > MARGIN for low in of_features.ends[0]):
            verdict = REFUTED
    return of_pixels.decided("pairs", verdict, title=pixels.title, on_features=on_features)


def _leads(methods: Methods) -> GapFamily:
    pairs = []
    for family in FAMILIES:
        networks, others = (methods.of(family, network=network) for network in (True, False))
        if networks and others:
            pairs.append((methods.best(networks), methods.best(others)))
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
    methods = read_methods(evidence, PIXELS)
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
    ((low,), (high,)) = gain.ends
    names = {"on_pairs": ON_PAIRS, "on_labels": ON_LABELS, "a_lot": A_LOT}
    verdict = each_way(low > A_LOT and clearer, high < A_LOT)
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


PRINTED_R_SQUARED = 0.28
"""The share of variance that the best age regression explains (Li and Wu section 5)."""

CLOSE = 0.05
"""Largest difference from the printed share that counts as the same."""


@decides("N13")
def best_regression_explains_28_percent(evidence: Evidence) -> Ruling:
    """Decide by whether the best regression by validation explains the printed share of the variance, within 0.05.

    Confirmed if the whole interval is within this distance, refuted if none of it is.
    """
    methods = read_methods(evidence, PIXELS)
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
    methods = read_methods(evidence, PIXELS)
    best = methods.best([name for family in FAMILIES for name in methods.of(family)])
    trend = Trend.of(with_readings(pairs_of(evidence, methods, [best])))
    p_value, rise = trend.slope.p_value(), trend.slope.mean
    low, high = trend.slope.interval(1 - LEVEL)
    by_group = ", ".join(
        f"{share:.1%} of {count} at {least}{f' to {most}' if most < GAPS[-1][1] else ' or more'}"
        for (least, most), share, count in zip(GAPS, trend.accuracy, trend.counts, strict=True)
        if count
    )
    verdict = each_way(p_value < LEVEL and rise > 0, p_value < LEVEL and rise <= 0)
    facts = {"title": methods.title, "rise": rise, "low": low, "high": high, "best": best, "by_group": by_group}
    return Ruling(verdict, facts, rise, low, high, p_value, sum(trend.counts))


@dataclass(frozen=True)
class Trend:
    """Accuracy by groups of the years between two faces.

    Attributes:
        slope: the least-squares slope of the accuracy over the numbered groups; its error allows for shared faces.
        accuracy, counts: the accuracy and number of pairs of each group; NaN and 0 where it has no pairs.
    """

    slope: Estimate
    accuracy: tuple[float, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, pairs: pl.DataFrame) -> "Trend":
        """Compute the trend of one method's pairs, averaged over seeds.

        Raises:
            MissingEvidence: all pairs are in one group, or of fewer than five faces.
        """
        found = pairs.group_by("fold", "topic").agg(
            pl.col("years", "older", "younger").first(), pl.col("PairAccuracy").mean()
        )
        found = found.sort("fold", "topic")
        years, right = found["years"].to_numpy(), found["PairAccuracy"].to_numpy().astype(np.float64)
        within = [(years >= least) & (years <= most) for least, most in GAPS]
        kept = np.any(within, axis=0)
        group: Floats = np.argmax(within, axis=0)[kept].astype(np.float64)
        if len(group) < 3 or np.ptp(group) == 0:
            raise MissingEvidence("no pairs of faces in several groups of age differences")
        faces: Integers = found.select("older", "younger").to_numpy().astype(np.int64)[kept]
        counts = tuple(int(mask.sum()) for mask in within)
        accuracy = tuple(
            float(right[mask].mean()) if count else math.nan for mask, count in zip(within, counts, strict=True)
        )
        return cls(_slope(group, right[kept], faces), accuracy, counts)


def _slope(group: Floats, right: Floats, faces: Integers) -> Estimate:
    """Estimate the least-squares slope from each pair's influence on it; the mean of these values is the slope."""
    centred = group - group.mean()
    squares = float((centred**2).sum())
    slope = float(centred @ right) / squares
    residuals = right - right.mean() - slope * centred
    influence: Floats = slope + len(group) * centred * residuals / squares
    estimate = over_members(influence, faces)
    if estimate is None:
        raise MissingEvidence("too few faces for the error of a slope")
    return estimate


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
