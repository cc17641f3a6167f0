"""The map of regimes, from runs whose effects are planted."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rankbound_study.claims.effects import REGIME_COLUMNS, regimes
from rankbound_study.cli import main
from rankbound_study.jobs.job import RUN_METRICS
from rankbound_study.results.study_files import StudyFiles
from tests.study.planted import STUDY, Setting, World, settings

SHORT, LONG = 4, 40
"""Relevant items of the two kinds of users; lists have as many irrelevant ones."""
OF_SHORT, OF_LONG = 0.04, -0.01
USERS = 20
WIDE = "synthetic-wide"
PLANTED = {WIDE: {"spread": 1.5, "correlation": 1.0, "rank": 4}}


def of_kinds(one: Setting, rows: pl.DataFrame) -> pl.DataFrame:
    """Bounding changes the scores of both kinds of users, twice as much in a variant; other runs do not count."""
    is_short = pl.col("topic").cast(pl.Int32) < USERS // 2
    effect = pl.when(is_short).then(OF_SHORT).otherwise(OF_LONG) * (one.bounding != "none") * (1 + bool(one.variant))
    p = pl.when(is_short).then(SHORT).otherwise(LONG)
    own = rows.with_columns(*(pl.col(metric) + effect for metric in RUN_METRICS), p=p, n=2 * p)
    others = ({"selection": pl.lit("last")}, {"protocol": pl.lit("published")}, {"study": pl.lit("other")})
    return pl.concat([own, *(own.with_columns(**other) for other in others)])


def world(dataset: str = WIDE, factors: int = 4, boundings: tuple[str, ...] = ("none", "min-max")) -> World:
    some = settings(["nRBP"], boundings, (1,), options=json.dumps({"factors": factors}), dataset=dataset)
    return World(lambda one: 0.0, some, USERS, 1, own=0.0, training=0.0, chance=0.0, change=of_kinds)


def files(folder: Path, of: World, gradient: float = 1.0) -> StudyFiles:
    """Write the runs and a variant with two factors; the gradients of its bounded trainings are as large as stated."""
    varied = settings(["nRBP"], ["none", "min-max"], (1,), "below-f2", options='{"factors": 2}', dataset=WIDE)
    norms = {"none": 1.0, "min-max": gradient}
    both = World(**(vars(of) | {"settings": [*of.settings, *varied], "gradient": lambda one: norms[one.bounding]}))
    written = both.files(folder)
    return StudyFiles(written.runs, written.epochs, experiments=written.experiments)


def test_effects_are_those_of_the_runs(tmp_path: Path) -> None:
    table = regimes(files(tmp_path, world()), STUDY, PLANTED)
    assert table["factors"].to_list() == [4, 2]
    for row, times in zip(table.iter_rows(named=True), (1, 2), strict=True):
        assert row["effect_short"] == pytest.approx(OF_SHORT * times)
        assert row["effect_long"] == pytest.approx(OF_LONG * times)
        assert row["effect"] == pytest.approx(0.015 * times)
        # The standard error over users is 0.0056: half of them differ by 0.05 from the others.
        assert 0.001 * times < row["low"] < 0.008 * times
        assert 0.022 * times < row["high"] < 0.029 * times
        assert (row["n_topics"], row["n_trainings"], row["n_untrained"]) == (USERS, 3, 0)
        assert (row["spread"], row["correlation"], row["rank"]) == (1.5, 1.0, 4)
        # Influence is the range of the loss.
        pairs = np.array([SHORT**2, LONG**2], dtype=float)
        assert row["pairs"] == pytest.approx(pairs.mean())
        assert row["influence_cv"] == pytest.approx(pairs.std() / pairs.mean())
        assert row["log_sd"] == pytest.approx(np.log(LONG / SHORT) / 2)


def test_real_data_have_no_planted_parameters_and_an_effect_takes_an_unbounded_loss(tmp_path: Path) -> None:
    runs = world("movielens-mixed-1-2-3", 32).files(tmp_path).runs
    row = regimes(StudyFiles(runs), STUDY, PLANTED).row(0, named=True)
    assert row["spread"] is row["correlation"] is row["rank"] is None
    assert row["factors"] == 32
    assert regimes(StudyFiles(world(boundings=("min-max",)).files(tmp_path).runs), STUDY, PLANTED).is_empty()


def test_table_and_figure_are_made_from_the_files_and_count_what_did_not_train(tmp_path: Path) -> None:
    made = files(tmp_path, world(), 1e-12)
    given = [f"--{name}={getattr(made, name)}" for name in ("runs", "epochs", "experiments")]
    options = json.dumps({"study": STUDY, "planted": PLANTED})
    assert not main(["table", "table_regimes", *given, "--options", options, "--out-dir", str(tmp_path)])
    table = pl.read_csv(tmp_path / "table_regimes.csv", schema=REGIME_COLUMNS)
    assert table["n_untrained"].to_list() == [3, 0], "three seeds; no epochs of the experiments were given"
    assert "+0.0150†" in (tmp_path / "table_regimes.md").read_text("utf-8")
    for given_table, text in ([["--regimes", str(tmp_path / "table_regimes.csv")], "fewer factors"], [[], "<svg"]):
        drawing = tmp_path / "map.svg"
        assert not main(["figure", "figure_regimes", *given_table, "--out", str(drawing)])
        assert text in drawing.read_text("utf-8")
