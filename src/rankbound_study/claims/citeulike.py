"""The published finding on CiteULike-a, that RBP losses beat nDCG and AP losses, and the same losses trained here.

Li, Urbano and Hanjalic (SIGIR 2021) report a grid of losses, ratios, folds and learning rates; the test part picks both
rate and epoch. Their loss `dcg` is nDCG's, and their losses `rbp*` are one rank-sum loss, nRBP's of thesis eq. 2.12,
which weighs a user by P(N - P); its min-max bounding weighs all users alike. As published, their code (listMF.py,
utils.py, list_loss.py) calls this loss with the scale factor 0.01, meant for ranks, in the place of the sigmoid's: its
smooth ranks have the temperature 100, those of the other losses 1.

Here, every loss and bounding has its own rate at each ratio and temperature: picked, like the epoch, by the validation
part, or by the test part for a comparison at the published level.
"""

import json
from collections.abc import Iterator
from importlib.resources import files

import polars as pl

from rankbound.compare.scores import mean_of_known, per_unit
from rankbound_study.claims.cells import contrast
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.varied import Training, picked_by_validation, picked_rows, trainings
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.experiments import VARIANT
from rankbound_study.results.scores import scores_of_runs
from rankbound_study.results.specs import scan_runs
from rankbound_study.vocabulary import JUDGED_BY, UNBOUNDED

DATASET = "citeulike-a"
EXPERIMENTS = ("rates", "flat")
"""The experiments whose variants are learning rates: at the usual temperature, and at a high one."""

METRICS = ("nDCG", "AP")
"""Published metrics that the runs have."""

WINNER: Training = ("nRBP", UNBOUNDED)
_PUBLISHED_TEMPERATURES = {"nRBP": 100.0}
"""Temperatures of the published losses other than 1."""

_PUBLISHED_LOSSES = {"dcg": "nDCG", "ap": "AP", **dict.fromkeys(("rbp", "rbp_80", "rbp_90", "rbp_95"), "nRBP")}

_TRAINED: dict[str, pl.DataType] = {
    "nsr": pl.Int8(),
    "temperature": pl.Float64(),
    **dict.fromkeys(("loss", "bounding"), pl.String()),
    "rate": pl.Float64(),
    "at_edge": pl.Boolean(),
    **{f"{picked}{metric}": pl.Float64() for picked in ("", "test_picked_") for metric in METRICS},
    **{f"{metric}_{name}": pl.Float64() for metric in METRICS for name in ("behind", "low", "high")},
    "n_trainings": pl.Int64(),
}
COLUMNS = _TRAINED | {f"published_{metric}": pl.Float64() for metric in METRICS}
"""Columns of the table. `at_edge` marks a picked rate that is the lowest or highest of those trained; `behind` is the
unbounded nRBP loss at the same temperature minus the row's, with a 95 % interval over users and trainings.
"""


def citeulike(evidence: Evidence) -> pl.DataFrame:
    """Return a row per ratio, loss and bounding; none if the experiment did not run."""
    ran = [(name, nsr) for name in EXPERIMENTS for nsr in _ratios(evidence, name)]
    rows = [row for name, nsr in ran for row in _of_ratio(evidence, name, nsr)]
    table = pl.DataFrame(rows, schema=_TRAINED).sort("nsr", "temperature", maintain_order=True)
    key = ["nsr", "temperature", "loss", "bounding"]
    return table.join(published_scores(), on=key, how="left", maintain_order="left").select(list(COLUMNS))


def published_scores() -> pl.DataFrame:
    """Return the published means over folds, each at the best rate for the metric; equal losses are averaged."""
    resource = files("rankbound_study.reference").joinpath("sigir21_citeulike.csv")
    grid = pl.read_csv(resource.read_bytes(), schema_overrides={"nsr": pl.Int8})
    known = grid.filter(pl.col("loss").is_in(list(_PUBLISHED_LOSSES)))
    best = known.group_by("loss", "nsr", "fold").agg(pl.col(METRICS).max())
    means = best.group_by(pl.col("loss").replace_strict(_PUBLISHED_LOSSES), "nsr").agg(pl.col(METRICS).mean())
    named = means.rename({metric: f"published_{metric}" for metric in METRICS})
    temperature = pl.col("loss").replace_strict(_PUBLISHED_TEMPERATURES, default=1.0).alias("temperature")
    return named.with_columns(temperature, pl.lit(UNBOUNDED).alias("bounding"))


def _ratios(evidence: Evidence, experiment: str) -> list[int]:
    """Return the ratios at which an experiment ran."""
    if evidence.experiments is None:
        return []
    study = f"{evidence.study}{VARIANT}{experiment}-"
    rows = scan_runs(evidence.experiments).filter(
        pl.col("study").str.starts_with(study), pl.col("dataset") == DATASET, pl.col("nsr_test").is_not_null()
    )
    found: list[int] = rows.select("nsr_test").unique().sort("nsr_test").collect()["nsr_test"].to_list()
    return found


def _of_ratio(evidence: Evidence, experiment: str, nsr: int) -> Iterator[dict[str, object]]:
    variants = {
        name: rows.select("options", "selection", *KEY, *JUDGED_BY.values()).collect()
        for name, rows in evidence.variants(experiment, DATASET, nsr).items()
    }
    picked = picked_by_validation(evidence, experiment, DataSet(DATASET, nsr))
    if not picked:
        return
    by = {
        part: {name: rows.filter(pl.col("selection") == part) for name, rows in variants.items()}
        for part in ("validation", "test")
    }
    chosen = picked_rows(by["validation"], picked)
    for training in trainings(chosen):
        rates = {
            name: _option(rows, training, "learning_rate")
            for name, rows in variants.items()
            if len(_of(rows, training))
        }
        rate = rates[picked[training]]
        yield {
            "nsr": nsr,
            "temperature": _option(chosen, training, "temperature"),
            "loss": training[0],
            "bounding": training[1],
            "rate": rate,
            "at_edge": len(rates) > 1 and rate in (min(rates.values()), max(rates.values())),
            "n_trainings": _of(chosen, training).select("fold", "seed").n_unique(),
            **{metric: _mean(_of(chosen, training), metric) for metric in METRICS},
            **{
                f"test_picked_{metric}": max(_mean(_of(by["test"][name], training), metric) for name in rates)
                for metric in METRICS
            },
            **_behind(chosen, training),
        }


def _behind(chosen: pl.DataFrame, training: Training) -> dict[str, float]:
    """Return the differences to the unbounded nRBP loss; none for itself, or without it."""
    if training == WINNER or not len(_of(chosen, WINNER)):
        return {}
    found: dict[str, float] = {}
    for metric in METRICS:
        both = pl.concat([_of(chosen, WINNER), _of(chosen, training)])
        scores = scores_of_runs(both, metric, by=("loss", "bounding"))
        measured = contrast(scores.pair(" / ".join(WINNER), " / ".join(training))).measured
        found |= {f"{metric}_{name}": value for name, value in zip(("behind", "low", "high"), measured, strict=True)}
    return found


def _of(rows: pl.DataFrame, training: Training) -> pl.DataFrame:
    loss, bounding = training
    return rows.filter(pl.col("loss") == loss, pl.col("bounding") == bounding)


def _option(rows: pl.DataFrame, training: Training, name: str) -> float:
    return float(json.loads(_of(rows, training)["options"][0])[name])


def _mean(rows: pl.DataFrame, metric: str) -> float:
    """Return the mean over users of their means over folds and seeds."""
    return float(mean_of_known(per_unit(scores_of_runs(rows, metric, by=("loss", "bounding")).values[0])))
