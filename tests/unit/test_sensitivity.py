"""The table of sensitivity: what is planted in a variant is what its row says."""

from pathlib import Path

import polars as pl
import pytest
from test_claims_experiments import BOUNDS, LOSSES, MOVIELENS, evidence, raised, rows, usual

from rankbound.claims.cells import Column
from rankbound.cli import main
from rankbound.paper import sensitivity

COLUMN = Column(*MOVIELENS)


def table(folder: Path, varied: list[dict[str, object]], name: str) -> pl.DataFrame:
    return sensitivity.table_sensitivity(evidence(folder, list(rows(MOVIELENS, usual)), varied), {name: [COLUMN]})


def test_a_change_of_all_losses_is_found_with_its_size(tmp_path: Path) -> None:
    found = table(tmp_path, [*rows(MOVIELENS, raised(0.02), "rates-high")], "rates").row(0, named=True)
    assert (found["choice"], found["variant"], found["dataset"], found["nsr"]) == ("rates", "high", *MOVIELENS)
    assert found["n_trainings"] == len(LOSSES) * len(BOUNDS) == found["n_higher"]
    assert found["n_lower"] == 0
    assert found["mean_change"] == pytest.approx(0.02, abs=0.002)
    assert found["least_change"] <= found["mean_change"] <= found["largest_change"]
    assert found["order_agreement"] > 0.7


def test_gains_are_compared_with_the_usual_distribution(tmp_path: Path) -> None:
    gains = ("distribution(gain=drawn)", "distribution(gain=sd)")
    varied = [*rows(MOVIELENS, raised(-0.1), "gains-other", losses=("nDCG",), bounds=gains)]
    found = table(tmp_path, varied, "gains")
    assert found["variant"].to_list() == ["gain=drawn", "gain=sd"]
    # The usual one stands 0.01 above what the generator gives to names that it does not know.
    assert found["mean_change"].to_list() == pytest.approx([-0.11] * 2, abs=0.004)
    assert found["order_agreement"].to_list() == [None, None]


def test_experiments_that_did_not_run_have_no_row(tmp_path: Path) -> None:
    assert table(tmp_path, [*rows(MOVIELENS, usual, "rates-high")], "factors").is_empty()


def test_the_command_writes_all_forms(tmp_path: Path) -> None:
    made = evidence(tmp_path, list(rows(MOVIELENS, usual)), [*rows(MOVIELENS, raised(0.02), "rates-high")])
    files = ["--runs", str(made.runs), "--experiments", str(made.experiments), "--out-dir", str(tmp_path)]
    options = '{"study": "thesis", "experiments": {"rates": [["movielens", 2]]}}'
    assert main(["table", "table_sensitivity", *files, "--options", options]) == 0
    read = pl.read_csv(tmp_path / "table_sensitivity.csv", schema=sensitivity.COLUMNS)
    assert len(read) == 1
    assert len(next(sensitivity.rows(read))) == len(sensitivity.HEADER)
    assert "| rates | high | MovieLens NSR" in (tmp_path / "table_sensitivity.md").read_text("utf-8")
    assert r"\midrule" in (tmp_path / "table_sensitivity.tex").read_text("utf-8")


def test_the_other_reading_of_relevance_is_told_beside_the_usual_one(tmp_path: Path) -> None:
    queries, other = ("mq2008-label1", None), ("mq2008-label2", None)
    runs = [*rows(queries, usual), *rows(other, raised(-0.1))]
    made = evidence(tmp_path, runs, [*rows(queries, usual, "widths-w6", bounds=("none",))])
    table = sensitivity.table_sensitivity(made, {"widths": [Column(*queries)]})
    found = table.filter(choice="relevant").row(0, named=True)
    assert (found["variant"], found["dataset"]) == ("label\N{NO-BREAK SPACE}2", "mq2008-label1")
    assert found["mean_change"] == pytest.approx(-0.1, abs=0.002)
    assert found["n_lower"] == len(LOSSES) * len(BOUNDS)
