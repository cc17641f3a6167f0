"""The workflow on a small cut of the real data: from the publishers' archives to Table 5.1."""

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from project import GENERATED, ROOT, Project

from rankbound_study.config.check import merged

MIRROR = os.environ.get("RANKBOUND_MIRROR", "")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not MIRROR or not Path(MIRROR).is_dir(), reason="RANKBOUND_MIRROR names no folder with the archives"
    ),
]

LISTS_WITHOUT_RELEVANT = {"mq2008-label1": 51}
"""Of the 156 queries of part S5, which is the test part of fold 1 (counts of the data set's own description)."""


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One sampling ratio, one reading, one loss, two bounds, one fold, two epochs."""
    config: dict[str, Any] = merged([ROOT / "config.yaml"])
    config |= {"losses": ["AP"], "boundings": ["none", "distribution"], "folds": [1], "figures": ["figure_5_3"]}
    config |= {"tables": ["table_5_1"], "pathvars": GENERATED["pathvars"], "compare": []}
    config |= {"protocols": ["published"], "experiment": []}
    config["interactions"]["movielens"]["nsr"] = [1]
    config["lists"]["mq2008"]["thresholds"] = [1]
    for training in config["training"].values():
        training["epochs"] = 2
    project = Project.create(tmp_path_factory.mktemp("cut"), config)
    project.snakemake(RANKBOUND_MIRROR=str(Path(MIRROR).resolve()))
    return project


def test_the_cut_is_the_published_data(cut: Project) -> None:
    runs = pl.read_parquet(cut.path("results/runs.parquet"))
    topics = runs.filter(pl.col("loss") == "AP").group_by("dataset").agg(pl.col("topic").n_unique())
    assert dict(topics.rows()) == {"movielens": 412, "mq2008-label1": 156}


def test_lists_without_relevant_items_have_no_score(cut: Project) -> None:
    runs = pl.read_parquet(cut.path("results/runs.parquet"))
    one = runs.filter(pl.col("loss") == "AP", pl.col("bounding") == "none", pl.col("selection") == "test")
    undefined = one.filter(pl.col("AP").is_nan()).group_by("dataset").len()
    assert dict(undefined.rows()) == LISTS_WITHOUT_RELEVANT
    assert one.filter(pl.col("AP").is_nan(), pl.col("p") > 0).is_empty()


def test_every_score_lies_between_random_and_oracle(cut: Project) -> None:
    table = pl.read_csv(cut.path("results/tables/table_5_1.csv"))
    scores = table.filter(pl.col("metric") == "AP").select("dataset", "model", "loss", "ours")
    for (dataset,), part in scores.group_by("dataset"):
        control = dict(part.filter(pl.col("loss") == "none").select("model", "ours").rows())
        trained = part.filter(pl.col("loss") == "AP")["ours"]
        assert control["oracle"] == pytest.approx(1.0), dataset
        assert trained.min() > control["random"] - 0.05, dataset  # type: ignore[operator]
        assert trained.max() < control["oracle"], dataset  # type: ignore[operator]


def test_the_cut_has_nothing_more_to_do(cut: Project) -> None:
    assert cut.waiting() == {}
