"""Popularity against trained models: what is planted on each kind of test lists is what is found."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from rankbound_study.claims.comparisons import POPULARITY_COLUMNS, against_popularity
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence
from rankbound_study.cli import main
from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.job import RUN_METRICS

UNIFORM, BY_POPULARITY = "movielens", "movielens-uniform-popularity"
TOPICS, SEEDS = 30, 3
BOUNDINGS = {"none": 0.0, "min-max": 0.01}
"""What each bounding adds: min-max is the best one."""


def rows(dataset: str, ahead: float, noise: float, controls: bool) -> list[dict[str, Any]]:
    """Runs in which popularity is that far ahead of the best bounding; it has one seed."""
    key = {"study": "evaluation", "protocol": "honest", "dataset": dataset, "nsr_train": 1, "nsr_test": 1, "fold": 1}
    systems = [("matrix-factorization", loss, bounding) for loss, bounding in product(("nDCG", "AP"), BOUNDINGS)]
    found = []
    for model, loss, bounding in [*systems, *[("popularity", "none", "none"), ("random", "none", "none")] * controls]:
        chance = np.random.default_rng([len(model), len(loss), len(bounding)]).normal(0, noise, (TOPICS, SEEDS))
        level = {"popularity": 0.61 + ahead, "random": 0.2}.get(model, 0.6 + BOUNDINGS[bounding])
        for topic, seed in product(range(TOPICS), range(SEEDS if loss != "none" else 1)):
            score = float(level + 0.05 * np.sin(topic) + chance[topic, seed])
            picked = {"options": "{}", "selection": "validation" if loss != "none" else "last", "epoch": 1}
            named = {"model": model, "loss": loss, "bounding": bounding, "topic": str(topic), "seed": seed}
            found.append(key | named | picked | {"n": 10, "p": 5} | dict.fromkeys(RUN_METRICS, score))
    return found


def made(folder: Path, ahead: dict[str, float], noise: float = 0.002, controls: bool = True) -> Evidence:
    runs = [row for dataset, by in ahead.items() for row in rows(dataset, by, noise, controls)]
    write_table(pa.Table.from_pylist(runs), folder / "runs.parquet", "runs")
    one = pl.DataFrame(runs).filter(pl.col("loss") != "none")
    key = ["study", "protocol", "dataset", "nsr_train", "nsr_test", "model", "options", "loss", "bounding", "fold"]
    means = one.group_by(*key, "seed", "epoch").agg(pl.col("nDCG", "AP", "nRBP(p=0.95)").mean()).sort(*key, "seed")
    measured = means.with_columns(part=pl.lit("validation"), mean_loss=pl.lit(1.0), gradient_norm=pl.lit(1.0))
    names = [*key, "seed", "epoch", "part", "mean_loss", "gradient_norm", "nDCG", "AP", "nRBP(p=0.95)"]
    write_table(measured.select(names).to_arrow(), folder / "epochs.parquet", "epochs")
    return Evidence("evaluation", folder / "runs.parquet", folder / "epochs.parquet")


@pytest.mark.parametrize(
    ("ahead", "noise", "verdict"),
    [
        ({UNIFORM: 0.03, BY_POPULARITY: 0.03}, 0.002, CONFIRMED),
        ({UNIFORM: 0.03, BY_POPULARITY: -0.03}, 0.002, REFUTED),
        ({UNIFORM: -0.03}, 0.002, REFUTED),
        ({UNIFORM: 0.0}, 0.002, INCONCLUSIVE),
        ({UNIFORM: 0.03}, 0.3, INCONCLUSIVE),
    ],
)
def test_the_verdict_is_that_of_all_samplings(
    tmp_path: Path, ahead: dict[str, float], noise: float, verdict: str
) -> None:
    found = verdict_on("P01", made(tmp_path, ahead, noise))
    assert found.verdict == verdict
    if noise < 0.1:
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
    assert not main(["table", "table_samplings", *files, "--options", '{"study": "evaluation"}'])
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
