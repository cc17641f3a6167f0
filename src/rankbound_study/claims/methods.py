"""The methods of the neural-ranking study: their scores on the same lists, tests between them, and the claims on them.

Claims about web queries are about MSLR-WEB10K. Without its archive, the same test on MQ2008 is reported, but decides
nothing. Claims about faces are about pairs of pictures, by their pixels or by features of VGG16.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rankbound.compare import Comparison, Pair, PairedScores, Settings, adjust, compare
from rankbound.compare.comparison import LEVEL
from rankbound.compare.scores import Floats, Mask
from rankbound.compare.statistics import Estimate, corrected, over_members
from rankbound_study.claims.evidence import KEY, OF_SHARES, Evidence, smallest_effect
from rankbound_study.claims.registry import decides, in_words
from rankbound_study.claims.rules import Sample, together
from rankbound_study.claims.verdicts import (
    CONFIRMED,
    INCONCLUSIVE,
    NOT_TESTABLE,
    REFUTED,
    MissingEvidence,
    Ruling,
    Untrained,
    each_way,
)
from rankbound_study.config.data_sets import SYNTHETIC, DataSet
from rankbound_study.data.images import read_faces
from rankbound_study.results import neural
from rankbound_study.results.scores import best_of, names_pairs, scores_of_methods, scores_of_runs
from rankbound_study.results.study_files import score, signed
from rankbound_study.vocabulary import OF_FEATURES, STUDY

QUERIES, PIXELS, FEATURES = "mq2008-label1", "aaf", "aaf-vgg16"
"""The data sets on which claims of the neural-ranking study can be decided."""

RANK, REGRESSION, CLASSIFICATION = neural.FAMILIES


class Methods:
    """Methods on one data set, by name, with random order and the oracle.

    Attributes:
        dataset, title: its name in the runs, and its title.
        metric: the metric that compares them.
        frame: their rows, with the key and the metric.
        families: the family of each method.
        networks: the methods that are networks.
    """

    def __init__(self, evidence: Evidence, dataset: str, *, width: int | None = None, shifted: bool = False) -> None:
        """Read the methods that see all features of a data set unchanged, or (`shifted`) those that see moved pictures.

        With `width`, the number of all features, include the methods that were configured with this number, by plain
        name.

        Raises:
            MissingEvidence: there are no such methods.
            Untrained: none of them trained.
        """
        self.metric, self._epochs = neural.table_of(dataset).metric, evidence.epochs
        rows = evidence.cell(DataSet(dataset, None), study=STUDY)
        frame = rows.select("dataset", "options", *KEY[2:], self.metric).collect()
        names = ("features", "shift", "family", "model")
        features, shift, family, kind = (pl.col("options").str.json_path_match(f"$.{name}") for name in names)
        control = pl.col("loss") == "none"
        seen = (features.is_null() | (features == str(width))) & (shift.is_not_null() == shifted)
        frame = frame.filter(seen | control)
        plain = pl.col("model").str.replace(f"{OF_FEATURES}\\d+$", "")
        # A method with and without the number of all features is one method, trained twice.
        frame = frame.filter((pl.col("model") == plain) | ~plain.is_in(frame["model"].unique().to_list()))
        frame = frame.with_columns(plain.alias("model"), pl.col("model").alias("trained"))
        each = frame.unique("model", keep="first", maintain_order=True)
        family = pl.when(control).then(pl.lit(neural.CONTROL)).otherwise(family.fill_null(""))
        named = each.select("model", family.replace(neural.FAMILY_NAMES).alias("family"))
        self.families: dict[str, str] = dict(named.rows())
        self.networks = set(each.filter(kind.is_in(neural.NETWORKS))["model"])
        self._trained_as: dict[str, str] = dict(each.select("model", "trained").rows())
        if set(self.families.values()) <= {neural.CONTROL}:
            seen_on = f"{'moved pictures of ' * shifted}{neural.data_set_title(dataset)}"
            if evidence.untrained():
                # MissingEvidence if none ran, either.
                Methods(evidence.of_all_trainings(), dataset, width=width, shifted=shifted)
                raise Untrained(f"Methods on {seen_on} ran, but none of them trained")
            raise MissingEvidence(f"no methods on {seen_on}: see comparisons in config.yaml")
        self.dataset, self.frame = str(frame["dataset"][0]), frame.drop("options", "trained")
        self.title = neural.data_set_title(self.dataset)

    @cached_property
    def scores(self) -> PairedScores:
        """The scores of all methods; those of pairs of faces record which pairs share a face."""
        return scores_of_runs(self.frame, self.metric, by=("model",), members=names_pairs(self.frame))

    @cached_property
    def validation(self) -> Mapping[str, float]:
        """The validation score of every method."""
        if self._epochs is None:
            raise MissingEvidence("no epochs, whose validation scores pick the best of several methods")
        scores = scores_of_methods(self._epochs, self.dataset, self.metric)
        return {name: scores[trained] for name, trained in self._trained_as.items() if trained in scores}

    def of(self, family: str, *, network: bool | None = None) -> list[str]:
        """Return the methods of a family, or its networks or other models alone, without those as printed."""
        return [
            name
            for name, own in sorted(self.families.items())
            if own == family and network in (None, name in self.networks) and not name.endswith(neural.AS_PRINTED)
        ]

    def by_kind(self, *families: str) -> Iterator[tuple[list[str], list[str]]]:
        """Yield the networks and the other models of each family that has both."""
        for family in families:
            networks, others = (self.of(family, network=network) for network in (True, False))
            if networks and others:
                yield networks, others

    def best(self, names: Sequence[str]) -> str:
        """Return the best method by validation."""
        best = best_of(names, self.validation)
        if best is None:
            raise MissingEvidence(f"no validation scores of {', '.join(names) or 'any method'} on {self.title}")
        return best

    def mean(self, name: str) -> float:
        """Return the mean score of a method."""
        self.needs(name)
        return float(np.nanmean(self.scores.matrix[:, list(self.scores.systems).index(name)]))

    def gaps(self, pairs: Iterable[tuple[str, str]], margin: float = math.nan) -> "GapFamily":
        """Compare pairs of methods on the same lists; MissingEvidence if there are none, or one of them did not run."""
        pairs = list(pairs)
        if not pairs:
            raise MissingEvidence(f"no methods to compare on {self.title}: see comparisons in config.yaml")
        self.needs(*dict.fromkeys(chain(*pairs)))
        return GapFamily.of(self.title, {names: self.scores.pair(*names) for names in pairs}, margin)

    def needs(self, *names: str) -> None:
        """Raise MissingEvidence unless all of them ran."""
        missing = [name for name in names if name not in self.families]
        if missing:
            raise MissingEvidence(f"no runs of {', '.join(missing)} on {self.title}: see comparisons in config.yaml")


class Gap(NamedTuple):
    """One method minus another, in the claimed order, with a p-value that is adjusted over the family of tests.

    `side` is 1 if it is significantly better, -1 if significantly worse, or alike within the margin, and 0 otherwise.
    """

    name: str
    other: str
    found: Comparison
    side: int

    @property
    def size(self) -> str:
        """The difference with its interval: `+0.0242 (+0.0040 to +0.0444)`."""
        return f"{signed(self.found.difference)} ({signed(self.found.low)} to {signed(self.found.high)})"

    def __str__(self) -> str:
        """`RankCNN minus RankNet +0.0242 (+0.0040 to +0.0444)`."""
        return f"{self.name} minus {self.other} {self.size}"


class GapFamily:
    """Differences of methods, each in the claimed order, as one family of tests (Holm).

    Attributes:
        title: the title of the data set.
        unit: its lists: queries, or pairs of faces.
        each, count: the differences, and their number.
        better: the number of significant differences as claimed.
        worse: the number of those that speak against the claim: significantly worse, or alike.
        verdict: confirmed if all differences are significant as claimed, refuted if one speaks against it.
    """

    def __init__(self, title: str, unit: str, each: Sequence[Gap]) -> None:
        self.title, self.unit, self.each, self.count = title, unit, each, len(each)
        self.better, self.worse = (sum(one.side == side for one in each) for side in (1, -1))
        self.verdict = each_way(self.better == self.count, bool(self.worse))

    @classmethod
    def of(cls, title: str, pairs: Mapping[tuple[str, str], Pair], margin: float = math.nan) -> "GapFamily":
        """Compare pairs of systems with a margin; by default, the smallest effect of their metric."""
        found = [
            compare(pair, Settings(margin=smallest_effect(pair.metric) if math.isnan(margin) else margin))
            for pair in pairs.values()
        ]
        p_alike = corrected([one.margin.p_alike if one.margin else math.nan for one in found])
        each = []
        for names, one, p_value in zip(pairs, adjust(found), p_alike, strict=True):
            side = int(math.copysign(1, one.difference)) if one.p_adjusted < LEVEL else -int(p_value < LEVEL)
            each.append(Gap(*names, one, side))
        of_pairs = any(pair.members is not None for pair in pairs.values())
        return cls(title, "pairs" if of_pairs else "queries", each)

    def __str__(self) -> str:
        return listed(self.each)

    def decided(self, verdict: str = "", **facts: object) -> Ruling:
        """Return the ruling (by default that all are as claimed) with the difference that supports it least.

        The fact `over` describes the sample of the first difference: `over 2400 pairs, of one training each`.
        """
        least = min(self.each, key=lambda one: (one.side, one.found.difference)).found
        seeds = max(one.found.trainings.n_seeds for one in self.each)
        trainings = "one training" if seeds < 2 else f"{seeds} trainings"
        over = f"over {self.each[0].found.n_units} {self.unit}, of {trainings} each"
        facts = {"found": self, "title": self.title, "over": over, **facts}
        measured = least.difference, least.low, least.high
        return Ruling(verdict or self.verdict, facts, *measured, least.n_units, _sample(least))


def _sample(of: Comparison) -> Sample | None:
    if of.margin is None or not of.margin.margin > 0:
        return None
    return Sample.of_interval(of.low, of.high, of.n_units, of.margin.margin)


def listed(found: Sequence[Any]) -> str:
    """Join several texts: `one, two and three`."""
    *most, last = [str(one) for one in found]
    return f"{', '.join(most)} and {last}" if most else last


DIRECT, RANKNET = "DirectRanker", "RankNet"


@decides("N03")
def direct_ranker_and_ranknet_perform_alike(evidence: Evidence) -> Ruling:
    """Decide by whether they differ by less than a margin, on web queries and on faces.

    Refuted if a difference is significantly beyond the margin anywhere. Equal scores everywhere need no test.
    """
    found: list[Comparison] = []
    differences, margins = [], []
    for dataset in (QUERIES, PIXELS):
        with suppress(MissingEvidence):
            methods = Methods(evidence, dataset)
            of_both = methods.gaps([(DIRECT, RANKNET)])
            found.append(one := of_both.each[0].found)
            margins.append(f"{smallest_effect(methods.metric):g} ({methods.metric})")
            of_pairs = f"the share of correctly ordered pairs among {one.n_units}"
            of_queries = f"mean {methods.metric} over {one.n_units} queries"
            measure = of_pairs if of_both.unit == "pairs" else of_queries
            differences.append(f"{of_both.each[0].size} in {measure} of {methods.title}")
    if not found:
        raise MissingEvidence(f"no runs of both {DIRECT} and {RANKNET}: see comparisons in config.yaml")
    alike = all(
        one.margin.verdict == "alike" if one.margin else one.n_units > 1 and one.low == one.high == one.difference == 0
        for one in found
    )
    tests = [one.margin for one in found if one.margin]
    beyond = any(test.low > test.margin or test.high < -test.margin for test in tests)
    widest = max(found, key=lambda one: abs(one.difference))
    n, measured = sum(one.n_units for one in found), (widest.difference, widest.low, widest.high)
    facts = {"differences": listed(differences), "margins": listed(margins)}
    return Ruling(each_way(alike, beyond), facts, *measured, n, _sample(widest))


@decides("N15")
def networks_pay_with_many_features_alone(evidence: Evidence) -> Ruling:
    """Decide by the best network's lead, which should grow from none with few features to a significant one."""
    if evidence.runs is None or evidence.epochs is None:
        raise MissingEvidence("no runs with epochs, whose validation scores pick the best network and other model")
    of_pixels = [path for path in evidence.predictions if path.parts[-4] in (PIXELS, f"{SYNTHETIC}{PIXELS}")]
    predictions = of_pixels if evidence.images else ()
    found = list(trends(neural.feature_results(evidence.runs, evidence.epochs, predictions, evidence.images)))
    if not found:
        raise MissingEvidence("no methods on several numbers of features: see feature_counts in config.yaml")
    doubts = REFUTED, INCONCLUSIVE, CONFIRMED
    least = min(found, key=lambda one: (doubts.index(one.verdict), one.facts["signs"][2], one.value))
    verdict, facts = together(*(one.verdict for one in found)), {"changes": listed([one.reason for one in found])}
    return replace(least, verdict=verdict, facts=facts, reason="")


def trends(results: neural.FeatureResults) -> Iterator[Ruling]:
    """Yield a ruling on each data set and family with gaps at several numbers of features; its value is the trend.

    Confirmed if the network wins with the most features, its lead grows, and does not matter with the fewest. One
    training of each method decides nothing: another one may lead. That a lead with few features is not significant does
    not show that networks are not needed there: its interval must lie below what matters. Refuted if the lead shrinks
    significantly, if the network loses with the most features, or wins with the fewest. The fact `signs` has 1 or -1
    for the gap with the fewest features, that with the most, and the trend, if it is significant (Holm), else 0.
    """
    for (dataset, _), gaps in results.gaps.group_by("dataset", "family", maintain_order=True):
        rows = gaps.filter(pl.col("features").is_not_null()).sort("features").to_dicts()
        margin = smallest_effect(neural.table_of(str(dataset)).metric)
        for trend in gaps.filter(pl.col("features").is_null()).to_dicts():
            deciding = (rows[0], rows[-1], trend)
            holm = corrected([row["p_value"] for row in deciding])
            signs = [int(math.copysign(p < LEVEL, row["difference"])) for row, p in zip(deciding, holm, strict=True)]
            fewest, most, grows = signs
            against = grows < 0 or most < 0 or fewest > 0
            verdict = each_way(most > 0 and grows > 0 and rows[0]["high"] <= margin, against)
            once = ""
            if trend["n_seeds"] < 2:
                verdict, once = INCONCLUSIVE, " (one training of each method, which decides nothing)"
            measured = trend["difference"], trend["low"], trend["high"]
            change, low, high = map(signed, measured)
            words = {1: "significantly up", -1: "significantly down", 0: "not significant"}[grows]
            first, last = (f"{signed(row['difference'])} with {row['features']:,}" for row in (rows[0], rows[-1]))
            where = f"on {neural.data_set_title(str(dataset))}{once}"
            reason = f"{change} ({low} to {high}), {words}, {where}, from {first} to {last}"
            yield Ruling(verdict, {"signs": signs}, *measured, len(rows), reason=reason)


WEB10K = "mslr-web10k-label2"  # the paper's data set in its reading: labels of 2 and more are relevant

NO_ARCHIVE, RANDOM = "The archive of MSLR-WEB10K is not available here", "random"


def _on_web10k(claim: str, *, on_training: bool = False) -> Callable[[Callable[[Methods], Ruling]], None]:
    """Register what decides a claim on MSLR-WEB10K if it has run; else the same test on MQ2008 is reported.

    A claim `on_training` includes the models that did not train.
    """

    def register(judge: Callable[[Methods], Ruling]) -> None:
        @decides(claim)
        def decide(evidence: Evidence) -> Ruling:
            evidence = evidence.of_all_trainings() if on_training else evidence
            try:
                of_web10k = Methods(evidence, WEB10K)
            except MissingEvidence:
                pass
            else:
                return judge(of_web10k)
            try:
                methods = Methods(evidence, QUERIES)
                found = in_words(claim, judge(methods))
            except MissingEvidence as missing:
                return Ruling(NOT_TESTABLE, reason=f"{NO_ARCHIVE}, nor can other queries be tested: {missing}.")
            would_be = f"{NO_ARCHIVE}; on {methods.title} the same claim would be {found.verdict}"
            reason = f"{would_be}: {found.reason[0].lower()}{found.reason[1:]}"
            statistic = f"on {methods.title}: {found.statistic}"
            return replace(found, verdict=NOT_TESTABLE, reason=reason, statistic=statistic)

    return register


@_on_web10k("N01")
def classification_ranks_better(methods: Methods) -> Ruling:
    """Compare the same network and the same linear model, trained both ways."""
    both_ways = ("Class-NN", "RankNet"), ("Class-LR", "Rank-LR")
    found = methods.gaps(pair for pair in both_ways if methods.families.keys() >= {*pair})
    return found.decided(of_random=score(methods.mean(RANDOM)) if RANDOM in methods.families else "")


@_on_web10k("N02")
def networks_rank_worse(methods: Methods) -> Ruling:
    """Compare every linear and every tree model with the best network of its family."""
    kinds = methods.by_kind(RANK, CLASSIFICATION)
    return methods.gaps((other, methods.best(networks)) for networks, others in kinds for other in others).decided()


@_on_web10k("N06", on_training=True)
def plain_gradients_train_networks_and_adam_does_not(methods: Methods) -> Ruling:
    """Decide by whether networks rank better than at random with either optimiser.

    Confirmed if plain gradients train all networks and Adam none, refuted if Adam trains one or plain gradients none.
    """
    methods.needs(RANDOM)
    networks = ("RankNet", "DirectRanker", "Class-NN")
    names = [name for name in networks if methods.families.keys() >= {name, f"{name}{neural.AS_PRINTED}"}]
    found = methods.gaps((f"{name}{ending}", RANDOM) for ending in ("", neural.AS_PRINTED) for name in names)
    halves = found.each[: len(names)], found.each[len(names) :]
    by_adam, by_sgd = (GapFamily(found.title, found.unit, own) for own in halves)
    confirmed = by_adam.worse == len(names) == by_sgd.better
    verdict = each_way(confirmed, bool(by_adam.better) or by_sgd.worse == len(names))
    return by_adam.decided(verdict, by_sgd=by_sgd.better, both=found)


@decides("N07")
def ranking_beats_regression_beats_classification(evidence: Evidence) -> Ruling:
    """Compare the best methods of the families by validation, neighbours in the claimed order, on the same pairs."""
    methods = Methods(evidence, PIXELS)
    best = [methods.best(methods.of(family)) for family in neural.FAMILIES]
    means = ", ".join(f"{name} {score(methods.mean(name))}" for name in best)
    half = (pl.col(methods.metric) == 0.5).mean()
    ties = methods.frame.filter(pl.col("model").is_in(best)).group_by("model").agg(half.alias("ties"))["ties"]
    return methods.gaps(pairwise(best)).decided(means=means, ties=float(ties.to_numpy().max()))


CONVOLUTION, CONNECTED = "RankCNN", "RankNet"
SHIFTED = "-shifted"  # suffix of methods that are trained on moved pictures


@decides("N09")
def convolution_ranks_raw_images_best(evidence: Evidence) -> Ruling:
    """Compare a convolutional ranker with every other ranker that sees all pixels, on the same pairs.

    Confirmed if it beats all of them, refuted if it loses to one, or is shown to be alike.
    """
    methods = Methods(evidence, PIXELS, width=_width(evidence))
    methods.needs(CONVOLUTION)
    return methods.gaps((CONVOLUTION, other) for other in methods.of(RANK) if other != CONVOLUTION).decided()


@decides("N12")
def convolution_wins_where_faces_are_not_centred(evidence: Evidence) -> Ruling:
    """Decide by the lead of convolution on moved faces, and by its growth over that on centred faces, pair by pair."""
    names, moved_names = (CONVOLUTION, CONNECTED), (f"{CONVOLUTION}{SHIFTED}", f"{CONNECTED}{SHIFTED}")
    moved = Methods(evidence, PIXELS, shifted=True)
    moved.needs(*moved_names)
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
    growth = replace(both.pair(*on), metric=moved.metric)
    found = GapFamily.of(moved.title, {moved_names: moved.scores.pair(*moved_names), on: growth})
    changes = " and ".join(
        f"{name} orders {score(moved.mean(f'{name}{SHIFTED}'))} instead of {score(centred.mean(name))}"
        for name in names
    )
    return found.decided(changes=changes)


def _on_the_same_pairs(one: pl.DataFrame, other: pl.DataFrame, metric: str) -> PairedScores:
    """Return the scores of trained methods of two data sets on the same pairs."""
    frame = pl.concat([one.drop("dataset"), other.drop("dataset")], how="diagonal").filter(pl.col("loss") != "none")
    return scores_of_runs(frame, metric, by=("model",), members=names_pairs(frame))


NOT_MUCH = 0.1  # "not by much", in shares of pairs: the largest printed gain is 0.06


@decides("N08")
def pretrained_features_improve_every_method_a_little(evidence: Evidence) -> Ruling:
    """Compare each method on VGG16's features with the same method on pixels, on the same pairs.

    Refuted, too, if a gain is significantly above the limit; inconclusive if one may be.
    """
    try:
        features = Methods(evidence, FEATURES)
    except Untrained:
        raise
    except MissingEvidence:
        reason = "The published weights of VGG16 are not available here, so no method has run on its features."
        return Ruling(NOT_TESTABLE, reason=reason)
    pixels = Methods(evidence, PIXELS)
    shared = [name for name in pixels.families if features.families.get(name, neural.CONTROL) != neural.CONTROL]
    if not shared:
        raise MissingEvidence("no method on both pixels and features of VGG16")
    renamed = features.frame.with_columns(pl.col("model") + " on features")
    scores = _on_the_same_pairs(pixels.frame, renamed, pixels.metric)
    pairs = [(f"{name} on features", name) for name in sorted(shared)]
    found = GapFamily.of(features.title, {pair: scores.pair(*pair) for pair in pairs})
    gained = ", ".join(f"{one.other} {one.size}" for one in found.each)
    confirmed = found.verdict == CONFIRMED and all(one.found.high <= NOT_MUCH for one in found.each)
    refuted = found.verdict == REFUTED or any(one.found.low > NOT_MUCH for one in found.each)
    return found.decided(each_way(confirmed, refuted), gained=gained)


@decides("N10")
def networks_lead_on_pixels_and_hardly_on_features(evidence: Evidence) -> Ruling:
    """Compare each family's best network with its best other model, both by validation.

    "Hardly" on features is refuted where a lead there is significantly above the margin.
    """
    of_pixels, of_features = _leads(Methods(evidence, PIXELS, width=_width(evidence))), None
    untrained = missing = False
    try:
        of_features = _leads(Methods(evidence, FEATURES))
    except Untrained:
        untrained = True
    except MissingEvidence:
        missing = True
    leads = of_features is not None and any(one.found.low > OF_SHARES for one in of_features.each)
    facts = {"of_features": of_features, "untrained": untrained, "missing": missing}
    return of_pixels.decided(REFUTED if leads else "", **facts)


def _leads(methods: Methods) -> GapFamily:
    return methods.gaps((methods.best(one), methods.best(other)) for one, other in methods.by_kind(*neural.FAMILIES))


def _width(evidence: Evidence) -> int | None:
    """Return the number of values of a picture; None without pictures."""
    return None if evidence.images is None else math.prod(read_faces(evidence.images).shape)


A_LOT = 0.05  # "a lot", in shares of pairs; 0.32 is printed
CLEARER = 0.01  # smallest difference in the share of the weights' energy that counts


@decides("N11")
def pairs_teach_logistic_regression_more_and_clearer(evidence: Evidence) -> Ruling:
    """Compare logistic regression on pairs with that on single labels, and their weights inside the face.

    Refuted by a gain significantly below the limit; confirmed by one significantly above it with clearer weights.
    """
    methods, on_both = Methods(evidence, PIXELS), ("Rank-LR", "Class-LR")
    found = methods.gaps([on_both], A_LOT)
    # The shares of the squares of weights in the face, by pairs and by labels, and that of the pixels.
    energy: list[float] = []
    if evidence.images is not None:
        shape = read_faces(evidence.images).shape
        mask = face_mask(*shape[1:])
        for name in on_both:
            files = [path for path in evidence.weights if path.parts[-4:-2] == (methods.dataset, name)]
            weights = neural.coefficients(files[0], shape) if files else None
            if weights is not None and (share := energy_inside(weights, mask)) is not None:
                energy.append(share)
        energy = [*energy, float(mask.mean())] if len(energy) == len(on_both) else []
    clearer = len(energy) > 0 and energy[0] > energy[1] + CLEARER
    lead = found.each[0].found
    verdict = each_way(lead.low > A_LOT and clearer, lead.high < A_LOT)
    return found.decided(verdict, energy=energy, no_energy=not energy, a_lot=A_LOT)


def face_mask(height: int, width: int) -> Mask:
    """Return the mask `(height, width)` of the pixels in the face's ellipse, 0.7 of the width and 0.9 of the height."""
    down, right = ((np.arange(count) + 0.5) / count - 0.5 for count in (height, width))
    inside: Mask = (down[:, None] / 0.45) ** 2 + (right / 0.35) ** 2 <= 1
    return inside


def energy_inside(weights: Floats, mask: Mask) -> float | None:
    """Return the mask's share of the sum of squares of `weights` `(3, height, width)`; None if all are zero."""
    squares = (weights**2).sum(0)
    return float(squares[mask].sum() / squares.sum()) if squares.any() else None


PRINTED_R_SQUARED = 0.28  # the share of variance that the best age regression explains (Li and Wu section 5)
CLOSE = 0.05  # largest difference from it that counts as the same


@decides("N13")
def best_regression_explains_28_percent(evidence: Evidence) -> Ruling:
    """Decide by whether the best regression by validation explains the printed share of the variance, within 0.05.

    Confirmed if the whole interval is within this distance, refuted if none of it is.
    """
    methods = Methods(evidence, PIXELS)
    found = neural.explained(pairs_of(evidence, methods, methods.of(REGRESSION)))
    best = methods.best(sorted(found))
    value, low, high, faces = found[best]
    others = ", ".join(f"{name} {found[name][0]:.1%}" for name in sorted(found) if name != best)
    least, most = PRINTED_R_SQUARED - CLOSE, PRINTED_R_SQUARED + CLOSE
    facts: dict[str, object] = {"best": best, "value": value, "low": low, "high": high, "faces": faces}
    facts |= {"title": methods.title, "others": others}
    verdict = each_way(least <= low and high <= most, high < least or low > most)
    return Ruling(verdict, facts, value, low, high, n=faces)


@decides("N14")
def wrongly_ordered_pairs_are_close_in_age(evidence: Evidence) -> Ruling:
    """Decide by whether the accuracy of the best method by validation rises with the age difference."""
    methods = Methods(evidence, PIXELS)
    best = methods.best([name for family in neural.FAMILIES for name in methods.of(family)])
    slope, groups = trend_over_ages(pairs_of(evidence, methods, [best]))
    low, high = slope.interval(1 - LEVEL)
    by_group = ", ".join(
        f"{share:.1%} of {count} at {least}{f' to {most}' if most < neural.GAPS[-1][1] else ' or more'}"
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
    numbered = pl.sum_horizontal(pl.col("years") > most for _, most in neural.GAPS).cast(pl.Int64)
    means = pairs.group_by("fold", "topic").agg(
        pl.col("years", "older", "younger").first(), pl.col("PairAccuracy").mean().alias("right")
    )
    found = means.filter(pl.col("years").is_between(neural.GAPS[0][0], neural.GAPS[-1][1])).sort("fold", "topic")
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
    within = {years: right[group == place] for place, years in enumerate(neural.GAPS)}
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
    return neural.read_pairs(files, evidence.images)
