"""A results folder of both studies on planted runs: every table that the report quotes a number or a verdict of."""

import json
from pathlib import Path

import polars as pl
from neural_studies import Planted, write_study
from synthetic_runs import write_runs
from test_claims_methods import by_features

from rankbound_study.cli import main

WEB = {
    "RankNet": 0.55,
    "DirectRanker": 0.56,
    "Rank-LR": 0.5,
    "LambdaMART": 0.6,
    "RankNet-as-printed": 0.4,
    "Class-NN": 0.53,
    "Class-LR": 0.45,
    "Class-Boost": 0.57,
    "random": 0.25,
}
"""Method -> mean nDCG@10 on MQ2008."""


def write_tables(folder: Path) -> Path:
    """Make the tables by the commands, in `folder`/tables."""
    study = write_study(folder, web="mslr-web10k-label2")
    methods = Planted(folder / "planted").queries(WEB)
    by_features(-0.1, 0.0, 0.1)(methods)
    planted = methods.evidence()
    first = write_runs(folder / "first.parquet", protocols=("published", "honest"), topics=12, folds=2, seeds=2)
    runs, epochs = folder / "runs.parquet", folder / "epochs.parquet"
    _joined([study.runs, planted.runs, first], runs)
    _joined([study.epochs, planted.epochs], epochs)
    files = ["--runs", runs, "--epochs", epochs]
    of_faces = ["--images", study.images, "--predictions", *study.predictions]
    options = {"table_5_1": {"study": "thesis"}, "table_5_1_honest": {"study": "thesis"}}
    for name, wanted in options.items():
        _run(folder, "table", name, "--runs", runs, "--options", json.dumps(wanted))
    _run(folder, "table", "table_flattery", "--runs", runs, "--options", json.dumps({"study": "thesis"}))
    _run(folder, "table", "table_neural_1", *files)
    _run(folder, "table", "table_neural_2", *files, *of_faces)
    _run(folder, "table", "table_neural_features", *files, *of_faces)
    _run(folder, "claims", *files, *of_faces)
    return folder


def _joined(paths: list[Path | None], target: Path) -> None:
    pl.concat([pl.read_parquet(path) for path in paths if path is not None], how="diagonal_relaxed").write_parquet(
        target
    )


def _run(folder: Path, *words: object) -> None:
    assert main([*map(str, words), "--out-dir", str(folder / "tables")]) == 0
