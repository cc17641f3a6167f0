"""Claims about the features that faces are ordered by: their pixels, or the features of VGG16."""

import polars as pl

from rankbound.compare import Settings, compare
from rankbound.compare.frames import names_pairs, scores_of_runs
from rankbound.compare.margins import MARGIN
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import (
    FEATURES,
    PIXELS,
    Gap,
    Methods,
    adjusted,
    deciding,
    difference_text,
    gaps,
    listed,
    over,
    read_methods,
    verdict_of,
)
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, NOT_TESTABLE, REFUTED, MissingEvidence, Verdict
from rankbound_study.results.neural_names import CONTROL, FAMILIES

NOT_MUCH = 0.1
"""The claim's "not by much", in shares of pairs: the largest printed gain is 0.06."""

NO_WEIGHTS = "The published weights of VGG16 are not available here, so no method has run on its features"

OF_FEATURES = " on features"


@decides("N08")
def pretrained_features_improve_every_method_a_little(evidence: Evidence) -> Verdict:
    """Compare each method on VGG16's features with the same method on pixels, on the same pairs."""
    try:
        features = read_methods(evidence, FEATURES)
    except MissingEvidence:
        return Verdict(NOT_TESTABLE, f"{NO_WEIGHTS}.")
    found = _improvements(read_methods(evidence, PIXELS), features)
    if not found:
        raise MissingEvidence("no method on both pixels and features of VGG16")
    better, worse = (sum(one.side == side for one in found) for side in (1, -1))
    gained = ", ".join(f"{one.other} {difference_text(one.found)}" for one in found)
    return Verdict(
        _verdict_of_improvements(found),
        f"Of {len(found)} methods {better} order significantly more pairs of {features.title} correctly than by "
        f"pixels, and {worse} fewer or as many, {over(found, 'pairs')}: {gained}.",
        statistic="pair accuracy, features minus pixels",
        shown_in="table_neural_2 table_neural_3",
        **deciding(found),
    )


@decides("N10")
def networks_lead_on_pixels_and_hardly_on_features(evidence: Evidence) -> Verdict:
    """Compare each family's best network with its best other model, both by validation."""
    pixels = read_methods(evidence, PIXELS, width=_width(evidence))
    of_pixels = _leads(pixels)
    verdict = verdict_of([one.side for one in of_pixels])
    sure = sum(one.side > 0 for one in of_pixels)
    told = (
        f"By the pixels of {pixels.title} the best network of a family orders significantly more pairs correctly than "
        f"the best other model in {sure} of {len(of_pixels)} families, {over(of_pixels, 'pairs')}: {listed(of_pixels)}"
    )
    try:
        of_features = _leads(read_methods(evidence, FEATURES))
    except MissingEvidence:
        told += "; by the features of VGG16 none could be trained, as its published weights are not available here"
    else:
        verdict = _with_features(verdict, of_features)
        told += f"; by features of VGG16 their leads are {listed(of_features)}"
    return Verdict(
        verdict,
        f"{told}.",
        statistic="pair accuracy by pixels, network minus other model",
        shown_in="table_neural_2",
        **deciding(of_pixels),
    )


def _improvements(pixels: Methods, features: Methods) -> list[Gap]:
    shared = [name for name in features.families if name in pixels.families and features.families[name] != CONTROL]
    renamed = features.frame.with_columns(pl.col("model") + OF_FEATURES)
    frame = pl.concat([pixels.frame, renamed.drop("dataset")], how="diagonal").filter(pl.col("model") != "")
    frame = frame.filter(pl.col("loss") != "none").drop("dataset")
    scores = scores_of_runs(frame, pixels.metric, by=("model",), members=names_pairs(frame))
    settings = Settings(margin=MARGIN)
    return adjusted(
        [
            Gap(f"{name}{OF_FEATURES}", name, compare(scores.pair(f"{name}{OF_FEATURES}", name), settings))
            for name in sorted(shared)
        ]
    )


def _verdict_of_improvements(found: list[Gap]) -> str:
    """Decide over all gains and by the limit: refuted if a gain is above it, inconclusive if one may be."""
    verdict = verdict_of([one.side for one in found])
    if any(one.found.low > NOT_MUCH for one in found):
        return REFUTED
    small = all(one.found.high <= NOT_MUCH for one in found)
    return verdict if verdict != CONFIRMED or small else INCONCLUSIVE


def _leads(methods: Methods) -> list[Gap]:
    pairs = []
    for family in FAMILIES:
        networks, others = (methods.of(family, network=network) for network in (True, False))
        if networks and others:
            pairs.append((methods.best(networks), methods.best(others)))
    if not pairs:
        raise MissingEvidence(f"no network beside another model of its family on {methods.title}")
    return gaps(methods, pairs)


def _with_features(of_pixels: str, of_features: list[Gap]) -> str:
    """ "Hardly" on features is refuted where a lead there is significantly above the margin."""
    if any(one.found.low > MARGIN for one in of_features):
        return REFUTED
    return of_pixels


def _width(evidence: Evidence) -> int | None:
    """Return the number of values of a picture; None without pictures."""
    if evidence.images is None:
        return None
    from rankbound_study.data.images import read_faces

    channels, height, width = read_faces(evidence.images).shape
    return channels * height * width
