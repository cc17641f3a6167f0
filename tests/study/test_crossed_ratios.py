"""Models trained and tested at all ratios: planted differences are found, on common lists, and no others."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from rankbound_study.claims.comparisons import RATIO_COLUMNS, ratios_crossed
from rankbound_study.claims.evidence import Evidence
from rankbound_study.cli import main
from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.job import RUN_METRICS

TOPICS, SEEDS = 20, 3
HIGHER, EFFECT = 0.05, 0.02
"""What training at ratio 2 adds on tests at ratio 1, and what bounding adds to it."""


def runs(study: str, nsr_train: int, nsr_test: int, planted: float) -> list[dict[str, Any]]:
    """Runs of one training. Topic 0 lost a negative of its test list if training was at another ratio."""
    key = {"study": study, "protocol": "honest", "dataset": "movielens", "nsr_train": nsr_train, "nsr_test": nsr_test}
    key |= {"model": "matrix-factorization", "options": "{}", "fold": 1, "selection": "validation", "epoch": 1}
    found = []
    for loss, bounding in product(("nDCG", "AP"), ("none", "min-max")):
        chance = np.random.default_rng([nsr_train, nsr_test, len(loss), len(bounding)]).normal(0, 1e-3, (TOPICS, SEEDS))
        for topic, seed in product(range(TOPICS), range(SEEDS)):
            lost = topic == 0 and nsr_train != nsr_test
            higher = (nsr_train, nsr_test) == (2, 1)
            gain = planted * higher * (HIGHER + EFFECT * (bounding != "none"))
            score = 0.0 if lost else 0.6 + 0.1 * np.sin(topic) + gain + chance[topic, seed]
            lists = {"topic": str(topic), "seed": seed, "n": 5 * (1 + nsr_test) - lost, "p": 5}
            found.append(key | lists | {"loss": loss, "bounding": bounding, **dict.fromkeys(RUN_METRICS, score)})
    return found


def made(folder: Path, planted: float = 1.0) -> tuple[Path, Path]:
    own = [run for ratio in (1, 2) for run in runs("ratios", ratio, ratio, planted)]
    # The experiment also repeats the study's own trainings.
    other = [run for a, b in product((1, 2), (1, 2)) for run in runs(f"ratios@ratios-at{b}", a, b, planted)]
    for name, rows in (("runs", own), ("experiments", other)):
        write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet", "runs")
    return folder / "runs.parquet", folder / "experiments.parquet"


def table_of(files: tuple[Path, Path]) -> pl.DataFrame:
    return ratios_crossed(Evidence("ratios", files[0], experiments=files[1]))


def test_planted_differences_are_found_and_no_others(tmp_path: Path) -> None:
    table = table_of(made(tmp_path))
    assert len(table) == 2 * 2 * 2 * 2
    found = table.filter(pl.col("p_holm") <= 0.05)
    assert set(found.select("nsr_test", "nsr_train").rows()) == {(1, 2)}
    assert len(found) == 4
    for row in found.iter_rows(named=True):
        planted = HIGHER + EFFECT * (row["bounding"] == "min-max")
        assert row["difference"] == pytest.approx(planted, abs=2e-3)
        assert row["low"] < row["difference"] < row["high"]
    effects = table.filter(pl.col("effect_p_holm") <= 0.05)
    assert effects.select("nsr_test", "nsr_train", "bounding").unique().rows() == [(1, 2, "min-max")]
    assert effects["effect_difference"].to_list() == pytest.approx([EFFECT * (TOPICS - 1) / TOPICS] * 2, abs=2e-3)


def test_nothing_planted_is_nothing_found(tmp_path: Path) -> None:
    table = table_of(made(tmp_path, planted=0.0))
    for column in ("p_holm", "effect_p_holm"):
        assert table[column].count()
        assert table.filter(pl.col(column) <= 0.05).is_empty()


def test_lists_that_lost_negatives_are_left_out_of_differences_alone(tmp_path: Path) -> None:
    table = table_of(made(tmp_path))
    own = pl.col("nsr_test") == pl.col("nsr_train")
    assert set(table.filter(own)["n_topics"]) == {TOPICS}
    assert set(table.filter(~own)["n_topics"]) == {TOPICS - 1}


def test_without_the_experiment_there_are_no_rows(tmp_path: Path) -> None:
    assert ratios_crossed(Evidence("ratios", made(tmp_path)[0])).is_empty()


def test_the_table_shows_both(tmp_path: Path) -> None:
    own, other = map(str, made(tmp_path))
    given = [
        "--runs",
        own,
        "--epochs",
        str(epochs(tmp_path)),
        "--experiments",
        other,
        "--options",
        '{"study": "ratios"}',
    ]
    assert not main(["table", "table_ratios", *given, "--out-dir", str(tmp_path)])
    assert len(pl.read_csv(tmp_path / "table_ratios.csv", schema=RATIO_COLUMNS)) == 16
    text = (tmp_path / "table_ratios.md").read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    (raised, effect) = [line for line in text.splitlines() if line.startswith("| MovieLens NSR 1 | AP | min-max")]
    assert raised.count("**") == 2
    assert raised.count("▲") == effect.count("▲") == 1


def epochs(folder: Path) -> Path:
    """One epoch of every training, whose gradient did not vanish."""
    own = pl.read_parquet(folder / "runs.parquet").unique(["nsr_test", "loss", "bounding", "fold", "seed"])
    measured = own.with_columns(part=pl.lit("validation"), mean_loss=pl.lit(1.0), gradient_norm=pl.lit(1.0))
    names = ["study", "protocol", "dataset", "nsr_train", "nsr_test", "model", "options", "loss", "bounding", "fold"]
    names += ["seed", "epoch", "part", "mean_loss", "gradient_norm", "nDCG", "AP", "nRBP(p=0.95)"]
    write_table(measured.select(names).to_arrow(), folder / "epochs.parquet", "epochs")
    return folder / "epochs.parquet"
