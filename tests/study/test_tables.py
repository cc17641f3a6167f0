"""Table 5.1: means against sums spelled out by hand, joins with the printed numbers, summary, exports."""

import argparse
import json
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from synthetic_runs import BOUNDINGS, SETS, write_runs

from rankbound.errors import ConfigError, DataError
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.tables import table_5_1
from rankbound_study.results.scores import RunsChoice
from rankbound_study.steps import BY_NAME

table_command = BY_NAME["table"]

PUBLISHED = RunsChoice()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs(tmp_path_factory.mktemp("runs") / "runs.parquet", topics=12, seeds=2)


@pytest.fixture(scope="module")
def table(runs: Path) -> pl.DataFrame:
    return table_5_1.table_5_1(runs, PUBLISHED)


def cell(table: pl.DataFrame, **where: object) -> dict[str, object]:
    rows = table.filter(*(pl.col(name).eq_missing(pl.lit(value)) for name, value in where.items()))
    assert len(rows) == 1
    return rows.row(0, named=True)


def test_there_are_sixty_printed_cells_and_those_of_mq2008_stand_beside_both_readings() -> None:
    printed = table_5_1.printed_scores()
    counts = dict(printed.group_by("dataset").len().rows())
    assert counts == {"movielens": 45, "mq2008-label1": 15, "mq2008-label2": 15}
    readings = [
        printed.filter(pl.col("dataset") == name).drop("dataset").rows() for name in ("mq2008-label1", "mq2008-label2")
    ]
    assert readings[0] == readings[1]


@pytest.mark.parametrize(("dataset", "nsr"), SETS)
def test_means_are_those_of_the_lists_spelled_out(
    runs: Path, table: pl.DataFrame, dataset: str, nsr: int | None
) -> None:
    by_list: dict[tuple[int, str], list[float]] = {}
    for row in pq.read_table(runs).to_pylist():
        if (row["dataset"], row["nsr_test"], row["loss"], row["bounding"]) == (dataset, nsr, "AP", "min-max"):
            by_list.setdefault((row["fold"], row["topic"]), []).append(row["AP"])
    means = {key: sum(values) / len(values) for key, values in by_list.items() if values[0] == values[0]}
    folds = [[value for (fold, _), value in means.items() if fold == number] for number in range(1, 6)]
    found = cell(table, dataset=dataset, nsr=nsr, loss="AP", bounding="min-max")
    assert found["ours"] == pytest.approx(sum(sum(fold) / len(fold) for fold in folds) / 5, abs=1e-12)
    assert found["ours_pooled"] == pytest.approx(sum(means.values()) / len(means), abs=1e-12)
    assert (found["n_lists"], found["n_skipped"]) == (len(means), len(by_list) - len(means))
    assert (found["n_folds"], found["n_seeds"]) == (5, 2)


def test_undefined_lists_are_skipped_and_counted(table: pl.DataFrame) -> None:
    found = cell(table, dataset="mq2008-label2", nsr=None, loss="nDCG", bounding="none")
    assert found["n_skipped"] > 0
    assert 0 < found["ours"] < 1


def test_the_difference_is_ours_minus_the_printed_score(table: pl.DataFrame) -> None:
    found = cell(table, dataset="movielens", nsr=3, loss="nDCG", bounding="distribution")
    assert found["published"] == 0.8346
    assert found["difference"] == pytest.approx(found["ours"] - 0.8346, abs=1e-15)
    assert found["within_0.015"] == (abs(found["difference"]) <= 0.015)


def test_nrbp_is_reported_at_three_persistences_and_one_is_the_printed_metric(table: pl.DataFrame) -> None:
    rows = table.filter(pl.col("loss") == "nRBP", pl.col("dataset") == "mq2008-label1", pl.col("bounding") == "none")
    assert rows["metric"].to_list() == ["nRBP(p=0.95)", "nRBP(p=0.9)", "nRBP(p=0.8)"]
    assert rows["as_printed"].to_list() == [True, False, False]
    assert rows["published"].to_list() == [0.7140] * 3


def test_controls_have_rows_but_no_printed_score(table: pl.DataFrame) -> None:
    controls = table.filter(pl.col("loss") == "none")
    assert set(controls["model"]) == {"random", "popularity", "oracle"}
    assert controls["published"].is_null().all()
    assert controls.filter(pl.col("model") == "oracle")["ours"].unique().to_list() == [1.0]


def test_synthetic_data_never_meet_a_printed_score(tmp_path: Path) -> None:
    sets = (("synthetic-movielens", 1), ("synthetic-mq2008-label1", None))
    found = table_5_1.table_5_1(write_runs(tmp_path / "runs.parquet", sets=sets, topics=8), PUBLISHED)
    assert found["published"].is_null().all()
    facts = table_5_1.summarise(found)
    assert facts["synthetic"]
    assert facts["cells"] == {}
    assert facts["mq2008"]["fits"] == {}


def test_protocols_are_never_mixed(tmp_path: Path) -> None:
    both = write_runs(tmp_path / "both.parquet", protocols=("published", "honest"), topics=8)
    alone = write_runs(tmp_path / "alone.parquet", topics=8)
    assert table_5_1.table_5_1(both, PUBLISHED).equals(table_5_1.table_5_1(alone, PUBLISHED))
    honest = table_5_1.table_5_1(both, RunsChoice(protocol="honest"))
    assert honest["protocol"].unique().to_list() == ["honest"]


def test_a_cell_with_two_studies_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = write_runs(tmp_path / "one.parquet", topics=4)
    frame = pl.read_parquet(path)
    mixed = tmp_path / "two.parquet"
    pl.concat([frame, frame.with_columns(pl.lit("other").alias("study"))]).write_parquet(mixed)
    with pytest.raises(DataError, match=r'several values of study: other, thesis; choose one with .*"study"'):
        table_5_1.table_5_1(mixed, PUBLISHED)
    assert table_5_1.table_5_1(mixed, RunsChoice(study="thesis"))["n_lists"].sum() > 0


def test_a_missing_column_and_an_unknown_option_are_named(tmp_path: Path) -> None:
    path = write_runs(tmp_path / "runs.parquet", topics=4)
    broken = tmp_path / "broken.parquet"
    pl.read_parquet(path).drop("AP").write_parquet(broken)
    with pytest.raises(DataError, match="column 'AP' is missing"):
        table_5_1.table_5_1(broken, PUBLISHED)
    with pytest.raises(ConfigError, match="'protocoll' is unknown"):
        RunsChoice.from_options({"protocoll": "honest"})
    with pytest.raises(ConfigError, match="'dishonest' is unknown: choose one of published, honest"):
        RunsChoice.from_options({"protocol": "dishonest"})


def test_the_summary_counts_what_the_table_holds(table: pl.DataFrame) -> None:
    facts = table_5_1.summarise(table)
    movielens = table.filter(pl.col("dataset") == "movielens", pl.col("as_printed"), pl.col("loss") != "none")
    assert facts["cells"]["movielens"] == {"within": int(movielens["within_0.015"].sum()), "total": 45}
    assert facts["cells"]["mq2008-label1"]["total"] == 15
    assert len(facts["mq2008"]["cells"]) == 25
    assert list(facts["mq2008"]["fits"]) == ["nDCG", "AP", "nRBP(p=0.95)", "nRBP(p=0.9)", "nRBP(p=0.8)"]
    spread = movielens.filter(
        pl.col("nsr") == 2, pl.col("loss") == "nRBP", ~pl.col("bounding").is_in(["none", "distribution"])
    )["ours"]
    assert facts["nrbp_spread"]["movielens-nsr2"] == pytest.approx(spread.max() - spread.min(), abs=1e-6)
    assert all(facts["distribution_on_ndcg"][f"movielens-nsr{nsr}"] < -0.02 for nsr in (1, 2, 3))
    assert facts["controls"]["movielens-nsr1"]["nDCG"]["oracle"] == 1.0


def test_one_reading_of_mq2008_alone_fits_nothing(tmp_path: Path) -> None:
    path = write_runs(tmp_path / "runs.parquet", sets=(("mq2008-label2", None),), topics=8)
    facts = table_5_1.summarise(table_5_1.table_5_1(path, PUBLISHED))
    assert set(facts["mq2008"]["fits"].values()) == {None}


def test_metrics_are_nested_numbers_for_every_cell(table: pl.DataFrame) -> None:
    nested = table_5_1.metrics(table)
    assert set(nested) == {"movielens-nsr1", "movielens-nsr2", "movielens-nsr3", "mq2008-label1", "mq2008-label2"}
    assert set(nested["movielens-nsr1"]["nDCG"]["nDCG"]) == set(BOUNDINGS)
    assert set(nested["mq2008-label2"]["controls"]["AP"]) == {"random", "popularity", "oracle"}


def test_the_layout_marks_the_best_and_the_increases(table: pl.DataFrame) -> None:
    block = table_5_1.block(table, "published protocol")
    assert [title.split()[0] for title in block.header[3:]] == ["MovieLens"] * 3 + ["MQ2008"] * 2
    trained = [row for row in block.rows if row[0].text == row[2].text == "nDCG"]
    assert [name.text for _, name, *_ in trained] == ["unbounded", *BOUNDINGS[1:]]
    for column in range(3, len(block.header)):
        values = [float(row[column].text) for row in trained]
        for row, value in zip(trained, values, strict=True):
            assert row[column].strong == (value == max(values))
            assert row[column].emphasis == (value > values[0])


def test_variants_of_a_bounding_have_rows_of_their_own(tmp_path: Path) -> None:
    names = (*BOUNDINGS, "distribution(gain=sd)")
    path = write_runs(tmp_path / "runs.parquet", sets=(("movielens", 1),), boundings=names, topics=6)
    found = table_5_1.table_5_1(path, PUBLISHED)
    assert found.filter(pl.col("bounding") == "distribution(gain=sd)")["published"].is_null().all()
    assert "distribution(gain=sd)" in table_5_1.texts(found).markdown


def test_data_sets_stand_in_a_fixed_order() -> None:
    names = [
        ("synthetic-movielens", 1),
        ("mq2008-label2", None),
        ("aaf", None),
        ("movielens", 2),
        ("mq2008-label1", None),
    ]
    found = [data_set.dataset for data_set in sorted(map(DataSet._make, names), key=lambda data_set: data_set.place)]
    assert found == ["movielens", "mq2008-label1", "mq2008-label2", "aaf", "synthetic-movielens"]


def run_command(runs: Path, folder: Path) -> dict[str, bytes]:
    parser = argparse.ArgumentParser()
    table_command.configure(parser)
    metrics = str(folder / "metrics.json")
    table_command.run(
        parser.parse_args(["table_5_1", "--runs", str(runs), "--out-dir", str(folder), "--metrics", metrics])
    )
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_command_writes_every_form_twice_the_same(runs: Path, tmp_path: Path) -> None:
    first, second = run_command(runs, tmp_path / "a"), run_command(runs, tmp_path / "b")
    assert list(first) == ["metrics.json", "table_5_1.csv", "table_5_1.md", "table_5_1.tex", "table_5_1_summary.json"]
    assert first == second
    assert json.loads(first["table_5_1_summary.json"])["tolerance"] == 0.015
    header = first["table_5_1.csv"].decode().splitlines()[0].split(",")
    assert header == list(table_5_1.COLUMNS)
    assert b"0.9659" in first["table_5_1.md"]
    assert first["table_5_1.tex"].count(rb"\\") == len(first["table_5_1.md"].splitlines()) - 3


def test_the_command_asks_for_the_runs(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    table_command.configure(parser)
    with pytest.raises(ConfigError, match="--runs"):
        table_command.run(parser.parse_args(["table_5_1", "--out-dir", str(tmp_path)]))
    assert list(tmp_path.iterdir()) == []
