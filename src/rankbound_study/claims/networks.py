"""Claims about networks and other models: two pairwise networks, the number of features, web queries.

Claims about web queries are about MSLR-WEB10K. Without its archive, the same test on MQ2008 is reported, but decides
nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from rankbound.compare import Comparison
from rankbound.compare.margins import LEVEL, MARGIN
from rankbound.compare.statistics import holm
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import (
    CLASSIFICATION,
    PIXELS,
    QUERIES,
    RANK,
    GapFamily,
    Methods,
    difference_text,
    listed,
    read_methods,
)
from rankbound_study.claims.registry import Decider, decides
from rankbound_study.claims.rules import Sample, together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, NOT_TESTABLE, REFUTED, MissingEvidence, Verdict
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.results.neural_names import AS_PRINTED, data_set_title
from rankbound_study.results.neural_runs import FeatureResults, feature_results
from rankbound_study.results.specs import score, signed

DIRECT, RANKNET = "DirectRanker", "RankNet"

AGAINST_FIRST = (REFUTED, INCONCLUSIVE, CONFIRMED)
"""Verdicts, from the one against a claim to the one for it."""


@decides("N03")
def direct_ranker_and_ranknet_perform_alike(evidence: Evidence) -> Verdict:
    """Decide by whether they differ by less than a margin, on web queries and on faces."""
    found = [(methods, methods.compare(DIRECT, RANKNET)) for methods in _that_ran(evidence, DIRECT, RANKNET)]
    if not found:
        raise MissingEvidence(f"no runs of both {DIRECT} and {RANKNET}: see comparisons in config.yaml")
    differences = [f"{difference_text(one)} in {_measure(methods, one)} of {methods.title}" for methods, one in found]
    widest = max((one for _, one in found), key=lambda one: abs(one.difference))
    return Verdict(
        _verdict_of_likeness([one for _, one in found]),
        f"{DIRECT} minus {RANKNET} is {listed(differences)}, where a difference below {MARGIN} at 90 % confidence "
        "counts as alike.",
        f"mean score, {DIRECT} minus {RANKNET}, the larger",
        widest.difference,
        widest.low,
        widest.high,
        widest.margin.p_alike if widest.margin else float("nan"),
        sum(one.n_units for _, one in found),
        "table_neural_1 table_neural_2",
        Sample.of_interval(widest.low, widest.high, widest.n_units, MARGIN),
    )


@decides("N15")
def networks_pay_with_many_features_alone(evidence: Evidence) -> Verdict:
    """Decide by the best network's lead, which should grow from none with few features to a significant one."""
    found = list(trends(_by_features(evidence)))
    if not found:
        raise MissingEvidence("no methods on several numbers of features: see feature_counts in config.yaml")
    least = min(found, key=lambda one: (AGAINST_FIRST.index(one.verdict), one.signs[2], one.trend["difference"]))
    value, low, high = (least.trend[name] for name in ("difference", "low", "high"))
    return Verdict(
        together(*(one.verdict for one in found)),
        f"With ten times the features, the lead of the best network over the best linear or tree model changes by "
        f"{listed(found)}.",
        "change of the network's lead with ten times the features",
        value,
        low,
        high,
        least.adjusted[-1],
        len(least.rows),
        "table_neural_features figure_neural_features",
    )


@dataclass(frozen=True)
class LeadTrend:
    """The gaps of one family on one data set, and their trend.

    Attributes:
        rows: a gap for each number of features, ascending.
        trend: the change of the gap with ten times the features.
        adjusted: p-values of the gap with the fewest features, of that with the most, and of the trend, by Holm.
        signs: 1 or -1 for each of these that is significant, else 0.
    """

    dataset: str
    rows: Sequence[dict[str, Any]]
    trend: dict[str, Any]
    adjusted: Sequence[float]
    signs: Sequence[int]

    @property
    def verdict(self) -> str:
        """Confirmed if the network wins with the most features, its lead grows, and is below 0.01 with the fewest.

        That a lead with few features is not significant does not show that networks are not needed there: the interval
        must lie below the margin. Refuted if the lead shrinks significantly, if the network loses with the most
        features, or wins with the fewest.
        """
        fewest, most, trend = self.signs
        if trend < 0 or most < 0 or fewest > 0:
            return REFUTED
        not_needed = self.rows[0]["high"] <= MARGIN
        return CONFIRMED if most > 0 and trend > 0 and not_needed else INCONCLUSIVE

    def __str__(self) -> str:
        change, low, high = (signed(self.trend[name]) for name in ("difference", "low", "high"))
        trend = {1: "significantly up", -1: "significantly down", 0: "not significant"}[self.signs[-1]]
        first, last = (f"{signed(row['difference'])} with {row['features']:,}" for row in (self.rows[0], self.rows[-1]))
        return f"{change} ({low} to {high}), {trend}, on {data_set_title(self.dataset)}, from {first} to {last}"


def trends(results: FeatureResults) -> Iterator[LeadTrend]:
    """Yield the trend of each data set and family with gaps at several numbers of features."""
    for (dataset, _), gaps in results.gaps.group_by("dataset", "family", maintain_order=True):
        rows = gaps.filter(pl.col("features").is_not_null()).sort("features").to_dicts()
        for trend in gaps.filter(pl.col("features").is_null()).to_dicts():
            deciding = (rows[0], rows[-1], trend)
            adjusted = holm([row["p_value"] for row in deciding])
            signs = [_sign(row, p_value) for row, p_value in zip(deciding, adjusted, strict=True)]
            yield LeadTrend(str(dataset), rows, trend, adjusted, signs)


def _sign(row: dict[str, Any], p_value: float) -> int:
    if p_value >= LEVEL:
        return 0
    return 1 if row["difference"] > 0 else -1


def _that_ran(evidence: Evidence, *names: str) -> Iterator[Methods]:
    """Yield the methods of the data sets on which all these methods ran."""
    for dataset in (QUERIES, PIXELS):
        try:
            methods = read_methods(evidence, dataset)
            methods.needs(*names)
        except MissingEvidence:
            continue
        yield methods


def _verdict_of_likeness(found: list[Comparison]) -> str:
    """Return confirmed if alike everywhere, refuted if a difference is significantly beyond the margin anywhere."""
    tests = [one.margin for one in found]
    if any(test is not None and (test.low > test.margin or test.high < -test.margin) for test in tests):
        return REFUTED
    return CONFIRMED if all(_is_alike(one) for one in found) else INCONCLUSIVE


def _is_alike(comparison: Comparison) -> bool:
    """Check for a difference within the margin; equal scores everywhere need no test."""
    if comparison.margin is not None:
        return comparison.margin.verdict == "alike"
    return comparison.n_units > 1 and comparison.low == comparison.high == comparison.difference == 0


def _by_features(evidence: Evidence) -> FeatureResults:
    if evidence.runs is None:
        raise MissingEvidence("no runs: no file of them was given")
    of_pixels = (PIXELS, f"{SYNTHETIC}{PIXELS}")
    if evidence.epochs is None:
        raise MissingEvidence("no epochs, whose validation scores pick the best network and the best other model")
    predictions = [path for path in evidence.predictions if path.parts[-4] in of_pixels]
    return feature_results(evidence.runs, evidence.epochs, predictions if evidence.images else (), evidence.images)


def _measure(methods: Methods, found: Comparison) -> str:
    if methods.scores.members is None:
        return f"mean {methods.metric} over {found.n_units} queries"
    return f"the share of correctly ordered pairs among {found.n_units}"


WEB10K = "mslr-web10k-label2"
"""The paper's data set in its reading: labels of 2 and more are relevant."""

NO_ARCHIVE = "The archive of MSLR-WEB10K is not available here"

SHOWN = "table_neural_1"

RANDOM = "random"

TRAINED_BOTH_WAYS = (("Class-NN", "RankNet"), ("Class-LR", "Rank-LR"))
"""The same model as a classifier and as a ranker."""

NETWORKS = ("RankNet", "DirectRanker", "Class-NN")


def _of_web10k(judge: Callable[[Methods], Verdict], *, on_training: bool = False) -> Decider:
    """Return what decides a claim on MSLR-WEB10K if it has run; else it reports the same test on MQ2008.

    A claim `on_training` includes the models that did not train.
    """

    def decide(evidence: Evidence) -> Verdict:
        evidence = evidence.of_all_trainings() if on_training else evidence
        try:
            methods = read_methods(evidence, WEB10K)
        except MissingEvidence:
            return _of_other_queries(evidence, judge)
        return judge(methods)

    return decide


def _of_other_queries(evidence: Evidence, judge: Callable[[Methods], Verdict]) -> Verdict:
    try:
        methods = read_methods(evidence, QUERIES)
        found = judge(methods)
    except MissingEvidence as missing:
        return Verdict(NOT_TESTABLE, f"{NO_ARCHIVE}, nor can other queries be tested: {missing}.")
    reason = f"{found.reason[0].lower()}{found.reason[1:]}"
    return replace(
        found,
        verdict=NOT_TESTABLE,
        reason=f"{NO_ARCHIVE}; on {methods.title} the same claim would be {found.verdict}: {reason}",
        statistic=f"on {methods.title}: {found.statistic}",
    )


def _classification_against_ranking(methods: Methods) -> Verdict:
    """Compare the same network and the same linear model, trained both ways."""
    found = GapFamily.between(methods, [pair for pair in TRAINED_BOTH_WAYS if methods.has(*pair)])
    if not found:
        raise MissingEvidence(f"no model was trained both ways on {methods.title}")
    of_random = f"; a random order scores {score(methods.mean(RANDOM))}" if methods.has(RANDOM) else ""
    return found.decided(
        f"The difference in mean nDCG@10 between the same model as a classifier and as a pairwise ranker is {found}, "
        f"{found.over('queries')}{of_random}.",
        "mean nDCG@10, classifier minus ranker",
        SHOWN,
    )


def _others_against_networks(methods: Methods) -> Verdict:
    """Compare every linear and every tree model with the best network of its family."""
    pairs = [
        (other, methods.best(networks))
        for family in (RANK, CLASSIFICATION)
        if (networks := methods.of(family, network=True))
        for other in methods.of(family, network=False)
    ]
    if not pairs:
        raise MissingEvidence(f"no network beside other models on {methods.title}")
    found = GapFamily.between(methods, pairs)
    return found.decided(
        f"{found.better} of {len(found)} other models rank significantly better than the best network of their family, "
        f"and {found.worse} significantly worse or alike, {found.over('queries')} ({found}).",
        "mean nDCG@10, other model minus network",
        SHOWN,
    )


def _optimisers(methods: Methods) -> Verdict:
    """Decide by whether networks rank better than at random with either optimiser.

    Confirmed if plain gradients train all networks and Adam none, refuted if Adam trains one or plain gradients none.
    """
    methods.needs(RANDOM)
    names = [name for name in NETWORKS if methods.has(name, f"{name}{AS_PRINTED}")]
    if not names:
        raise MissingEvidence(f"no network was trained with both optimisers on {methods.title}")
    found = GapFamily.between(methods, [(f"{name}{ending}", RANDOM) for ending in ("", AS_PRINTED) for name in names])
    by_adam, by_sgd = GapFamily(found.each[: len(names)]), GapFamily(found.each[len(names) :])
    confirmed = by_adam.worse == len(names) == by_sgd.better
    refuted = by_adam.better or by_sgd.worse == len(names)
    return by_adam.decided(
        f"{by_adam.better} of {len(names)} networks rank better than at random when trained with Adam on scaled "
        f"features, and {by_sgd.better} with plain gradients as printed, {found.over('queries')} ({found}).",
        "mean nDCG@10, network trained with Adam minus random order",
        SHOWN,
        REFUTED if refuted else CONFIRMED if confirmed else INCONCLUSIVE,
    )


DECLARED = {
    "N01": _of_web10k(_classification_against_ranking),
    "N02": _of_web10k(_others_against_networks),
    "N06": _of_web10k(_optimisers, on_training=True),
}
