"""The map of regimes, from runs whose effects are planted."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from rankbound_study.claims.effects import REGIME_COLUMNS, regimes
from rankbound_study.cli import main
from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.job import RUN_METRICS
from rankbound_study.results.study_files import StudyFiles

SHORT, LONG = 4, 40
"""Relevant items of the two kinds of users; lists have as many irrelevant ones."""
EFFECTS = {"short": 0.04, "long": -0.01}
USERS = 20
PLANTED = {"synthetic-wide": {"spread": 1.5, "correlation": 1.0, "rank": 4}}


def rows(study: str, factors: int, *, dataset: str = "synthetic-wide", effects: dict[str, float] = EFFECTS) -> list:
    """Runs of nRBP, unbounded and min-max bounded, whose scores differ by the effects (and a little by the seed)."""
    random = np.random.default_rng(factors)
    base = 0.5 + 0.1 * random.standard_normal((USERS, 3))
    key = {"study": study, "protocol": "honest", "dataset": dataset, "nsr_train": 1, "nsr_test": 1}
    key |= {"model": "matrix-factorization", "options": json.dumps({"factors": factors}), "loss": "nRBP", "fold": 1}
    found = []
    for bounding in ("none", "min-max"):
        for user in range(USERS):
            kind, p = ("short", SHORT) if user < USERS // 2 else ("long", LONG)
            for seed in range(3):
                score = base[user, seed] + effects[kind] * (bounding == "min-max")
                lists = {"topic": str(user), "n": 2 * p, "p": p, "seed": seed, "epoch": 1}
                run = key | lists | {"bounding": bounding, **dict.fromkeys(RUN_METRICS, score)}
                found += [run | {"selection": selection} for selection in ("validation", "last")]
    return found


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    runs, experiments = tmp_path / "runs.parquet", tmp_path / "experiments.parquet"
    other = [run | {"protocol": "published"} for run in rows("map", 4)]
    write_table(pa.Table.from_pylist([*rows("map", 4), *rows("other", 4), *other]), runs, "runs")
    doubled = {kind: 2 * effect for kind, effect in EFFECTS.items()}
    write_table(pa.Table.from_pylist(rows("map@below-f2", 2, effects=doubled)), experiments, "runs")
    return runs, experiments


def test_effects_are_those_of_the_runs(files: tuple[Path, Path]) -> None:
    table = regimes(StudyFiles(files[0], experiments=files[1]), "map", PLANTED)
    assert table["factors"].to_list() == [4, 2]
    for row, times in zip(table.iter_rows(named=True), (1, 2), strict=True):
        assert row["effect_short"] == pytest.approx(0.04 * times)
        assert row["effect_long"] == pytest.approx(-0.01 * times)
        assert row["effect"] == pytest.approx(0.015 * times)
        # The standard error over users is 0.0056: half of them differ by 0.05 from the others.
        assert 0.001 * times < row["low"] < 0.008 * times
        assert 0.022 * times < row["high"] < 0.029 * times
        assert (row["n_topics"], row["n_trainings"]) == (USERS, 3)
        assert (row["spread"], row["correlation"], row["rank"]) == (1.5, 1.0, 4)


def test_influence_is_the_range_of_the_loss(files: tuple[Path, Path]) -> None:
    row = regimes(StudyFiles(files[0]), "map", PLANTED).row(0, named=True)
    pairs = np.array([SHORT**2, LONG**2], dtype=float)
    assert row["pairs"] == pytest.approx(pairs.mean())
    assert row["influence_cv"] == pytest.approx(pairs.std() / pairs.mean())
    assert row["log_sd"] == pytest.approx(np.log(LONG / SHORT) / 2)


def test_real_data_have_no_planted_parameters(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    write_table(pa.Table.from_pylist(rows("map", 32, dataset="movielens-mixed-1-2-3")), path, "runs")
    row = regimes(StudyFiles(path), "map", PLANTED).row(0, named=True)
    assert row["spread"] is row["correlation"] is row["rank"] is None
    assert row["factors"] == 32


def epochs(folder: Path, vanished: float = 1.0) -> Path:
    """The epochs of the study's own runs; the gradients of one bounded training are as large as stated."""
    own = pl.DataFrame(rows("map", 4)).unique(["bounding", "seed"])
    one = (pl.col("bounding") == "min-max") & (pl.col("seed") == 1)
    norm = pl.when(one).then(vanished).otherwise(1.0)
    measured = own.with_columns(part=pl.lit("test"), mean_loss=pl.lit(1.0), gradient_norm=norm)
    names = ["study", "protocol", "dataset", "nsr_train", "nsr_test", "model", "options", "loss", "bounding", "fold"]
    names += ["seed", "epoch", "part", "mean_loss", "gradient_norm", "nDCG", "AP", "nRBP(p=0.95)"]
    write_table(measured.select(names).to_arrow(), folder / "epochs.parquet", "epochs")
    return folder / "epochs.parquet"


def test_trainings_that_did_not_train_are_counted(files: tuple[Path, Path], tmp_path: Path) -> None:
    for vanished, count in ((1.0, 0), (1e-12, 1)):
        table = regimes(StudyFiles(files[0], epochs(tmp_path, vanished)), "map", PLANTED)
        assert table["n_untrained"].to_list() == [count]


def test_without_an_unbounded_loss_there_is_no_effect(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    bounded = [run for run in rows("map", 4) if run["bounding"] != "none"]
    write_table(pa.Table.from_pylist(bounded), path, "runs")
    assert regimes(StudyFiles(path), "map", PLANTED).is_empty()


def test_table_and_figure_are_made_from_the_files(files: tuple[Path, Path], tmp_path: Path) -> None:
    runs, experiments = map(str, files)
    options = json.dumps({"study": "map", "planted": PLANTED})
    given = ["--runs", runs, "--epochs", str(epochs(tmp_path, 1e-12)), "--experiments", experiments]
    made = [*given, "--options", options, "--out-dir", str(tmp_path)]
    assert not main(["table", "table_regimes", *made])
    table = pl.read_csv(tmp_path / "table_regimes.csv", schema=REGIME_COLUMNS)
    assert len(table) == 2
    assert "+0.0150†" in (tmp_path / "table_regimes.md").read_text("utf-8")
    drawing = tmp_path / "map.svg"
    assert not main(
        ["figure", "figure_regimes", "--regimes", str(tmp_path / "table_regimes.csv"), "--out", str(drawing)]
    )
    assert "fewer factors" in drawing.read_text("utf-8")


def test_without_its_table_the_figure_says_so(tmp_path: Path) -> None:
    assert not main(["figure", "figure_regimes", "--out", str(tmp_path / "map.svg")])
    assert (tmp_path / "map.svg").is_file()
