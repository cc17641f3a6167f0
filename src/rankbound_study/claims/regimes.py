"""The effect of bounding by regime: how much list sizes spread, whether tastes go with them, and the model's capacity.

A regime is a data set under one setting of the model: the study's own, or that of a variant. The influence of a list is
the range of its loss over all orders (`P(N - P)` for nRBP), by which an unbounded mean weighs it; its coefficient of
variation between the test lists, which have the proportions of the training lists, measures how unequal the weights are
that bounding by minimum and maximum removes.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import rankbound as rb
from rankbound.compare import Pair
from rankbound.compare.scores import Floats, mean_of_known, per_unit
from rankbound.compare.statistics import percentiles
from rankbound_study.claims.cells import Cell, judge
from rankbound_study.claims.evidence import KEY
from rankbound_study.claims.resampled import resampled_means
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.experiments import VARIANT
from rankbound_study.config.samplings import SampledName
from rankbound_study.results.paired_scores import scores_of_runs
from rankbound_study.results.runs_file import scan_runs
from rankbound_study.results.specs import StudyFiles
from rankbound_study.results.trained import read_trainings, untrained_counts
from rankbound_study.vocabulary import HONEST, JUDGED_BY, LOSSES, SELECTIONS, UNBOUNDED

_REGIME = ("study", "dataset", "nsr_test", "options")
_SYSTEM = ("loss", "bounding")

PLANTED = ("spread", "correlation", "rank")
COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("spread", "correlation"), pl.Float64()),
    **dict.fromkeys(("rank", "factors"), pl.Int64()),
    "log_sd": pl.Float64(),
    **dict.fromkeys(("loss", "bounding", "metric"), pl.String()),
    "influence_cv": pl.Float64(),
    "pairs": pl.Float64(),
    **dict.fromkeys(("unbounded", "effect", "low", "high", "effect_short", "effect_long"), pl.Float64()),
    **dict.fromkeys(("n_topics", "n_trainings", "n_untrained"), pl.Int64()),
}
"""Columns of the table: planted parameters (null for real data), facts about the lists, and effects.

`log_sd` is the standard deviation of log P, `pairs` the mean of `P(N - P)`. Effects are bounded minus unbounded, with a
95 % interval; `effect_short` and `effect_long` are those of the topics with fewer relevant items than the median, and
of all others (null if all have equally many). `n_untrained` counts the trainings, bounded or unbounded, that did not
train.
"""


def regimes(files: StudyFiles, study: str, planted: Mapping[str, Mapping[str, float]]) -> pl.DataFrame:
    """Return a row per regime, loss and bounding; `planted` are the parameters of generated data sets, by name."""
    tables = [(files.runs, files.epochs), (files.experiments, files.experiment_epochs)]
    rows = pl.concat([_trained(runs, study) for runs, _ in tables if runs is not None])
    counts = untrained_counts(read_trainings(*tables), _REGIME + _SYSTEM)
    untrained = dict(zip(counts.select(_REGIME + _SYSTEM).rows(), counts["n_untrained"].to_list(), strict=True))
    parts = rows.partition_by(_REGIME, maintain_order=True)
    table = pl.DataFrame([row for part in parts for row in _regime(part, planted, untrained)], schema=COLUMNS)
    losses = {name: place for place, name in enumerate(LOSSES)}
    return table.sort(
        pl.col("rank").is_null(),
        pl.col("factors") < pl.col("rank"),
        "correlation",
        "spread",
        "dataset",
        pl.col("loss").replace_strict(losses, return_dtype=pl.Int64),
        maintain_order=True,
    )


def _trained(path: Path, study: str) -> pl.DataFrame:
    """Read the honest runs of a study and of its variants."""
    own = (pl.col("study") == study) | pl.col("study").str.starts_with(f"{study}{VARIANT}")
    honest = (pl.col("protocol") == HONEST) & (pl.col("selection") == SELECTIONS[HONEST])
    chosen = scan_runs(path).filter(own, honest, pl.col("loss").is_in(LOSSES))
    return chosen.select("study", "options", *KEY, *JUDGED_BY.values()).collect()


def _regime(
    rows: pl.DataFrame, planted: Mapping[str, Mapping[str, float]], untrained: Mapping[tuple[object, ...], int]
) -> Iterator[dict[str, object]]:
    regime = rows.select(_REGIME).row(0)
    _, dataset, nsr, options = regime
    lists = rows.unique(["topic", "fold"]).filter(pl.col("p") > 0, pl.col("p") < pl.col("n")).sort("topic", "fold")
    n, p = (lists[name].to_numpy().astype(np.int64) for name in ("n", "p"))
    parameters = planted.get(SampledName.of(dataset).source, {})
    facts = {
        "dataset": dataset,
        "nsr": nsr,
        **{name: parameters.get(name) for name in PLANTED},
        "factors": json.loads(options).get("factors"),
        "log_sd": float(np.log(p).std()),
        "pairs": float((p * (n - p)).mean()),
    }
    pairs = dict(_pairs(rows, DataSet(dataset, nsr)))
    if not pairs:
        return
    resampled = resampled_means(pairs)
    for (cell, pair), means in zip(pairs.items(), resampled.T, strict=True):
        influence = rb.maximum(cell.loss, n, p) - rb.minimum(cell.loss, n, p)
        yield {
            **facts,
            **{name: getattr(cell, name) for name in ("loss", "bounding", "metric")},
            "influence_cv": float(influence.std() / influence.mean()),
            "n_trainings": int(np.isfinite(pair.a).any(0).sum()),
            "n_untrained": sum(
                untrained.get((*regime, cell.loss, bounding), 0) for bounding in (cell.bounding, UNBOUNDED)
            ),
            **_effects(pair, means, lists),
        }


def _pairs(rows: pl.DataFrame, column: DataSet) -> Iterator[tuple[Cell, Pair]]:
    """Yield every bounding of every loss with its scores, paired with those of the unbounded loss."""
    for (loss,), own in sorted(rows.partition_by("loss", as_dict=True).items()):
        metric = judge(str(loss))
        scores = scores_of_runs(own, metric, by=("bounding",))
        for bounding in scores.systems:
            if bounding != UNBOUNDED and UNBOUNDED in scores.systems:
                yield Cell(str(loss), bounding, column, metric), scores.pair(bounding, UNBOUNDED)


def _effects(pair: Pair, resampled: Floats, lists: pl.DataFrame) -> dict[str, Any]:
    sizes = dict(lists.group_by("topic").agg(pl.col("p").mean()).rows())
    relevant = np.array([sizes.get(unit, np.nan) for unit in pair.units])
    short = relevant < np.nanmedian(relevant)
    low, high = percentiles(resampled)
    halves = [float(mean_of_known(pair.differences[kept])) if short.any() else None for kept in (short, ~short)]
    return {
        "unbounded": float(mean_of_known(per_unit(pair.b))),
        "effect": float(mean_of_known(pair.differences)),
        "low": low,
        "high": high,
        "effect_short": halves[0],
        "effect_long": halves[1],
        "n_topics": len(pair.units),
    }
