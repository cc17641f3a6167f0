"""Summarise Table 5.1: cells reproduced, the reading of MQ2008 that fits, the spread of equal losses."""

from typing import Any

import polars as pl

from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.report.table_5_1_scores import TOLERANCE
from rankbound_study.results.trained import UNTRAINED
from rankbound_study.vocabulary import AFFINE

_DIGITS = 6


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
        "cells": _cells(trained),
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


def _cells(trained: pl.DataFrame) -> dict[str, dict[str, int]]:
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
    return None if value is None else round(value, _DIGITS)
