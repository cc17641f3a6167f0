"""The methods of the neural-ranking study: their scores on the same lists, tests between them, and claims on networks.

Claims about web queries are about MSLR-WEB10K. Without its archive, the same test on MQ2008 is reported, but decides
nothing.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare import Comparison, Pair, PairedScores, Settings, adjust, compare
from rankbound.compare.margins import LEVEL
from rankbound.compare.statistics import corrected
from rankbound_study.claims.cells import smallest_effect
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.registry import Decider, decides, in_words
from rankbound_study.claims.rules import Sample, together
from rankbound_study.claims.verdict import (
    CONFIRMED,
    INCONCLUSIVE,
    NOT_TESTABLE,
    REFUTED,
    MissingEvidence,
    Ruling,
    Untrained,
    Verdict,
    each_way,
)
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.results.neural_runs import (
    AS_PRINTED,
    CONTROL,
    FAMILIES,
    FAMILY_NAMES,
    NETWORKS,
    FeatureResults,
    data_set_title,
    feature_results,
    table_of,
)
from rankbound_study.results.scores import best_of, names_pairs, scores_of_methods, scores_of_runs
from rankbound_study.results.study_files import score, signed
from rankbound_study.vocabulary import OF_FEATURES, STUDY

QUERIES, PIXELS, FEATURES = "mq2008-label1", "aaf", "aaf-vgg16"
"""The data sets on which claims of the neural-ranking study can be decided."""

RANK, REGRESSION, CLASSIFICATION = FAMILIES


class Methods:
    """Methods on one data set, by name, with random order and the oracle.

    Attributes:
        dataset: its name in the runs.
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
        self.metric, self._epochs = table_of(dataset).metric, evidence.epochs
        rows = evidence.cell(dataset, study=STUDY)
        names = rows.collect_schema().names()
        frame = rows.select("dataset", "options", *(name for name in KEY[2:] if name in names), self.metric).collect()
        options = {text: json.loads(text) for text in frame["options"].unique()}
        seen = [
            text
            for text, own in options.items()
            if own.get("features") in (None, width) and ("shift" in own) == shifted
        ]
        frame = frame.filter(pl.col("options").is_in(seen) | (pl.col("loss") == "none"))
        plain = pl.col("model").str.replace(f"{OF_FEATURES}\\d+$", "")
        # A method with and without the number of all features is one method, trained twice.
        frame = frame.filter((pl.col("model") == plain) | ~plain.is_in(frame["model"].unique().to_list()))
        frame = frame.with_columns(plain.alias("model"), pl.col("model").alias("trained"))
        self.families: dict[str, str] = {}
        self.networks, self._trained_as = set[str](), dict[str, str]()
        each = frame.select("model", "trained", "options", "loss").unique("model", keep="first", maintain_order=True)
        for model, trained, text, loss in each.rows():
            family = str(options[text].get("family", ""))
            self.families[model] = CONTROL if loss == "none" else FAMILY_NAMES.get(family, family)
            self._trained_as[model] = trained
            if options[text].get("model") in NETWORKS:
                self.networks.add(model)
        if set(self.families.values()) <= {CONTROL}:
            seen_on = f"{'moved pictures of ' * shifted}{data_set_title(dataset)}"
            if evidence.untrained():
                # MissingEvidence if none ran, either.
                Methods(evidence.of_all_trainings(), dataset, width=width, shifted=shifted)
                raise Untrained(f"Methods on {seen_on} ran, but none of them trained")
            raise MissingEvidence(f"no methods on {seen_on}: see comparisons in config.yaml")
        self.dataset, self.frame = str(frame["dataset"][0]), frame.drop("options", "trained")

    @property
    def title(self) -> str:
        """The data set's title."""
        return data_set_title(self.dataset)

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
            if own == family and network in (None, name in self.networks) and not name.endswith(AS_PRINTED)
        ]

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

    def compare(self, name: str, other: str, margin: float = math.nan) -> Comparison:
        """Compare one method with another on the same lists."""
        self.needs(name, other)
        return compared(self.scores.pair(name, other), margin)

    def has(self, *names: str) -> bool:
        """Check that all of them ran."""
        return set(names) <= set(self.families)

    def needs(self, *names: str) -> None:
        """Raise MissingEvidence unless all of them ran."""
        missing = [name for name in names if name not in self.families]
        if missing:
            raise MissingEvidence(f"no runs of {', '.join(missing)} on {self.title}: see comparisons in config.yaml")


def compared(pair: Pair, margin: float = math.nan) -> Comparison:
    """Compare two systems against a margin; by default, the smallest effect of their metric."""
    return compare(pair, Settings(margin=smallest_effect(pair.metric) if math.isnan(margin) else margin))


@dataclass(frozen=True)
class Gap:
    """One method minus another, in the claimed order.

    Attributes:
        found: the comparison, with its p-value adjusted over the family of tests.
        p_alike: the adjusted p-value of the two being alike within the margin.
    """

    name: str
    other: str
    found: Comparison
    p_alike: float = math.nan

    @property
    def side(self) -> int:
        """1: significantly better. -1: significantly worse, or alike within the margin. 0: inconclusive."""
        if self.found.p_adjusted < LEVEL:
            return 1 if self.found.difference > 0 else -1
        return -1 if self.p_alike < LEVEL else 0

    def __str__(self) -> str:
        """`RankCNN minus RankNet +0.0242 (+0.0040 to +0.0444)`."""
        return f"{self.name} minus {self.other} {difference_text(self.found)}"


@dataclass(frozen=True)
class GapFamily:
    """Differences of methods, each in the claimed order, as one family of tests (Holm)."""

    each: Sequence[Gap]

    @classmethod
    def of(cls, found: Sequence[Gap]) -> "GapFamily":
        """Correct the p-values over all gaps."""
        adjusted = adjust([one.found for one in found])
        p_alike = corrected([one.found.margin.p_alike if one.found.margin else math.nan for one in found])
        return cls([replace(one, found=of, p_alike=p) for one, of, p in zip(found, adjusted, p_alike, strict=True)])

    @classmethod
    def between(cls, methods: Methods, pairs: Iterable[tuple[str, str]], margin: float = math.nan) -> "GapFamily":
        """Compare pairs of methods on the same lists."""
        return cls.of([Gap(*pair, methods.compare(*pair, margin)) for pair in pairs])

    @property
    def count(self) -> int:
        """The number of differences."""
        return len(self.each)

    def __str__(self) -> str:
        return listed(self.each)

    @property
    def better(self) -> int:
        """The number of significant differences as claimed."""
        return sum(one.side > 0 for one in self.each)

    @property
    def worse(self) -> int:
        """The number of those that speak against the claim: significantly worse, or alike."""
        return sum(one.side < 0 for one in self.each)

    @property
    def verdict(self) -> str:
        """Confirmed if all differences are significant as claimed, refuted if one speaks against it."""
        return each_way(self.better == self.count, bool(self.worse))

    def decided(self, unit: str, verdict: str = "", **facts: object) -> Ruling:
        """Return the ruling (by default that all are as claimed) with the difference that supports it least.

        The fact `over` describes the sample of the first difference: `over 2400 pairs, of one training each`.
        """
        least = min(self.each, key=lambda one: (one.side, one.found.difference)).found
        seeds = max(one.found.trainings.n_seeds for one in self.each)
        trainings = "one training" if seeds < 2 else f"{seeds} trainings"
        facts = {"found": self, "over": f"over {self.each[0].found.n_units} {unit}, of {trainings} each", **facts}
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


def difference_text(comparison: Comparison) -> str:
    """Format a difference with its interval: `+0.0242 (+0.0040 to +0.0444)`."""
    return f"{signed(comparison.difference)} ({signed(comparison.low)} to {signed(comparison.high)})"


DIRECT, RANKNET = "DirectRanker", "RankNet"

AGAINST_FIRST = (REFUTED, INCONCLUSIVE, CONFIRMED)
"""Verdicts, from the one against a claim to the one for it."""


@decides("N03")
def direct_ranker_and_ranknet_perform_alike(evidence: Evidence) -> Ruling:
    """Decide by whether they differ by less than a margin, on web queries and on faces.

    Refuted if a difference is significantly beyond the margin anywhere. Equal scores everywhere need no test.
    """
    found: list[Comparison] = []
    differences, metrics = [], []
    for dataset in (QUERIES, PIXELS):
        with suppress(MissingEvidence):
            methods = Methods(evidence, dataset)
            found.append(one := methods.compare(DIRECT, RANKNET))
            metrics.append(methods.metric)
            of_pairs = f"the share of correctly ordered pairs among {one.n_units}"
            of_queries = f"mean {methods.metric} over {one.n_units} queries"
            measure = of_queries if methods.scores.members is None else of_pairs
            differences.append(f"{difference_text(one)} in {measure} of {methods.title}")
    margins = [f"{smallest_effect(metric):g} ({metric})" for metric in metrics]
    if not found:
        raise MissingEvidence(f"no runs of both {DIRECT} and {RANKNET}: see comparisons in config.yaml")
    alike = all(
        one.margin.verdict == "alike" if one.margin else one.n_units > 1 and one.low == one.high == one.difference == 0
        for one in found
    )
    tests = [one.margin for one in found if one.margin]
    beyond = any(test.low > test.margin or test.high < -test.margin for test in tests)
    widest = max(found, key=lambda one: abs(one.difference))
    facts = {"direct": DIRECT, "ranknet": RANKNET, "differences": listed(differences), "margins": listed(margins)}
    n, measured = sum(one.n_units for one in found), (widest.difference, widest.low, widest.high)
    return Ruling(each_way(alike, beyond), facts, *measured, n, _sample(widest))


@decides("N15")
def networks_pay_with_many_features_alone(evidence: Evidence) -> Ruling:
    """Decide by the best network's lead, which should grow from none with few features to a significant one."""
    if evidence.runs is None:
        raise MissingEvidence("no runs: no file of them was given")
    if evidence.epochs is None:
        raise MissingEvidence("no epochs, whose validation scores pick the best network and the best other model")
    of_pixels = [path for path in evidence.predictions if path.parts[-4] in (PIXELS, f"{SYNTHETIC}{PIXELS}")]
    predictions = of_pixels if evidence.images else ()
    found = list(trends(feature_results(evidence.runs, evidence.epochs, predictions, evidence.images)))
    if not found:
        raise MissingEvidence("no methods on several numbers of features: see feature_counts in config.yaml")
    least = min(found, key=lambda one: (AGAINST_FIRST.index(one.verdict), one.signs[2], one.trend["difference"]))
    value, low, high = (least.trend[name] for name in ("difference", "low", "high"))
    verdict = together(*(one.verdict for one in found))
    return Ruling(verdict, {"changes": listed(found)}, value, low, high, len(least.rows))


LEAST_SEEDS = 2
"""Trainings of each method in a fold, of which fewer do not tell its lead from chance."""


@dataclass(frozen=True)
class LeadTrend:
    """The gaps of one family on one data set, and their trend.

    Attributes:
        margin: the smallest lead that matters.
        rows: a gap for each number of features, ascending.
        trend: the change of the gap with ten times the features.
        signs: 1 or -1 for the gap with the fewest features, that with the most, and the trend, if it is significant
            (Holm), else 0.
    """

    dataset: str
    rows: Sequence[dict[str, Any]]
    trend: dict[str, Any]
    signs: Sequence[int]
    margin: float

    @property
    def verdict(self) -> str:
        """Confirmed if the network wins with the most features, its lead grows, and does not matter with the fewest.

        One training of each method decides nothing: another one may lead. That a lead with few features is not
        significant does not show that networks are not needed there: its interval must lie below what matters. Refuted
        if the lead shrinks significantly, if the network loses with the most features, or wins with the fewest.
        """
        if self.trend["n_seeds"] < LEAST_SEEDS:
            return INCONCLUSIVE
        fewest, most, trend = self.signs
        not_needed = self.rows[0]["high"] <= self.margin
        return each_way(most > 0 and trend > 0 and not_needed, trend < 0 or most < 0 or fewest > 0)

    def __str__(self) -> str:
        change, low, high = (signed(self.trend[name]) for name in ("difference", "low", "high"))
        trend = {1: "significantly up", -1: "significantly down", 0: "not significant"}[self.signs[-1]]
        first, last = (f"{signed(row['difference'])} with {row['features']:,}" for row in (self.rows[0], self.rows[-1]))
        once = " (one training of each method, which decides nothing)" if self.trend["n_seeds"] < LEAST_SEEDS else ""
        where = f"on {data_set_title(self.dataset)}{once}"
        return f"{change} ({low} to {high}), {trend}, {where}, from {first} to {last}"


def trends(results: FeatureResults) -> Iterator[LeadTrend]:
    """Yield the trend of each data set and family with gaps at several numbers of features."""
    for (dataset, _), gaps in results.gaps.group_by("dataset", "family", maintain_order=True):
        rows = gaps.filter(pl.col("features").is_not_null()).sort("features").to_dicts()
        for trend in gaps.filter(pl.col("features").is_null()).to_dicts():
            deciding = (rows[0], rows[-1], trend)
            adjusted = corrected([row["p_value"] for row in deciding])
            signs = [
                int(math.copysign(p < LEVEL, row["difference"])) for row, p in zip(deciding, adjusted, strict=True)
            ]
            margin = smallest_effect(table_of(str(dataset)).metric)
            yield LeadTrend(str(dataset), rows, trend, signs, margin)


WEB10K = "mslr-web10k-label2"
"""The paper's data set in its reading: labels of 2 and more are relevant."""

NO_ARCHIVE = "The archive of MSLR-WEB10K is not available here"

RANDOM = "random"

TRAINED_BOTH_WAYS = (("Class-NN", "RankNet"), ("Class-LR", "Rank-LR"))
"""The same model as a classifier and as a ranker."""

WITH_BOTH_OPTIMISERS = ("RankNet", "DirectRanker", "Class-NN")


def _of_web10k(claim: str, judge: Callable[[Methods], Ruling], *, on_training: bool = False) -> Decider:
    """Return what decides a claim on MSLR-WEB10K if it has run; else it reports the same test on MQ2008.

    A claim `on_training` includes the models that did not train.
    """

    def decide(evidence: Evidence) -> Ruling | Verdict:
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
            return Verdict(NOT_TESTABLE, f"{NO_ARCHIVE}, nor can other queries be tested: {missing}.")
        would_be = f"{NO_ARCHIVE}; on {methods.title} the same claim would be {found.verdict}"
        reason = f"{would_be}: {found.reason[0].lower()}{found.reason[1:]}"
        statistic = f"on {methods.title}: {found.statistic}"
        return replace(found, verdict=NOT_TESTABLE, reason=reason, statistic=statistic)

    return decide


def _classification_against_ranking(methods: Methods) -> Ruling:
    """Compare the same network and the same linear model, trained both ways."""
    pairs = [pair for pair in TRAINED_BOTH_WAYS if methods.has(*pair)]
    if not pairs:
        raise MissingEvidence(f"no model was trained both ways on {methods.title}")
    of_random = f"; a random order scores {score(methods.mean(RANDOM))}" if methods.has(RANDOM) else ""
    return GapFamily.between(methods, pairs).decided("queries", of_random=of_random)


def _others_against_networks(methods: Methods) -> Ruling:
    """Compare every linear and every tree model with the best network of its family."""
    kinds = [[methods.of(family, network=network) for network in (False, True)] for family in (RANK, CLASSIFICATION)]
    pairs = [(other, methods.best(networks)) for others, networks in kinds if networks for other in others]
    if not pairs:
        raise MissingEvidence(f"no network beside other models on {methods.title}")
    return GapFamily.between(methods, pairs).decided("queries")


def _optimisers(methods: Methods) -> Ruling:
    """Decide by whether networks rank better than at random with either optimiser.

    Confirmed if plain gradients train all networks and Adam none, refuted if Adam trains one or plain gradients none.
    """
    methods.needs(RANDOM)
    names = [name for name in WITH_BOTH_OPTIMISERS if methods.has(name, f"{name}{AS_PRINTED}")]
    if not names:
        raise MissingEvidence(f"no network was trained with both optimisers on {methods.title}")
    found = GapFamily.between(methods, [(f"{name}{ending}", RANDOM) for ending in ("", AS_PRINTED) for name in names])
    by_adam, by_sgd = GapFamily(found.each[: len(names)]), GapFamily(found.each[len(names) :])
    confirmed = by_adam.worse == len(names) == by_sgd.better
    verdict = each_way(confirmed, bool(by_adam.better) or by_sgd.worse == len(names))
    return by_adam.decided("queries", verdict, by_sgd=by_sgd.better, both=found)


decides("N01")(_of_web10k("N01", _classification_against_ranking))
decides("N02")(_of_web10k("N02", _others_against_networks))
decides("N06")(_of_web10k("N06", _optimisers, on_training=True))
