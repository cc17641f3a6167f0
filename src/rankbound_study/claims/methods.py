"""The methods of the neural-ranking study: their scores on the same lists, and tests between them."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare import Comparison, PairedScores, Settings, adjust, compare
from rankbound.compare.margins import LEVEL, MARGIN
from rankbound.compare.statistics import holm
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.rules import Sample
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Untrained, Verdict
from rankbound_study.config.comparisons import OF_FEATURES, STUDY
from rankbound_study.results.neural_names import AS_PRINTED, CONTROL, FAMILIES, data_set_title
from rankbound_study.results.neural_runs import FAMILY_NAMES, NETWORKS
from rankbound_study.results.scores import best_of, names_pairs, scores_of_methods, scores_of_runs
from rankbound_study.results.specs import signed

QUERIES, PIXELS, FEATURES = "mq2008-label1", "aaf", "aaf-vgg16"
"""The data sets on which claims of the neural-ranking study can be decided."""

METRICS = {QUERIES: "nDCG@10", PIXELS: "PairAccuracy", FEATURES: "PairAccuracy"}

RANK, REGRESSION, CLASSIFICATION = FAMILIES


@dataclass(frozen=True)
class Methods:
    """Methods on one data set, by name, with random order and the oracle.

    Attributes:
        dataset: its name in the runs.
        metric: the metric that compares them.
        frame: their rows, with the key and the metric.
        families: the family of each method.
        networks: the methods that are networks.
        trained_as: the name of each method in the files.
        epochs: the file with their validation scores.
    """

    dataset: str
    metric: str
    frame: pl.DataFrame
    families: Mapping[str, str]
    networks: frozenset[str]
    trained_as: Mapping[str, str]
    epochs: Path | None = None

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
        if self.epochs is None:
            raise MissingEvidence("no epochs, whose validation scores pick the best of several methods")
        scores = scores_of_methods(self.epochs, self.dataset, self.metric)
        return {name: scores[trained] for name, trained in self.trained_as.items() if trained in scores}

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

    def compare(self, name: str, other: str, margin: float = MARGIN) -> Comparison:
        """Compare one method with another on the same lists."""
        self.needs(name, other)
        return compare(self.scores.pair(name, other), Settings(margin=margin))

    def has(self, *names: str) -> bool:
        """Check that all of them ran."""
        return set(names) <= set(self.families)

    def needs(self, *names: str) -> None:
        """Raise MissingEvidence unless all of them ran."""
        missing = [name for name in names if name not in self.families]
        if missing:
            raise MissingEvidence(f"no runs of {', '.join(missing)} on {self.title}: see comparisons in config.yaml")


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


def read_methods(evidence: Evidence, dataset: str, *, width: int | None = None, shifted: bool = False) -> Methods:
    """Read the methods that see all features of a data set unchanged, or (`shifted`) those that see moved pictures.

    With `width`, the number of all features, include the methods that were configured with this number, by plain name.

    Raises:
        MissingEvidence: there are no such methods.
        Untrained: none of them trained.
    """
    metric = METRICS.get(dataset, METRICS[QUERIES])
    rows = evidence.cell(dataset, study=STUDY)
    names = rows.collect_schema().names()
    frame = rows.select("dataset", "options", *(name for name in KEY[2:] if name in names), metric).collect()
    options_of = {text: json.loads(text) for text in frame["options"].unique()}
    kept = [text for text, options in options_of.items() if _is_asked_for(options, width, shifted)]
    control = pl.col("loss") == "none"
    frame = frame.filter(pl.col("options").is_in(kept) | control)
    plain = pl.col("model").str.replace(f"{OF_FEATURES}\\d+$", "")
    # A method with and without the number of all features is one method, trained twice.
    frame = frame.filter((pl.col("model") == plain) | ~plain.is_in(frame["model"].unique().to_list()))
    frame = frame.with_columns(plain.alias("model"), pl.col("model").alias("trained"))
    facts = frame.select("model", "options", "loss").unique(["model"], keep="first", maintain_order=True).rows()
    trained_as = dict(frame.select("model", "trained").unique().sort("model").rows())
    families = {model: CONTROL if loss == "none" else _family(options_of[text]) for model, text, loss in facts}
    if set(families.values()) <= {CONTROL}:
        seen = "moved pictures of " if shifted else ""
        if evidence.untrained():
            # MissingEvidence if none ran, either.
            read_methods(evidence.of_all_trainings(), dataset, width=width, shifted=shifted)
            raise Untrained(f"Methods on {seen}{data_set_title(dataset)} ran, but none of them trained")
        raise MissingEvidence(f"no methods on {seen}{data_set_title(dataset)}: see comparisons in config.yaml")
    networks = frozenset(model for model, text, _ in facts if options_of[text].get("model") in NETWORKS)
    return Methods(
        frame["dataset"][0], metric, frame.drop("options", "trained"), families, networks, trained_as, evidence.epochs
    )


@dataclass(frozen=True)
class GapFamily:
    """Differences of methods, each in the claimed order, as one family of tests (Holm)."""

    each: Sequence[Gap]

    @classmethod
    def of(cls, found: Sequence[Gap]) -> "GapFamily":
        """Correct the p-values over all gaps."""
        corrected = adjust([one.found for one in found])
        p_alike = holm([one.found.margin.p_alike if one.found.margin else math.nan for one in found])
        return cls(
            [
                replace(one, found=comparison, p_alike=p_value)
                for one, comparison, p_value in zip(found, corrected, p_alike, strict=True)
            ]
        )

    @classmethod
    def between(cls, methods: Methods, pairs: Iterable[tuple[str, str]], margin: float = MARGIN) -> "GapFamily":
        """Compare pairs of methods on the same lists."""
        return cls.of([Gap(name, other, methods.compare(name, other, margin)) for name, other in pairs])

    def __len__(self) -> int:
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
        return REFUTED if self.worse else CONFIRMED if self.better == len(self) else INCONCLUSIVE

    @property
    def ends(self) -> tuple[list[float], list[float]]:
        """The lower and the upper ends of the intervals."""
        return [one.found.low for one in self.each], [one.found.high for one in self.each]

    def over(self, unit: str) -> str:
        """Describe the sample: `over 2400 pairs, of one training each`."""
        seeds = max(one.found.trainings.n_seeds for one in self.each)
        trainings = "one training" if seeds < 2 else f"{seeds} trainings"
        return f"over {self.each[0].found.n_units} {unit}, of {trainings} each"

    def decided(self, reason: str, statistic: str, shown_in: str = "", verdict: str = "") -> Verdict:
        """Return the verdict (by default that all are as claimed) with the difference that supports it least."""
        least = min(self.each, key=lambda one: (one.side, one.found.difference)).found
        return Verdict(
            verdict or self.verdict,
            reason,
            statistic,
            least.difference,
            least.low,
            least.high,
            least.p_adjusted,
            least.n_units,
            shown_in,
            Sample.of_interval(least.low, least.high, least.n_units, MARGIN),
        )


def together_of(frames: Iterable[pl.DataFrame], metric: str) -> PairedScores:
    """Return the scores of trained methods of several data sets on the same pairs."""
    frame = pl.concat([one.drop("dataset") for one in frames], how="diagonal").filter(pl.col("loss") != "none")
    return scores_of_runs(frame, metric, by=("model",), members=names_pairs(frame))


def listed(found: Sequence[Any]) -> str:
    """Join several texts: `one, two and three`."""
    *most, last = [str(one) for one in found]
    return f"{', '.join(most)} and {last}" if most else last


def difference_text(comparison: Comparison) -> str:
    """Format a difference with its interval: `+0.0242 (+0.0040 to +0.0444)`."""
    return f"{signed(comparison.difference)} ({signed(comparison.low)} to {signed(comparison.high)})"


def _is_asked_for(options: Mapping[str, Any], width: int | None, shifted: bool) -> bool:
    sees_all = options.get("features") in (None, width)
    return sees_all and ("shift" in options) == shifted


def _family(options: Mapping[str, Any]) -> str:
    name = str(options.get("family", ""))
    return FAMILY_NAMES.get(name, name)
