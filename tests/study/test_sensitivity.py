"""The table of sensitivity: what is planted in a variant is what its row says."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from planted import BOUNDS, EXPERIMENTS, LOSSES, RUNS, World, beside, raised, settings, usual
from scipy import stats

from rankbound_study.cli import main
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.tables import sensitivity

COLUMN = DataSet("movielens", 2)
OPTIONS = {"batch_size": 32, "factors": 32, "hidden": [46], "learning_rate": 0.01, "optimiser": "adam"}
ALL = len(LOSSES) * len(BOUNDS)


def with_options(world: World, **of_variants: dict[str, Any]) -> World:
    """The study's options in all runs, but for those of some variants."""
    changes = [OPTIONS | of_variants.get(one.variant.partition("-")[2], {}) for one in world.settings]
    own = [
        replace(one, options=json.dumps(changed, sort_keys=True))
        for one, changed in zip(world.settings, changes, strict=True)
    ]
    effects = dict(zip(own, map(world.effect, world.settings), strict=True))
    return replace(world, settings=own, effect=effects.__getitem__)


def table(folder: Path, world: World, name: str, column: DataSet = COLUMN) -> pl.DataFrame:
    return sensitivity.table_sensitivity(with_options(world).files(folder), {name: [column]})


def test_a_change_of_all_losses_is_found_with_its_size(tmp_path: Path) -> None:
    found = table(tmp_path, beside(2, {"rates-high": raised(0.02)}), "rates").row(0, named=True)
    assert (found["choice"], found["variant"], found["dataset"], found["nsr"]) == ("rates", "high", *COLUMN)
    assert found["n_trainings"] == ALL == found["n_higher"]
    assert found["n_lower"] == 0
    assert found["mean_change"] == pytest.approx(0.02, abs=0.002)
    assert found["least_change"] <= found["mean_change"] <= found["largest_change"]
    assert found["order_agreement"] > 0.7


def test_the_order_is_that_of_mean_scores_and_seeds_are_those_of_both(tmp_path: Path) -> None:
    world = beside(2, {"rates-high": lambda one: -usual(one)})
    found = table(tmp_path, world, "rates").row(0, named=True)
    both = [world.frames(0)[name] for name in (RUNS, EXPERIMENTS)]
    by_seed = [[means(one.filter(seed=seed)) for seed in range(3)] for one in both]
    pairs = [(one[a], one[b]) for one in by_seed for a, b in ((0, 1), (0, 2), (1, 2))]
    assert found["order_agreement"] == pytest.approx(stats.kendalltau(*map(means, both)).statistic)
    assert found["agreement_of_seeds"] == pytest.approx(min(stats.kendalltau(*pair).statistic for pair in pairs))


def means(frame: pl.DataFrame) -> list[float]:
    scores = frame.group_by("loss", "bounding").agg(pl.col("nDCG").mean()).sort("loss", "bounding")
    return scores["nDCG"].to_list()


def test_a_setting_is_what_differs_from_the_study_and_nothing_else(tmp_path: Path) -> None:
    changes: dict[str, tuple[dict[str, Any], str]] = {
        "f16": ({"factors": 16}, "factors 16"),
        "narrow": ({"hidden": [12]}, "hidden 12"),
        "r03": ({"optimiser": "sgd", "learning_rate": 0.3}, "learning rate 0.3, optimiser sgd"),
        "same": ({}, sensitivity.AS_USUAL),
        "share": ({"validation_share": 0.05}, "validation share 0.05"),
    }
    world = beside(2, {f"any-{name}": usual for name in changes})
    world = with_options(world, **{name: changed for name, (changed, _) in changes.items()})
    found = sensitivity.table_sensitivity(world.files(tmp_path), {"any": [COLUMN]})
    assert found.select("variant", "setting").rows() == [(name, text) for name, (_, text) in changes.items()]


def test_gains_are_compared_with_the_usual_distribution(tmp_path: Path) -> None:
    gains = ("distribution(gain=drawn)", "distribution(gain=sd)")
    found = table(tmp_path, beside(2, {"gains-other": raised(-0.1)}, losses=("nDCG",), bounds=gains), "gains")
    assert found["variant"].to_list() == ["gain=drawn", "gain=sd"]
    assert found["setting"].to_list() == [f"bounding {name}" for name in gains]
    # The usual one stands 0.01 above what the builder gives to names that it does not know.
    assert found["mean_change"].to_list() == pytest.approx([-0.11] * 2, abs=0.004)
    assert found["order_agreement"].to_list() == [None, None]


def test_experiments_that_did_not_run_have_no_row(tmp_path: Path) -> None:
    assert table(tmp_path, beside(2, {"rates-high": usual}), "factors").is_empty()


def test_the_command_writes_all_forms(tmp_path: Path) -> None:
    made = with_options(beside(2, {"rates-high": raised(0.02)}), high={"learning_rate": 0.03}).files(tmp_path)
    files = ["--runs", str(made.runs), "--experiments", str(made.experiments), "--out-dir", str(tmp_path)]
    options = '{"study": "thesis", "experiments": {"rates": [["movielens", 2]]}}'
    assert main(["table", "table_sensitivity", *files, "--options", options]) == 0
    read = pl.read_csv(tmp_path / "table_sensitivity.csv", schema=sensitivity.COLUMNS)
    assert len(read) == 1
    assert len(sensitivity.SENSITIVITY(read).rows[0]) == len(sensitivity.SENSITIVITY.columns)
    assert "| learning rate 0.03 | MovieLens NSR" in (tmp_path / "table_sensitivity.md").read_text("utf-8")
    assert r"\midrule" in (tmp_path / "table_sensitivity.tex").read_text("utf-8")


def test_the_other_reading_of_relevance_is_told_beside_the_usual_one(tmp_path: Path) -> None:
    world = beside(None, {"widths-w6": usual}, bounds=("none",))
    other = settings(LOSSES, BOUNDS, (None,), dataset="mq2008-label2")
    both = replace(
        world,
        settings=[*world.settings, *other],
        effect=lambda one: raised(-0.1)(one) if one.dataset else usual(one),
    )
    rows = sensitivity.table_sensitivity(both.files(tmp_path), {"widths": [DataSet("mq2008-label1", None)]})
    found = rows.filter(choice="relevant").row(0, named=True)
    assert (found["variant"], found["dataset"]) == ("label\N{NO-BREAK SPACE}2", "mq2008-label1")
    assert found["setting"] == "relevant label\N{NO-BREAK SPACE}2"
    assert found["mean_change"] == pytest.approx(-0.1, abs=0.002)
    assert found["n_lower"] == ALL


def test_a_variant_beside_trainings_of_the_study_that_did_not_train_has_a_row_without_numbers(tmp_path: Path) -> None:
    world = beside(2, {"rates-high": usual, "rates-low": usual}, gradient=lambda one: float(bool(one.variant)))
    found = table(tmp_path, world, "rates")
    assert found.select("variant", "n_trainings", "mean_change").rows() == [("high", 0, None), ("low", 0, None)]
