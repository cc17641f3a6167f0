"""Per-list scores of several methods side by side."""

import math

import polars as pl

from rankbound_study.results.method_means import MethodMeans
from rankbound_study.results.neural_names import PAIR_ACCURACY
from rankbound_study.results.neural_pairs import compared


def method_means(frame: pl.DataFrame, metric: str, pairs: pl.DataFrame | None) -> tuple[tuple[str, ...], MethodMeans]:
    """Return the methods and their per-list means; those of faces allow for pairs that share a face."""
    averaged = frame.group_by("method", "fold", "topic").agg(pl.col(metric).mean())
    wide = averaged.pivot("method", index=["fold", "topic"], values=metric).sort("fold", "topic")
    methods = tuple(sorted(set(wide.columns) - {"fold", "topic"}))
    values = wide.select(pl.col(methods).cast(pl.Float64).fill_null(math.nan)).to_numpy().T
    if metric != PAIR_ACCURACY or pairs is None:
        return methods, MethodMeans(values)
    found = compared(pairs, PAIR_ACCURACY)
    return found.methods, found.means
