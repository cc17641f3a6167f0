"""Claims about networks on web queries and faces: two pairwise networks, and the effect of many features."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rankbound.compare import Comparison
from rankbound.compare.margins import LEVEL, MARGIN
from rankbound.compare.statistics import holm
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import PIXELS, QUERIES, Methods, difference_text, listed, read_methods
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import together
from rankbound_study.claims.sample_sizes import Sample
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.results.neural_features import FeatureResults, feature_results
from rankbound_study.results.neural_names import data_set_title
from rankbound_study.results.number_texts import signed

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
