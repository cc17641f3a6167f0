"""The bias of a test-picked epoch, against means that are written out."""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from synthetic_runs import write_runs

from rankbound_study.cli import main
from rankbound_study.data.contracts import write_table
from rankbound_study.report.columns import Cell
from rankbound_study.report.tables import protocols
from rankbound_study.results.study_files import StudyFiles

SETS = (("movielens", 1), ("mq2008-label1", None))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Honest runs of which every epoch that the test part picks scores higher: by 0.01, by 0.03 of AP."""
    folder = tmp_path_factory.mktemp("flattery")
    path = write_runs(folder / "honest.parquet", sets=SETS, protocols=("honest", "published"), topics=10, seeds=2)
    rows = pl.read_parquet(path).with_columns(pl.col(pl.Float64).clip(0, 0.9), pl.lit("validation").alias("selection"))
    more = pl.when(pl.col("loss") == "AP").then(0.03).otherwise(0.01)
    test = rows.with_columns(pl.lit("test").alias("selection"), pl.col("nDCG", "AP", "nRBP(p=0.95)") + more)
    key = ["protocol", "dataset", "loss", "bounding", "model", "fold", "seed", "topic", "selection"]
    both = pl.concat([rows, test]).unique(key, maintain_order=True)
    schema = pa.parquet.read_schema(path).remove_metadata()
    write_table(both.to_arrow().cast(schema), folder / "runs.parquet", "runs")
    return folder / "runs.parquet"


def test_the_same_trainings_are_compared_cell_by_cell(runs: Path) -> None:
    table = protocols.make_flattery("table_flattery", StudyFiles(runs))
    assert table["dataset"].to_list() == ["movielens"] * 15 + ["mq2008-label1"] * 15
    assert table["loss"].to_list()[:15] == ["nDCG"] * 5 + ["AP"] * 5 + ["nRBP"] * 5
    assert table["bounding"].to_list()[:5] == ["none", "min-max", "expectation", "expectation-max", "distribution"]
    assert table["n_trainings"].unique().to_list() == [10]
    ap = table.filter(pl.col("loss") == "AP")
    assert ap["flattery"].to_list() == pytest.approx([0.03] * len(ap))
    others = table.filter(pl.col("loss") != "AP")
    assert others["flattery"].to_list() == pytest.approx([0.01] * len(others))
    difference = table["test_picked"] - table["validation_picked"]
    assert difference.to_list() == pytest.approx(table["flattery"].to_list())
    assert ((table["low"] <= table["flattery"] + 1e-9) & (table["flattery"] <= table["high"] + 1e-9)).all()


def test_the_report_has_a_row_per_loss_and_a_column_per_bounding(runs: Path) -> None:
    table = protocols.make_flattery("table_flattery", StudyFiles(runs))
    block = protocols.FLATTERY(table)
    assert [loss.text for _, loss, *_ in block.rows] == ["nDCG", "AP", "nRBP"] * 2
    assert block.rows[0][0].text == block.rows[2][0].text == "MovieLens NSR\N{NO-BREAK SPACE}1"
    assert block.rules == {3}
    assert [cell.text for cell in block.rows[1][2:]] == ["+0.0300"] * 5
    assert all(cell.strong for _, _, *cells in block.rows for cell in cells)
    unsure = table.with_columns(low=pl.lit(-0.01), high=pl.lit(0.03)).filter(pl.col("bounding") != "min-max")
    assert protocols.FLATTERY(unsure).rows[0][2:4] == (Cell("+0.0100", "±0.0200"), Cell("–"))


def test_without_honest_runs_the_table_is_empty_and_other_options_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_runs(tmp_path / "runs.parquet", sets=SETS, topics=4)
    arguments = ["table", "table_flattery", "--runs", str(path), "--out-dir", str(tmp_path), "--options"]
    assert main([*arguments, '{"study": "thesis"}']) == 0
    assert pl.read_csv(tmp_path / "table_flattery.csv", schema=protocols.FLATTERY_COLUMNS).is_empty()
    assert "test-picked" in (tmp_path / "table_flattery.md").read_text("utf-8")
    assert r"\bottomrule" in (tmp_path / "table_flattery.tex").read_text("utf-8")
    assert main([*arguments, '{"protocol": "honest"}']) == 2
    assert "expected only study" in capsys.readouterr().err
