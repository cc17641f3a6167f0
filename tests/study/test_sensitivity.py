"""The table of sensitivity: what is planted in a variant is what its row says."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scipy import stats
from test_claims_experiments import BOUNDS, LOSSES, MOVIELENS, epoch, evidence, raised, rows, usual

from rankbound_study.cli import main
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.tables import sensitivity

COLUMN = DataSet(*MOVIELENS)
OPTIONS = {"batch_size": 32, "factors": 32, "hidden": [46], "learning_rate": 0.01, "optimiser": "adam"}


def table(folder: Path, varied: list[dict[str, object]], name: str) -> pl.DataFrame:
    own = with_options(rows(MOVIELENS, usual))
    return sensitivity.table_sensitivity(evidence(folder, own, varied), {name: [COLUMN]})


def with_options(rows: Iterable[dict[str, Any]], **changed: object) -> list[dict[str, Any]]:
    return [{**row, "options": json.dumps({**OPTIONS, **changed}, sort_keys=True)} for row in rows]


def test_a_change_of_all_losses_is_found_with_its_size(tmp_path: Path) -> None:
    found = table(tmp_path, [*rows(MOVIELENS, raised(0.02), "rates-high")], "rates").row(0, named=True)
    assert (found["choice"], found["variant"], found["dataset"], found["nsr"]) == ("rates", "high", *MOVIELENS)
    assert found["n_trainings"] == len(LOSSES) * len(BOUNDS) == found["n_higher"]
    assert found["n_lower"] == 0
    assert found["mean_change"] == pytest.approx(0.02, abs=0.002)
    assert found["least_change"] <= found["mean_change"] <= found["largest_change"]
    assert found["order_agreement"] > 0.7


def test_the_order_is_that_of_mean_scores_and_seeds_are_those_of_both(tmp_path: Path) -> None:
    varied = [*rows(MOVIELENS, lambda loss, bounding: 1.4 - usual(loss, bounding), "rates-high")]
    found = table(tmp_path, varied, "rates").row(0, named=True)
    both = [pl.DataFrame(one) for one in (rows(MOVIELENS, usual), varied)]
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
    varied = [
        row
        for name, (changed, _) in changes.items()
        for row in with_options(rows(MOVIELENS, usual, f"any-{name}"), **changed)
    ]
    found = table(tmp_path, varied, "any")
    assert found.select("variant", "setting").rows() == [(name, text) for name, (_, text) in changes.items()]


def test_gains_are_compared_with_the_usual_distribution(tmp_path: Path) -> None:
    gains = ("distribution(gain=drawn)", "distribution(gain=sd)")
    varied = with_options(rows(MOVIELENS, raised(-0.1), "gains-other", losses=("nDCG",), bounds=gains))
    found = table(tmp_path, varied, "gains")
    assert found["variant"].to_list() == ["gain=drawn", "gain=sd"]
    assert found["setting"].to_list() == [f"bounding {name}" for name in gains]
    # The usual one stands 0.01 above what the generator gives to names that it does not know.
    assert found["mean_change"].to_list() == pytest.approx([-0.11] * 2, abs=0.004)
    assert found["order_agreement"].to_list() == [None, None]


def test_experiments_that_did_not_run_have_no_row(tmp_path: Path) -> None:
    assert table(tmp_path, [*rows(MOVIELENS, usual, "rates-high")], "factors").is_empty()


def test_the_command_writes_all_forms(tmp_path: Path) -> None:
    varied = with_options(rows(MOVIELENS, raised(0.02), "rates-high"), learning_rate=0.03)
    made = evidence(tmp_path, with_options(rows(MOVIELENS, usual)), varied)
    files = ["--runs", str(made.runs), "--experiments", str(made.experiments), "--out-dir", str(tmp_path)]
    options = '{"study": "thesis", "experiments": {"rates": [["movielens", 2]]}}'
    assert main(["table", "table_sensitivity", *files, "--options", options]) == 0
    read = pl.read_csv(tmp_path / "table_sensitivity.csv", schema=sensitivity.COLUMNS)
    assert len(read) == 1
    assert len(sensitivity.SENSITIVITY(read).rows[0]) == len(sensitivity.SENSITIVITY.columns)
    assert "| learning rate 0.03 | MovieLens NSR" in (tmp_path / "table_sensitivity.md").read_text("utf-8")
    assert r"\midrule" in (tmp_path / "table_sensitivity.tex").read_text("utf-8")


def test_the_other_reading_of_relevance_is_told_beside_the_usual_one(tmp_path: Path) -> None:
    queries, other = ("mq2008-label1", None), ("mq2008-label2", None)
    runs = [*rows(queries, usual), *rows(other, raised(-0.1))]
    made = evidence(tmp_path, runs, [*rows(queries, usual, "widths-w6", bounds=("none",))])
    table = sensitivity.table_sensitivity(made, {"widths": [DataSet(*queries)]})
    found = table.filter(choice="relevant").row(0, named=True)
    assert (found["variant"], found["dataset"]) == ("label\N{NO-BREAK SPACE}2", "mq2008-label1")
    assert found["setting"] == "relevant label\N{NO-BREAK SPACE}2"
    assert found["mean_change"] == pytest.approx(-0.1, abs=0.002)
    assert found["n_lower"] == len(LOSSES) * len(BOUNDS)


def test_a_variant_beside_trainings_of_the_study_that_did_not_train_has_a_row_without_numbers(tmp_path: Path) -> None:
    own = list(rows(MOVIELENS, usual))
    stuck = [
        {**epoch(MOVIELENS, "", loss, bounding, 0.7, 0.0, seed), "fold": fold}
        for loss in LOSSES
        for bounding in BOUNDS
        for seed in range(3)
        for fold in (1, 2)
    ]
    varied = [*rows(MOVIELENS, usual, "rates-high"), *rows(MOVIELENS, usual, "rates-low")]
    found = sensitivity.table_sensitivity(evidence(tmp_path, own, varied, stuck), {"rates": [COLUMN]})
    assert found.select("variant", "n_trainings", "mean_change").rows() == [("high", 0, None), ("low", 0, None)]
