"""What the scores by the number of features say: where a network pays, and whether more features make it pay more."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rankbound.paper.neural_verdicts import FAILS, HOLDS, LEVEL, OPEN, Item, judged
from rankbound.paper.plain_table import signed
from rankbound.results.neural_features import FeatureResults
from rankbound.results.neural_names import data_set_title
from rankbound.results.number_texts import probability
from rankbound.statistics.randomisation import holm
from rankbound.study.data_sets import SYNTHETIC


def feature_findings(results: FeatureResults | None) -> Iterator[Item]:
    """N15: the gap between the best network and the best other model, by the number of features.

    Generated data say nothing about a claim.
    """
    for one in [] if results is None else trends(results):
        if not one.dataset.startswith(SYNTHETIC):
            yield _of_family(one)


@dataclass(frozen=True)
class Trend:
    """The gaps of one family on one data set, and how they change.

    Attributes:
        rows: a gap for each number of features, ascending.
        trend: the change of the gap with ten times the features.
        adjusted: p-values of the gaps, then of the trend, by Holm over all of them.
        signs: of the same: 1 or -1 where a difference is sure, 0 where it may be chance.
        verdict: of `FAILS`, `OPEN`, `HOLDS`.
    """

    dataset: str
    rows: Sequence[dict[str, Any]]
    trend: dict[str, Any]
    adjusted: Sequence[float]
    signs: Sequence[int]
    verdict: int


def trends(results: FeatureResults) -> Iterator[Trend]:
    """One of each data set and family with gaps at several numbers of features."""
    for (dataset, _), gaps in results.gaps.group_by("dataset", "family", maintain_order=True):
        rows = gaps.filter(pl.col("features").is_not_null()).sort("features").to_dicts()
        for trend in gaps.filter(pl.col("features").is_null()).to_dicts():
            adjusted = holm([row["p_value"] for row in (*rows, trend)])
            signs = [_sign(row, p_value) for row, p_value in zip((*rows, trend), adjusted, strict=True)]
            yield Trend(str(dataset), rows, trend, adjusted, signs, _verdict(signs[0], signs[-2], signs[-1]))


def _of_family(one: Trend) -> Item:
    rows, trend, adjusted, signs = one.rows, one.trend, one.adjusted, one.signs
    change = {1: "Its lead grows", -1: "Its lead shrinks", 0: "Its lead has no certain trend"}[signs[-1]]
    return judged(
        one.verdict,
        f"networks are needed with many features and not with few, on {data_set_title(one.dataset)}",
        f"{_places(rows, signs)} {change}: {signed(trend['difference'])} with ten times the features (95 % interval "
        f"{signed(trend['low'])} to {signed(trend['high'])}, p {probability(adjusted[-1])}). The best network minus "
        "the best other model of its family (best by these scores), both on the same columns, drawn at random; "
        "p-values are adjusted by Holm over this table and the trend:",
        ("features", "methods", "gap", "95 % interval", "p (Holm)"),
        tuple(
            (
                f"{row['features']:,}",
                f"{row['network']} − {row['other']}",
                signed(row["difference"]),
                f"{signed(row['low'])} to {signed(row['high'])}",
                probability(p_value),
            )
            for row, p_value in zip(rows, adjusted, strict=False)
        ),
        differences=[signed(row["difference"]) for row in rows],
    )


def _sign(row: dict[str, Any], p_value: float) -> int:
    """1 or -1 where a difference is sure, 0 where it may be chance."""
    if p_value >= LEVEL:
        return 0
    return 1 if row["difference"] > 0 else -1


def _verdict(fewest: int, most: int, trend: int) -> int:
    """Holds if the network wins with the most features, not with the fewest, and its lead grows between them.

    It fails if the lead surely shrinks, if the network loses with the most features, or wins with the fewest.
    """
    if trend < 0 or most < 0 or fewest > 0:
        return FAILS
    return HOLDS if most > 0 and trend > 0 else OPEN


def _places(rows: Sequence[dict[str, Any]], signs: Sequence[int]) -> str:
    """Where the network wins, loses, or neither is certain."""
    told = []
    for sign, text in ((1, "wins with {}"), (-1, "loses with {}"), (0, "neither wins nor loses for certain with {}")):
        *most, last = ["", *(f"{row['features']:,}" for row, found in zip(rows, signs, strict=False) if found == sign)]
        if last:
            told.append(text.format(f"{', '.join(most[1:])}{' and ' * (len(most) > 1)}{last} features"))
    return f"The best network {'; it '.join(told)}."
