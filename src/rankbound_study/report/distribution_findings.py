"""Compute the finding about variants of the distribution bound: which should be used, if any."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from rankbound_study.claims.cells import significance
from rankbound_study.claims.comparisons import AFFINE_PREFIX, VARIANT_COLUMNS
from rankbound_study.report.findings import Finding
from rankbound_study.report.table_files import read_table
from rankbound_study.report.typeset_numbers import DASH, signed
from rankbound_study.vocabulary import LOSSES

FILE = "table_sensitivity_distribution.csv"


class _Variant(NamedTuple):
    """A loss with a variant of the bound: counts of data sets on which it is significantly better or worse."""

    loss: str
    bounding: str
    data_sets: int
    untrained: int
    higher: int
    lower: int
    mean: float | None
    above_affine: int
    below_affine: int

    def __str__(self) -> str:
        return f"{self.loss} with {self.bounding}"

    @property
    def helps(self) -> bool:
        """Significantly better than the unbounded loss on some data set, and neither worse nor untrained on any."""
        return self.higher > 0 and not self.lower and not self.untrained


def distribution_findings(folder: Path) -> Iterator[Finding]:
    """Name the variants that help and harm nowhere, and those that beat the best affine bounding; nothing without any.

    A variant should be used if it ranks better than the best affine bounding, too, on some data set, and nowhere worse.
    """
    if not (folder / FILE).exists():
        return
    table = read_table(folder / FILE, VARIANT_COLUMNS)
    if table.is_empty():
        return
    variants = [_variant(part) for part in table.partition_by("loss", "bounding", maintain_order=True)]
    variants.sort(key=lambda one: LOSSES.index(one.loss))
    helping = [one for one in variants if one.helps]
    best = [one for one in helping if one.above_affine and not one.below_affine]
    yield Finding(
        f"Distribution bounding should be used for {_named(best)}: it ranks significantly better than no bounding and "
        "the best affine one on some data set, and significantly worse on none."
        if best
        else "No variant of distribution bounding should be used: none ranks significantly better than no bounding and "
        "the best affine one without ranking worse, or not training, on another data set.",
        f"Better than no bounding and nowhere worse: {_named(helping)}. Data sets on which each variant is "
        "significantly higher or lower (Holm) than the unbounded loss, and than the affine bounding that the "
        "validation part picks:",
        ("loss", "bounding", "data sets", "did not train", "higher", "lower", "mean change", "above affine", "below"),
        tuple(_row(one) for one in variants),
    )


def _variant(part: pl.DataFrame) -> _Variant:
    loss, bounding = part.select("loss", "bounding").row(0)
    sides, affine = (
        [significance(*row) for row in part.select(f"{prefix}difference", f"{prefix}p_holm").rows()]
        for prefix in ("", AFFINE_PREFIX)
    )
    mean: float | None = part.select(pl.col("difference").mean()).item()
    untrained = int((~part["trained"]).sum())
    counts = (sides.count(1), sides.count(-1))
    return _Variant(loss, bounding, len(part), untrained, *counts, mean, affine.count(1), affine.count(-1))


def _row(one: _Variant) -> tuple[str, ...]:
    mean = DASH if one.mean is None else signed(one.mean)
    numbers = (one.data_sets, one.untrained, one.higher, one.lower)
    return (one.loss, one.bounding, *map(str, numbers), mean, str(one.above_affine), str(one.below_affine))


def _named(variants: list[_Variant]) -> str:
    return ", ".join(map(str, variants)) or "none"
