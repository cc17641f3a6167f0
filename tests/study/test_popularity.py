"""Popularity against trained models: what is planted on each kind of test lists is what is found."""

from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from planted_systems import STUDY, TOPICS, PlantedSystems, control, noise

from rankbound_study.claims.comparisons import POPULARITY_COLUMNS, against_popularity
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence
from rankbound_study.cli import main

UNIFORM, BY_POPULARITY = "movielens", "movielens-uniform-popularity"
BOUNDINGS = {"none": 0.0, "min-max": 0.01}
"""What each bounding adds: min-max is the best one."""


def made(folder: Path, ahead: dict[str, float], size: float = 0.002, controls: bool = True) -> Evidence:
    """Runs in which popularity is that far ahead of the best bounding; it has one seed."""
    planted = PlantedSystems(folder, seeds=range(3))
    trained = [("", "mf", *names) for names in product(("nDCG", "AP"), BOUNDINGS)]
    for (dataset, by), system in product(ahead.items(), (*trained, *map(control, ("popularity", "random") * controls))):
        level = {"popularity": 0.61 + by, "random": 0.2}.get(system[1], 0.6 + BOUNDINGS[system[3]])
        scores = level + 0.05 * np.sin(np.arange(TOPICS)) + noise(len("".join(system)), size)
        planted.add(system, scores, level, dataset=dataset, nsr_train=1, nsr_test=1)
    files = planted.files()
    return Evidence(STUDY, files.runs, files.epochs)


@pytest.mark.parametrize(
    ("ahead", "size", "verdict"),
    [
        ({UNIFORM: 0.03, BY_POPULARITY: 0.03}, 0.002, CONFIRMED),
        ({UNIFORM: 0.03, BY_POPULARITY: -0.03}, 0.002, REFUTED),
        ({UNIFORM: -0.03}, 0.002, REFUTED),
        ({UNIFORM: 0.0}, 0.002, INCONCLUSIVE),
        ({UNIFORM: 0.03}, 0.3, INCONCLUSIVE),
    ],
)
def test_the_verdict_is_that_of_all_samplings(
    tmp_path: Path, ahead: dict[str, float], size: float, verdict: str
) -> None:
    found = verdict_on("P01", made(tmp_path, ahead, size))
    assert found.verdict == verdict
    if size < 0.1:
        assert found.value == pytest.approx(min(ahead.values()), abs=0.002)
        assert found.low < found.value < found.high
    assert f"of {2 * len(ahead)} comparisons" in found.reason


def test_without_popularity_there_is_nothing_to_decide(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence, match="popularity"):
        verdict_on("P01", made(tmp_path, {UNIFORM: 0.0}, controls=False))


def test_differences_are_from_popularity_on_the_same_lists(tmp_path: Path) -> None:
    ahead = {UNIFORM: 0.03, BY_POPULARITY: -0.03}
    table = against_popularity(made(tmp_path, ahead))
    for row in table.filter(pl.col("loss") != "none").iter_rows(named=True):
        expected = BOUNDINGS[row["bounding"]] - 0.01 - ahead[row["dataset"]]
        assert row["difference"] == pytest.approx(expected, abs=0.003)
        assert row["p_holm"] <= 0.05
        assert row["picked"] == (row["bounding"] == "min-max")
    assert table.filter(model="popularity")["difference"].is_null().all()
    assert table.filter(model="random")["difference"].max() < -0.3  # type: ignore[operator]


def test_the_table_has_a_column_per_sampling(tmp_path: Path) -> None:
    evidence = made(tmp_path, {UNIFORM: 0.03, BY_POPULARITY: -0.03})
    files = ["--runs", str(evidence.runs), "--epochs", str(evidence.epochs), "--out-dir", str(tmp_path)]
    assert not main(["table", "table_samplings", *files, "--options", '{"study": "mine"}'])
    assert len(pl.read_csv(tmp_path / "table_samplings.csv", schema=POPULARITY_COLUMNS)) == 2 * 2 * 4
    text = (tmp_path / "table_samplings.md").read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    lines = text.splitlines()
    (header,) = [line for line in lines if line.startswith("| judged by")]
    assert header.endswith("| MovieLens NSR 1 | MovieLens NSR 1, popularity test |")
    (best,) = [line for line in lines if line.startswith("| nDCG | nDCG | min-max")]
    down, up = best.strip("| ").split(" | ")[3:]
    assert (down[-1], up[-1]) == ("▼", "▲")
    assert "*" in down.split()[0] + up.split()[0]
    (count,) = [line for line in lines if line.startswith("| nDCG | popularity")]
    assert count.count("**") == 4
