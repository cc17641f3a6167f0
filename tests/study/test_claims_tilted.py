"""The claim about distributions that favour good orders: what is planted is what is found."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_claims_experiments import MOVIELENS, MQ2008, SEEDS, evidence, raised, rows, usual

from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict

TILTED = "distribution(tilt=4)"
CELLS = (MOVIELENS, MQ2008)


def decided(
    folder: Path,
    changes: dict[tuple[str, int | None], dict[str, float]],
    noise: float = 0.0,
    seeds: tuple[int, ...] = SEEDS,
) -> Verdict:
    """By how much a loss is higher with tilted orders, by data set; `noise` is that of single trainings."""
    own = [row for cell in CELLS for row in rows(cell, usual, seeds=seeds)]
    varied = [
        {**row, "study": "thesis@tilts-t4", "bounding": TILTED, **_scores(row, change.get(row["loss"], 0.0), noise)}
        for cell, change in changes.items()
        for row in rows(cell, usual, bounds=("distribution",), seeds=seeds)
    ]
    return verdict_on("T48", evidence(folder, own, varied))


def _scores(row: dict[str, Any], change: float, noise: float) -> dict[str, float]:
    by = change + noise * (1 if (row["seed"] + row["fold"]) % 2 else -1)
    by += 0.0002 * np.sin(7 * int(row["topic"]) + row["seed"])
    return {name: value + by for name, value in row.items() if isinstance(value, float)}


EVERY = {"nDCG": 0.05, "AP": 0.05, "nRBP": 0.05}


def test_higher_scores_confirm(tmp_path: Path) -> None:
    found = decided(tmp_path, {MOVIELENS: EVERY, MQ2008: EVERY})
    assert found.verdict == CONFIRMED
    assert found.value == pytest.approx(0.05, abs=0.01)
    assert "higher in 6 of 6 cells and lower in 0" in found.reason
    assert found.p_value < 0.05


def test_one_higher_score_and_none_lower_confirms(tmp_path: Path) -> None:
    assert decided(tmp_path, {MOVIELENS: {"nDCG": 0.1}, MQ2008: {}}).verdict == CONFIRMED


def test_lower_scores_refute(tmp_path: Path) -> None:
    found = decided(tmp_path, {MOVIELENS: {"AP": -0.05}, MQ2008: {}})
    assert found.verdict == REFUTED
    assert found.value == pytest.approx(-0.05, abs=0.01)
    assert "AP on MovieLens" in found.statistic


def test_equal_scores_refute(tmp_path: Path) -> None:
    assert decided(tmp_path, {MOVIELENS: {}, MQ2008: {}}).verdict == REFUTED


def test_both_directions_are_open(tmp_path: Path) -> None:
    found = decided(tmp_path, {MOVIELENS: {"nDCG": 0.05, "AP": -0.05}, MQ2008: {}})
    assert found.verdict == INCONCLUSIVE


def test_what_trainings_differ_by_is_no_difference(tmp_path: Path) -> None:
    assert decided(tmp_path, {MOVIELENS: EVERY}, noise=0.15).verdict == INCONCLUSIVE


def test_one_seed_cannot_say_that_nothing_changes(tmp_path: Path) -> None:
    found = decided(tmp_path, {MOVIELENS: {}}, seeds=(0,))
    assert found.verdict == INCONCLUSIVE
    assert "one seed" in found.reason


def test_one_data_set_is_enough(tmp_path: Path) -> None:
    assert decided(tmp_path, {MQ2008: EVERY}).verdict == CONFIRMED


def test_other_boundings_of_the_experiment_are_no_evidence(tmp_path: Path) -> None:
    own = list(rows(MOVIELENS, usual))
    varied = list(rows(MOVIELENS, raised(0.1), "tilts-t4", bounds=("distribution(gain=sd)",)))
    with pytest.raises(MissingEvidence, match="tilts"):
        verdict_on("T48", evidence(tmp_path, own, varied))


def test_without_the_experiment_it_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence, match="tilts"):
        verdict_on("T48", evidence(tmp_path, list(rows(MOVIELENS, usual)), list(rows(MOVIELENS, usual, "rates-low"))))
