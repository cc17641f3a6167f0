"""Models trained and tested at all ratios: planted differences are found, on common lists, and no others."""

from itertools import product
from pathlib import Path

import polars as pl
import pytest

from rankbound_study.claims.comparisons import RATIO_COLUMNS, ratios_crossed
from rankbound_study.claims.evidence import Evidence
from rankbound_study.cli import main
from rankbound_study.jobs.job import RUN_METRICS
from tests.study.planted import STUDY, Setting, World, settings

TOPICS = 20
HIGHER, EFFECT = 0.05, 0.02
"""What training at ratio 2 adds on tests at ratio 1, and what bounding adds to it."""


def lost(one: Setting, rows: pl.DataFrame) -> pl.DataFrame:
    """Topic 0 lost a negative of its test list if training was at another ratio."""
    short = (pl.col("topic") == "0") & (one.trained_at != one.nsr)
    scores = [pl.when(short).then(0.0).otherwise(metric).alias(metric) for metric in RUN_METRICS]
    return rows.with_columns(pl.col("n") - short, *scores)


def made(folder: Path, planted: float = 1.0) -> Evidence:
    def effect(one: Setting) -> float:
        return planted * (HIGHER + EFFECT * (one.bounding != "none")) * ((one.trained_at, one.nsr) == (2, 1))

    # The experiment also repeats the study's own trainings.
    names = {(a, b): f"ratios-at{b}" for a, b in product((1, 2), (1, 2))} | {(a, a, "own"): "" for a in (1, 2)}
    some = [
        one
        for (trained_at, tested_at, *_), variant in names.items()
        for one in settings(["nDCG", "AP"], ["none", "min-max"], (tested_at,), variant, trained_at=trained_at)
    ]
    size = {"topics": TOPICS, "folds": 1, "own": 0.0, "training": 0.0, "chance": 1e-3}
    return World(effect, some, change=lost, **size).files(folder)


def table_of(evidence: Evidence) -> pl.DataFrame:
    return ratios_crossed(Evidence(STUDY, evidence.runs, experiments=evidence.experiments))


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
    assert ratios_crossed(Evidence(STUDY, made(tmp_path).runs)).is_empty()


def test_the_table_shows_both(tmp_path: Path) -> None:
    files = made(tmp_path)
    given = [f"--{name}={getattr(files, name)}" for name in ("runs", "epochs", "experiments")]
    assert not main(["table", "table_ratios", *given, "--out-dir", str(tmp_path)])
    assert len(pl.read_csv(tmp_path / "table_ratios.csv", schema=RATIO_COLUMNS)) == 16
    text = (tmp_path / "table_ratios.md").read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    (raised, effect) = [line for line in text.splitlines() if line.startswith("| MovieLens NSR 1 | AP | min-max")]
    assert raised.count("**") == 2
    assert raised.count("▲") == effect.count("▲") == 1
