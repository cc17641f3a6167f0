"""Compute and summarise Table 5.1: mean scores by loss, bounding and data set, with the printed scores.

The table is in long form, with one row per data set, loss, bounding and metric. A test list counts once per fold (its
seeds are averaged first); lists on which a metric is undefined are skipped and counted. `ours` is the mean of the
folds' means, `ours_pooled` the mean over all lists. Both readings of MQ2008 have the same printed score, and nRBP is
scored at three persistences (`as_printed` marks the one that the thesis names). Synthetic data have no printed scores.
`margin` is half of the 95 % interval of a mean; `change` is a bounded loss minus the unbounded one, with half of its
interval and the p-value of no change, adjusted over the printed cells. `n_untrained` of the `n_trainings` of a cell did
not train (see `rankbound_study.results.trained`); a difference with such a cell is not tested.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims.cells import certainty, holm_adjusted
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.results import scores
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.trained import UNTRAINED, untrained_counts
from rankbound_study.vocabulary import AFFINE, BOUNDINGS, JUDGED_BY, UNBOUNDED

TOLERANCE = 0.015
"""Largest difference between our score and the printed one for a cell to count as reproduced."""

METRICS = {
    "nDCG": ("nDCG",),
    "AP": ("AP",),
    "nRBP": ("nRBP(p=0.95)", "nRBP(p=0.9)", "nRBP(p=0.8)"),
}
"""Loss -> the metrics reported for it, the printed one first."""

COLUMNS = {
    **dict.fromkeys(("protocol", "dataset"), pl.String),
    "nsr": pl.Int8,
    **dict.fromkeys(("model", "loss", "bounding", "metric"), pl.String),
    **dict.fromkeys(("published", "ours", "ours_pooled", "difference"), pl.Float64),
    **dict.fromkeys(("within_0.015", "as_printed"), pl.Boolean),
    **dict.fromkeys(("margin", "change", "change_margin", "p_holm"), pl.Float64),
    **dict.fromkeys(("n_lists", "n_skipped", "n_folds", "n_seeds", "n_trainings", "n_untrained"), pl.Int64),
}

_CELL = ["dataset", "nsr", "model", "loss", "bounding"]
_READINGS = {"mq2008": ("mq2008-label1", "mq2008-label2")}
_LOSS_NAMES = {"ndcg": "nDCG", "ap": "AP", "nrbp": "nRBP"}


def table_5_1(runs: Path, choice: RunsChoice, epochs: Path | None = None) -> pl.DataFrame:
    """Return the table in long form: trained cells first, then the controls; columns as in `COLUMNS`.

    `epochs` has the gradients by which some trainings are known not to have trained.
    """
    trained = [_cells(runs, choice, loss) for loss in METRICS]
    table = pl.concat([*trained, *(_control_cells(runs, choice, loss) for loss in METRICS)])
    table = table.join(printed_scores(), on=["dataset", "nsr", "loss", "bounding"], how="left", nulls_equal=True)
    difference = pl.col("ours") - pl.col("published")
    table = table.with_columns(
        pl.lit(choice.protocol).alias("protocol"),
        difference.alias("difference"),
        # Slack for rounding errors: 0.955 - 0.940 counts as 0.015.
        (difference.abs() <= TOLERANCE + 1e-12).alias("within_0.015"),
        pl.col("metric").is_in(list(JUDGED_BY.values())).alias("as_printed"),
    )
    table = table.join(_counts(runs, epochs, choice), on=_CELL, how="left", nulls_equal=True)
    table = table.with_columns(pl.when(~_compared_with_untrained()).then("p_value").alias("p_value"))
    table = table.with_columns(holm_adjusted(table))
    return _in_order(table.select(list(COLUMNS)).cast(COLUMNS))  # type: ignore[arg-type]


def _counts(runs: Path, epochs: Path | None, choice: RunsChoice) -> pl.DataFrame:
    """Count the trainings of each cell, and those that did not train."""
    trainings = scores.chosen_trainings(runs, epochs, choice)
    return untrained_counts(trainings.rename({"nsr_test": "nsr"}), _CELL)


def _compared_with_untrained() -> pl.Expr:
    """Select cells that did not train, or whose unbounded loss did not."""
    unbounded = (UNTRAINED & (pl.col("bounding") == UNBOUNDED)).any().over("dataset", "nsr", "model", "loss", "metric")
    return UNTRAINED | unbounded


def printed_scores() -> pl.DataFrame:
    """Return the 60 printed cells of Table 5.1; those of MQ2008 twice, once per reading of its labels."""
    resource = files("rankbound_study.reference").joinpath("thesis_table_5_1.csv")
    printed = pl.read_csv(resource.read_bytes(), schema_overrides={"nsr": pl.Int8, "score": pl.Float64})
    return (
        printed.with_columns(
            pl.col("loss").replace_strict(_LOSS_NAMES),
            pl.col("dataset").map_elements(lambda name: list(_READINGS.get(name, (name,))), pl.List(pl.String)),
        )
        .explode("dataset")
        .select("dataset", "nsr", "loss", "bounding", pl.col("score").alias("published"))
    )


def _cells(runs: Path, choice: RunsChoice, loss: str) -> pl.DataFrame:
    frame = scores.read_scores(runs, METRICS[loss], choice).filter(pl.col("loss") == loss)
    return _means(frame, METRICS[loss])


def _control_cells(runs: Path, choice: RunsChoice, loss: str) -> pl.DataFrame:
    return _means(scores.read_scores(runs, METRICS[loss], choice, controls=True), METRICS[loss])


def _means(frame: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    cell = ["dataset", "nsr", "model", "loss", "bounding", "metric"]
    long = frame.rename({"nsr_test": "nsr"}).unpivot(
        on=list(metrics),
        index=["dataset", "nsr", "model", "loss", "bounding", "fold", "seed", "topic"],
        variable_name="metric",
        value_name="score",
    )
    margins = pl.concat([certainty(frame, metric) for metric in metrics])
    lists = long.group_by(*cell, "fold", "topic", maintain_order=True).agg(pl.col("score").mean())
    folds = lists.group_by(*cell, "fold", maintain_order=True).agg(pl.col("score").mean())
    return (
        lists.group_by(cell, maintain_order=True)
        .agg(
            pl.col("score").mean().alias("ours_pooled"),
            pl.col("score").count().cast(pl.Int64).alias("n_lists"),
            pl.col("score").null_count().cast(pl.Int64).alias("n_skipped"),
        )
        .join(
            folds.group_by(cell, maintain_order=True).agg(
                pl.col("score").mean().alias("ours"), pl.col("fold").n_unique().cast(pl.Int64).alias("n_folds")
            ),
            on=cell,
            nulls_equal=True,
        )
        .join(
            long.group_by(cell, maintain_order=True).agg(pl.col("seed").n_unique().cast(pl.Int64).alias("n_seeds")),
            on=cell,
            nulls_equal=True,
        )
        .join(margins, on=cell, how="left", nulls_equal=True)
    )


def _in_order(table: pl.DataFrame) -> pl.DataFrame:
    """Sort trained cells before controls, then by data set, loss, metric and bounding in the order of the thesis."""
    metrics = [metric for names in METRICS.values() for metric in names]
    boundings = [*BOUNDINGS, *sorted(set(table["bounding"].unique()) - set(BOUNDINGS))]
    sets = [tuple(data_set) for data_set in scores.data_sets(table.rename({"nsr": "nsr_test"}))]
    losses = [*METRICS, "none"]

    def position(row: Mapping[str, Any]) -> tuple[int, ...]:
        control = row["loss"] == "none"
        place = sets.index((row["dataset"], row["nsr"]))
        return (
            control,
            place,
            losses.index(row["loss"]),
            metrics.index(row["metric"]),
            boundings.index(row["bounding"]),
        )

    rows = sorted(table.iter_rows(named=True), key=lambda row: (position(row), str(row["model"])))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def summarise(table: pl.DataFrame) -> dict[str, Any]:
    """Return the summary of Table 5.1 as nested numbers, ready for JSON.

    Keys: protocol, tolerance, synthetic, cells (data set -> within, total), mq2008 (the reading of the labels that
    fits, per metric and cell; null unless both were run), nrbp_spread (data set -> largest minus smallest mean of the
    three equal losses), controls (data set -> metric -> best trained model, popularity, random, oracle),
    distribution_on_ndcg (data set -> change against unbounded), skipped (data set -> lists without a defined value).
    """
    trained = table.filter(pl.col("loss") != "none", pl.col("as_printed"))
    return {
        "protocol": table["protocol"][0] if len(table) else None,
        "tolerance": TOLERANCE,
        "synthetic": bool(table["dataset"].str.starts_with(SYNTHETIC).any()),
        "cells": _reproduced(trained),
        "mq2008": _readings(table.filter(pl.col("loss") != "none")),
        "nrbp_spread": _spreads(trained),
        "controls": _controls(table, trained),
        "distribution_on_ndcg": _changes(trained),
        "skipped": _skipped(trained),
    }


def metrics(table: pl.DataFrame) -> dict[str, Any]:
    """Return every mean as nested numbers, for `dvc metrics`: data set -> loss -> metric -> bounding -> score."""
    nested: dict[str, Any] = {}
    for row in table.filter(pl.col("loss") != "none").iter_rows(named=True):
        of_metric = nested.setdefault(cell_name(row), {}).setdefault(row["loss"], {}).setdefault(row["metric"], {})
        of_metric[row["bounding"]] = _rounded(row["ours"])
    for row in table.filter(pl.col("loss") == "none").iter_rows(named=True):
        nested.setdefault(cell_name(row), {}).setdefault("controls", {}).setdefault(row["metric"], {})[row["model"]] = (
            _rounded(row["ours"])
        )
    return nested


def cell_name(row: dict[str, Any]) -> str:
    """Return a data set's name with its NSR, as in the names of instances files: movielens-nsr1, mq2008-label2."""
    return row["dataset"] if row["nsr"] is None else f"{row['dataset']}-nsr{row['nsr']}"


def _reproduced(trained: pl.DataFrame) -> dict[str, dict[str, int]]:
    compared = trained.filter(pl.col("published").is_not_null(), pl.col("ours").is_not_null())
    counts = compared.group_by("dataset").agg(
        pl.col("within_0.015").sum().cast(pl.Int64).alias("within"), pl.len().cast(pl.Int64).alias("total")
    )
    return {
        row["dataset"]: {"within": row["within"], "total": row["total"]} for row in counts.sort("dataset").to_dicts()
    }


def _readings(trained: pl.DataFrame) -> dict[str, Any]:
    """Return the mean absolute difference to print by metric and reading, the nearer reading, and the same per cell."""
    compared = trained.filter(pl.col("dataset").str.starts_with("mq2008-"), pl.col("difference").is_not_null())
    readings: dict[str, Any] = {"mean_absolute_difference": {}, "fits": {}, "cells": []}
    for (metric,), of_metric in compared.group_by("metric", maintain_order=True):
        means = of_metric.group_by("dataset").agg(pl.col("difference").abs().mean()).sort("dataset").rows()
        readings["mean_absolute_difference"][metric] = {name: _rounded(value) for name, value in means}
        readings["fits"][metric] = min(means, key=lambda pair: pair[1])[0] if len(means) > 1 else None
    for (loss, bounding, metric), cell in compared.group_by("loss", "bounding", "metric", maintain_order=True):
        sizes = dict(cell.select("dataset", pl.col("difference").abs()).rows())
        readings["cells"].append(
            {
                "loss": loss,
                "bounding": bounding,
                "metric": metric,
                "fits": min(sorted(sizes), key=lambda name: sizes[name]) if len(sizes) > 1 else None,
                "absolute_difference": {name: _rounded(value) for name, value in sorted(sizes.items())},
            }
        )
    return readings


def _spreads(trained: pl.DataFrame) -> dict[str, float | None]:
    equal = trained.filter(pl.col("loss") == "nRBP", pl.col("bounding").is_in(AFFINE))
    spreads = {}
    for _, cell in equal.group_by("dataset", "nsr", maintain_order=True):
        if len(cell) == len(AFFINE):
            values = cell["ours"].to_list()
            spreads[cell_name(cell.row(0, named=True))] = _rounded(max(values) - min(values))
    return spreads


def _controls(table: pl.DataFrame, trained: pl.DataFrame) -> dict[str, Any]:
    """Return the unbounded and the best trained model and the controls, by data set and printed metric."""
    by_data_set: dict[str, Any] = {}
    for (_, _, _), cell in trained.group_by("dataset", "nsr", "loss", maintain_order=True):
        row = cell.row(0, named=True)
        # A score that trainings did not earn is the best only where there is no other.
        best = cell.sort(UNTRAINED, "ours", descending=[False, True], nulls_last=True).row(0, named=True)
        controls = table.filter(
            pl.col("loss") == "none",
            pl.col("dataset") == row["dataset"],
            pl.col("nsr").eq_missing(pl.lit(row["nsr"], dtype=pl.Int8)),
            pl.col("metric") == row["metric"],
        )
        unbounded = cell.filter(pl.col("bounding") == "none")["ours"].to_list()
        by_data_set.setdefault(cell_name(row), {})[row["metric"]] = {
            "unbounded": _rounded(unbounded[0]) if unbounded else None,
            "best": _rounded(best["ours"]),
            "best_bounding": best["bounding"],
            **{model: _rounded(value) for model, value in controls.select("model", "ours").sort("model").rows()},
        }
    return by_data_set


def _changes(trained: pl.DataFrame) -> dict[str, float | None]:
    of_loss = trained.filter(pl.col("loss") == "nDCG")
    changes = {}
    for _, cell in of_loss.group_by("dataset", "nsr", maintain_order=True):
        values = dict(cell.select("bounding", "ours").rows())
        if values.get("none") is not None and values.get("distribution") is not None:
            changes[cell_name(cell.row(0, named=True))] = _rounded(values["distribution"] - values["none"])
    return changes


def _skipped(trained: pl.DataFrame) -> dict[str, dict[str, int]]:
    rows = trained.group_by("dataset", "nsr", maintain_order=True).first().iter_rows(named=True)
    return {cell_name(row): {"lists": row["n_lists"], "skipped": row["n_skipped"]} for row in rows}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
