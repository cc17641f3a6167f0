"""Trainings on lists whose truth is known, up to the leaderboard: a linear signal is found, and none is not."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from planted_systems import STUDY

from rankbound_study.claims.leaderboard import BETTER, WORSE
from rankbound_study.cli import main
from rankbound_study.data.contracts import SPLITS, lists_table, write_table
from rankbound_study.data.sampling import write_instances
from rankbound_study.jobs.collect import collect
from rankbound_study.jobs.controls_job import run_controls
from rankbound_study.report.tables import leaderboard
from rankbound_study.results.study_files import StudyFiles

TOPICS, ITEMS, FEATURES = 50, 12, 4
DATASET = "planted-label1"
MODELS = {
    "": {"name": "mlp", "hidden": [8]},
    "models-linear": {"name": "linear"},
    "models-trees": {"name": "boosted-trees", "rounds": 20, "every": 4, "leaves": 8, "learning_rate": 0.2},
}


def write_lists(folder: Path, signal: float) -> tuple[Path, Path]:
    """Two folds of lists in which each of three features tells a third of the relevance, times `signal`."""
    random = np.random.default_rng(5)
    count = 2 * len(SPLITS) * TOPICS * ITEMS
    features = random.normal(size=(count, FEATURES)).astype(np.float32)
    utility = signal * features[:, :3].sum(1) + random.normal(size=count)
    relevance = (utility > np.quantile(utility, 0.7)).astype(np.int8)
    features[:, 1] = 1000 * features[:, 1] + 77
    parts, first = [], 0
    for fold in (1, 2):
        for split in SPLITS:
            items = np.arange(first, first := first + TOPICS * ITEMS)
            offsets = np.arange(0, TOPICS * ITEMS + 1, ITEMS)
            names = [f"{split}-{fold}-{topic}" for topic in range(TOPICS)]
            parts.append((fold, split, lists_table(names, items, relevance[items], offsets)))
    write_instances(folder / "instances.parquet", DATASET, None, parts, item_count=count)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), FEATURES)
    offsets = pa.array([0, count], pa.int32())
    columns = {
        "items": pa.array([f"d{row}" for row in range(count)]),
        "relevance": pa.array(relevance),
        "features": vectors,
    }
    table = {name: pa.ListArray.from_arrays(offsets, column) for name, column in columns.items()}
    write_table(pa.table({"topic": pa.array(["all"]), **table}), folder / "lists.parquet", "lists")
    return folder / "instances.parquet", folder / "lists.parquet"


def trained(folder: Path, signal: float) -> pl.DataFrame:
    """Train every model with and without a bound, measure the controls, and return the leaderboard."""
    instances, lists = write_lists(folder, signal)
    shared = {"protocol": "honest", "dataset": DATASET, "nsr": None, "study": STUDY, "folds": [1, 2]}
    controls = {**shared, "controls": ["random", "best-feature", "oracle"]}
    run_controls(json.dumps(controls), instances, folder / "controls.parquet", lists)
    trainer = {"optimiser": "adam", "learning_rate": 0.05, "epochs": 12, "batch_size": 16, "scale": "standard"}
    made: dict[str, list[Path]] = {"runs": [folder / "controls.parquet"], "experiments": []}
    for variant, model in MODELS.items():
        for bounding in ("none", "min-max"):
            options = {**shared, "model": model, "loss": "nDCG", "bounding": bounding, "seeds": [0], "temperature": 1.0}
            options |= {"variant": variant} | ({} if model["name"] == "boosted-trees" else trainer)
            out = folder / f"{variant}-{bounding}.parquet"
            arguments = ["job", "--instances", str(instances), "--lists", str(lists), "--out", str(out)]
            assert main([*arguments, "--device", "cpu", "--options", json.dumps(options)]) == 0
            made["experiments" if variant else "runs"].append(out)
    epochs = {"runs": "epochs", "experiments": "experiment_epochs"}
    for name, paths in made.items():
        collect(paths, *(folder / f"{one}.parquet" for one in (name, epochs[name], f"rates of {name}")))
    files = StudyFiles(**{name: folder / f"{name}.parquet" for name in (*epochs, *epochs.values())})
    return leaderboard.make_leaderboard(leaderboard.NAME, files, study=STUDY).table


@pytest.fixture(scope="module")
def with_signal(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    return trained(tmp_path_factory.mktemp("signal"), 1.0)


def test_models_beat_the_best_feature_which_beats_a_random_order(with_signal: pl.DataFrame) -> None:
    models = with_signal.filter(pl.col("rank").is_not_null())
    assert len(models) == 6
    assert set(models["baseline_verdict"]) == {BETTER}
    random = with_signal.filter(pl.col("model") == "random").row(0, named=True)
    assert random["baseline_verdict"] == WORSE
    assert random["best_verdict"] == WORSE
    best = with_signal.filter(pl.col("model") == "best-feature").row(0, named=True)
    assert all(abs(place) in (1, 2, 3) for place in json.loads(best["options"])["features"])
    # The signal is linear: no other model is better than a linear one.
    linear = with_signal.filter(pl.col("model") == "linear")["score"].max()
    assert linear is not None
    assert linear > 0.97 * float(with_signal.filter(pl.col("rank") == 1)["score"][0])  # type: ignore[operator]


def test_without_a_signal_no_model_trained_or_is_better_than_another(tmp_path: Path) -> None:
    table = trained(tmp_path, 0.0).filter(pl.col("model") != "oracle")
    models = table.filter(pl.col("loss") != "none")
    assert models["n_untrained"].sum() or models["rank"].count()
    for comparison in ("best", "counterpart", "baseline"):
        verdicts = table[f"{comparison}_verdict"].drop_nulls()
        assert len(verdicts) or (models["n_untrained"] > 0).all()
        assert not verdicts.str.contains(f"{BETTER}|{WORSE}").any()
