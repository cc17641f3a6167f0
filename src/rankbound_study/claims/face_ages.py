"""Claims about ages: the share of their variance that regression explains, and the pairs that are ordered wrongly."""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import Floats, Integers
from rankbound.compare.statistics import Estimate, over_members
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import PIXELS, REGRESSION, Methods, read_methods
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.results.neural_names import FAMILIES
from rankbound_study.results.neural_pairs import GAPS, explained, read_pairs, with_readings

PRINTED_R_SQUARED = 0.28
"""The share of variance that the best age regression explains (Li and Wu section 5)."""

CLOSE = 0.05
"""Largest difference from the printed share that counts as the same."""


@decides("N13")
def best_regression_explains_28_percent(evidence: Evidence) -> Verdict:
    """Decide by whether the best regression by validation explains the printed share of the variance, within 0.05.

    Confirmed if the whole interval is within this distance, refuted if none of it is.
    """
    methods = read_methods(evidence, PIXELS)
    found = explained(pairs_of(evidence, methods, methods.of(REGRESSION)))
    best = methods.best(sorted(found))
    value, low, high, faces = found[best]
    others = ", ".join(f"{name} {found[name][0]:.1%}" for name in sorted(found) if name != best)
    least, most = PRINTED_R_SQUARED - CLOSE, PRINTED_R_SQUARED + CLOSE
    return Verdict(
        CONFIRMED if least <= low and high <= most else REFUTED if high < least or low > most else INCONCLUSIVE,
        f"{best}, the best regression by validation, explains {value:.1%} (interval {low:.1%} to {high:.1%}) of the "
        f"variance of age in {faces} test faces of {methods.title}{f'; of the others, {others}' if others else ''}.",
        "share of the variance of age that the best regression explains",
        value,
        low,
        high,
        n=faces,
        shown_in="table_neural_2",
    )


@decides("N14")
def wrongly_ordered_pairs_are_close_in_age(evidence: Evidence) -> Verdict:
    """Decide by whether the accuracy of the best method by validation rises with the age difference."""
    methods = read_methods(evidence, PIXELS)
    best = methods.best([name for family in FAMILIES for name in methods.of(family)])
    trend = Trend.of(with_readings(pairs_of(evidence, methods, [best])))
    p_value = trend.slope.p_value()
    low, high = trend.slope.interval(1 - LEVEL)
    by_group = ", ".join(
        f"{share:.1%} of {count} at {_years(*gap)}"
        for gap, share, count in zip(GAPS, trend.accuracy, trend.counts, strict=True)
        if count
    )
    return Verdict(
        INCONCLUSIVE if p_value >= LEVEL else CONFIRMED if trend.slope.mean > 0 else REFUTED,
        f"The share of correctly ordered pairs of {methods.title} changes by {trend.slope.mean:+.3f} from each group "
        f"of age differences to the next ({low:+.3f} to {high:+.3f}): {best} orders {by_group} years correctly.",
        "change of pair accuracy with each wider group of age differences",
        trend.slope.mean,
        low,
        high,
        p_value,
        sum(trend.counts),
        "figure_neural_gaps",
    )


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


def _years(least: int, most: int) -> str:
    return f"{least} to {most}" if most < GAPS[-1][1] else f"{least} or more"
