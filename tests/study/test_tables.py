"""Table 5.1: means against sums spelled out by hand, joins with the printed numbers, summary, exports."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from drawn_files import contents, run
from synthetic_runs import BOUNDINGS, SETS, write_runs

from rankbound.errors import ConfigError, DataError
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.tables import table_5_1
from rankbound_study.results.scores import RunsChoice

PUBLISHED = RunsChoice()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs(tmp_path_factory.mktemp("runs") / "runs.parquet", topics=12, seeds=2)


@pytest.fixture(scope="module")
def table(runs: Path) -> pl.DataFrame:
    return table_5_1.table_5_1(runs, PUBLISHED)


def table_of(folder: Path, choice: RunsChoice = PUBLISHED, **options: Any) -> pl.DataFrame:
    """Return the table of small runs."""
    return table_5_1.table_5_1(write_runs(folder / "runs.parquet", topics=8, **options), choice)


def cell(table: pl.DataFrame, **where: object) -> dict[str, Any]:
    (row,) = table.filter(*(pl.col(name).eq_missing(pl.lit(value)) for name, value in where.items())).to_dicts()
    return row


def test_there_are_sixty_printed_cells_and_those_of_mq2008_stand_beside_both_readings() -> None:
    printed = {name: own.drop("dataset") for (name,), own in table_5_1.printed_scores().group_by("dataset")}
    assert {name: len(own) for name, own in printed.items()} == {
        "movielens": 45, "mq2008-label1": 15, "mq2008-label2": 15,
    }  # fmt: skip
    assert printed["mq2008-label1"].equals(printed["mq2008-label2"])


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
    assert (found["n_skipped"] > 0) == (nsr is None), "queries without a relevant document"


def test_printed_scores_stand_beside_the_metric_and_data_that_they_are_of(table: pl.DataFrame, tmp_path: Path) -> None:
    found = cell(table, dataset="movielens", nsr=3, loss="nDCG", bounding="distribution")
    assert found["published"] == 0.8346
    assert found["difference"] == pytest.approx(found["ours"] - 0.8346, abs=1e-15)
    assert found["within_0.015"] == (abs(found["difference"]) <= 0.015)
    rows = table.filter(pl.col("loss") == "nRBP", pl.col("dataset") == "mq2008-label1", pl.col("bounding") == "none")
    assert rows.select("metric", "as_printed", "published").rows() == [
        (f"nRBP(p={p})", p == 0.95, 0.7140) for p in (0.95, 0.9, 0.8)
    ]
    controls = table.filter(pl.col("loss") == "none")
    assert set(controls["model"]) == {"random", "popularity", "oracle"}
    assert controls["published"].is_null().all()
    assert controls.filter(pl.col("model") == "oracle")["ours"].unique().to_list() == [1.0]
    synthetic = table_of(tmp_path, sets=(("synthetic-movielens", 1), ("synthetic-mq2008-label1", None)))
    assert synthetic["published"].is_null().all()
    facts = table_5_1.summarise(synthetic)
    assert (facts["synthetic"], facts["cells"], facts["mq2008"]["fits"]) == (True, {}, {})


def test_protocols_are_never_mixed(tmp_path: Path) -> None:
    both = {"protocols": ("published", "honest")}
    assert table_of(tmp_path, **both).equals(table_of(tmp_path))
    honest = table_of(tmp_path, RunsChoice(protocol="honest"), **both)
    assert honest["protocol"].unique().to_list() == ["honest"]


def test_mixtures_missing_columns_and_unknown_options_are_refused(tmp_path: Path) -> None:
    frame = pl.read_parquet(write_runs(tmp_path / "runs.parquet", topics=4))
    mixed, broken = tmp_path / "two.parquet", tmp_path / "broken.parquet"
    pl.concat([frame, frame.with_columns(pl.lit("other").alias("study"))]).write_parquet(mixed)
    frame.drop("AP").write_parquet(broken)
    with pytest.raises(DataError, match=r'several values of study: other, thesis; choose one with .*"study"'):
        table_5_1.table_5_1(mixed, PUBLISHED)
    assert table_5_1.table_5_1(mixed, RunsChoice(study="thesis"))["n_lists"].sum() > 0
    with pytest.raises(DataError, match="column 'AP' is missing"):
        table_5_1.table_5_1(broken, PUBLISHED)
    for options, message in (
        ({"protocoll": "honest"}, "'protocoll' is unknown"),
        ({"protocol": "dishonest"}, "'dishonest' is unknown: choose one of published, honest"),
    ):
        with pytest.raises(ConfigError, match=message):
            RunsChoice.from_options(options)


def test_the_summary_and_the_metrics_count_what_the_table_holds(table: pl.DataFrame, tmp_path: Path) -> None:
    facts = table_5_1.summarise(table)
    movielens = table.filter(pl.col("dataset") == "movielens", pl.col("as_printed"), pl.col("loss") != "none")
    assert facts["cells"]["movielens"] == {"within": int(movielens["within_0.015"].sum()), "total": 45}
    assert facts["cells"]["mq2008-label1"]["total"] == 15
    assert len(facts["mq2008"]["cells"]) == 25
    assert list(facts["mq2008"]["fits"]) == ["nDCG", "AP", "nRBP(p=0.95)", "nRBP(p=0.9)", "nRBP(p=0.8)"]
    of_nsr_2 = movielens.filter(pl.col("nsr") == 2, pl.col("loss") == "nRBP")
    spread = of_nsr_2.filter(~pl.col("bounding").is_in(["none", "distribution"]))["ours"]
    assert facts["nrbp_spread"]["movielens-nsr2"] == pytest.approx(spread.max() - spread.min(), abs=1e-6)
    assert all(facts["distribution_on_ndcg"][f"movielens-nsr{nsr}"] < -0.02 for nsr in (1, 2, 3))
    assert facts["controls"]["movielens-nsr1"]["nDCG"]["oracle"] == 1.0
    one_reading = table_5_1.summarise(table_of(tmp_path, sets=(("mq2008-label2", None),)))
    assert set(one_reading["mq2008"]["fits"].values()) == {None}
    nested = table_5_1.metrics(table)
    assert set(nested) == {"movielens-nsr1", "movielens-nsr2", "movielens-nsr3", "mq2008-label1", "mq2008-label2"}
    assert set(nested["movielens-nsr1"]["nDCG"]["nDCG"]) == set(BOUNDINGS)
    assert set(nested["mq2008-label2"]["controls"]["AP"]) == {"random", "popularity", "oracle"}


def test_the_layout_marks_the_best_and_the_increases(table: pl.DataFrame) -> None:
    block = table_5_1.block(table, "published protocol")
    assert [title.split()[0] for title in block.header[3:]] == ["MovieLens"] * 3 + ["MQ2008"] * 2
    trained = [row for row in block.rows if row[0].text == row[2].text == "nDCG"]
    assert [name.text for _, name, *_ in trained] == ["unbounded", *BOUNDINGS[1:]]
    for cells in list(zip(*trained, strict=True))[3:]:
        values = [float(one.text) for one in cells]
        marks = [(one.strong, one.emphasis) for one in cells]
        assert marks == [(value == max(values), value > values[0]) for value in values]


def test_variants_of_a_bounding_have_rows_of_their_own(tmp_path: Path) -> None:
    found = table_of(tmp_path, sets=(("movielens", 1),), boundings=(*BOUNDINGS, "distribution(gain=sd)"))
    assert found.filter(pl.col("bounding") == "distribution(gain=sd)")["published"].is_null().all()
    assert "distribution(gain=sd)" in table_5_1.texts(found).markdown


def test_data_sets_stand_in_a_fixed_order() -> None:
    names = ["synthetic-movielens", "mq2008-label2", "aaf", "movielens", "mq2008-label1"]
    found = sorted((DataSet(name, None) for name in names), key=lambda data_set: data_set.place)
    assert [names.index(data_set.dataset) for data_set in found] == [3, 4, 1, 2, 0]


def test_the_command_writes_every_form_twice_the_same(runs: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        run("table", "table_5_1", "--runs", runs, "--out-dir", folder, "--metrics", folder / "metrics.json")
    first = contents(tmp_path / "a")
    assert list(first) == ["metrics.json", "table_5_1.csv", "table_5_1.md", "table_5_1.tex", "table_5_1_summary.json"]
    assert first == contents(tmp_path / "b")
    assert json.loads(first["table_5_1_summary.json"])["tolerance"] == 0.015
    header = first["table_5_1.csv"].decode().splitlines()[0].split(",")
    assert header == list(table_5_1.COLUMNS)
    assert b"0.9659" in first["table_5_1.md"]
    assert first["table_5_1.tex"].count(rb"\\") == len(first["table_5_1.md"].splitlines()) - 3
    with pytest.raises(ConfigError, match="--runs"):
        run("table", "table_5_1", "--out-dir", tmp_path / "c")
    assert not (tmp_path / "c").exists()
