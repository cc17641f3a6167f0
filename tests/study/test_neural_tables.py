"""Tables and facts of the neural-ranking study, on generated files: arithmetic, printed column, tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import yaml
from drawn_files import contents, run
from neural_studies import AGES, WEB, draw_pairs, method_scores, write_images, write_study

from rankbound.errors import ConfigError, DataError
from rankbound_study.claims.evidence import Evidence
from rankbound_study.data.contracts import read_table, write_table
from rankbound_study.report.blocks import signed
from rankbound_study.report.sections import Results, facts, read_results
from rankbound_study.report.tables import neural
from rankbound_study.report.tables.neural import NeuralTable, neural_table
from rankbound_study.results import neural as readers
from rankbound_study.results.neural import TABLES, data_set_title, read_pairs, table_of

QUERIES, PIXELS, FEATURES = TABLES


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return write_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def queries(study: Evidence) -> NeuralTable:
    return neural_table(QUERIES, study.runs, study.epochs)


@pytest.fixture(scope="module")
def pixels(study: Evidence) -> NeuralTable:
    return neural_table(PIXELS, study.runs, study.epochs, study.predictions, study.images)


def cell(table: NeuralTable, method: str, metric: str) -> dict[str, Any]:
    return table.scores.filter(pl.col("method") == method, pl.col("metric") == metric).row(0, named=True)


@pytest.fixture
def with_runs(study: Evidence, tmp_path: Path) -> Callable[[Callable[[pl.DataFrame], pl.DataFrame]], Path]:
    """Return the path of the study's runs, changed."""

    def changed(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Path:
        change(pl.read_parquet(study.runs)).write_parquet(tmp_path / "runs.parquet")
        return tmp_path / "runs.parquet"

    return changed


# Table 1


def test_every_printed_method_has_a_row_beside_its_score(queries: NeuralTable, study: Evidence, with_runs: Any) -> None:
    printed = readers.printed_scores(QUERIES)
    assert printed["method"].to_list() == list(WEB)
    rows = queries.scores.filter(pl.col("metric") == "nDCG@10")
    beside = rows.filter(pl.col("printed").is_not_null()).select("method", "printed")
    assert dict(beside.rows()) == dict(printed.select("method", "printed").rows())
    assert rows["method"].to_list()[-2:] == ["oracle", "random"]
    # One that is not printed stands with its family.
    other = with_runs(lambda runs: runs.with_columns(pl.col("model").replace("Rank-LR", "Rank-new")))
    families = neural_table(QUERIES, other, study.epochs).scores["family"].rle().struct["value"].to_list()
    assert families == ["rank", "classification", "control"]
    config = yaml.safe_load(Path(__file__).parents[2].joinpath("config.yaml").read_text("utf-8"))
    assert set(printed["method"]) <= set(config["comparisons"]["web-queries"]["methods"])
    # Queries without a relevant document are left out and counted.
    found = cell(queries, "RankNet", "nDCG@10")
    assert (found["n"], found["n_skipped"], found["n_folds"]) == (100, 20, 5)
    runs = pl.read_parquet(study.runs).filter(pl.col("model") == "RankNet", pl.col("dataset") == "mq2008-label1")
    assert found["ours"] == pytest.approx(runs["nDCG@10"].drop_nans().mean())


@pytest.mark.parametrize("best_by_validation", ["LambdaMART", "Class-LR"])
def test_the_best_method_by_validation_is_compared_with_none_and_all_others_with_it(
    best_by_validation: str, study: Evidence, tmp_path: Path
) -> None:
    """Whatever the test part says of it: LambdaMART has the highest mean there, Class-LR the lowest."""
    picked = (pl.col("model") == best_by_validation) & (pl.col("part") == "validation")
    score = pl.when(picked).then(0.99).otherwise("nDCG@10").alias("nDCG@10")
    pl.read_parquet(study.epochs).with_columns(score).write_parquet(tmp_path / "epochs.parquet")
    queries = neural_table(QUERIES, study.runs, tmp_path / "epochs.parquet")
    trained = queries.scores.filter(pl.col("metric") == "nDCG@10", pl.col("family") != "control")
    assert trained.sort("ours")["method"].to_list()[:: len(trained) - 1] == ["Class-LR", "LambdaMART"]
    best = cell(queries, best_by_validation, "nDCG@10")
    (block,) = neural.score_blocks(queries.scores, QUERIES)
    assert [method.text for _, method, *_ in block.rows if method.strong] == [best_by_validation]
    assert best["p_value"] is None
    others = trained.filter(pl.col("method") != best_by_validation)
    assert others["p_holm"].null_count() == 0
    assert others["difference_to_best"].to_list() == pytest.approx((others["ours"] - best["ours"]).to_list())
    assert (others["p_holm"] >= others["p_value"]).all()


MOVED = pl.col("options").str.replace("}", ', "shift": 0.2}', literal=True)


def test_other_epochs_and_moved_pictures_are_in_no_table(queries: NeuralTable, study: Evidence, with_runs: Any) -> None:
    """Only the epoch that validation picked counts; a data set with moved pictures alone has printed scores alone."""

    def mixed(runs: pl.DataFrame) -> pl.DataFrame:
        others = runs.filter(pl.col("selection") == "validation").with_columns(pl.lit(0.0).alias("nDCG@10"))
        moved = runs.filter(pl.col("model") == "RankCNN").with_columns(pl.col("model") + "-shifted", MOVED)
        assert len(moved)
        return pl.concat([runs, moved, *(others.with_columns(selection=pl.lit(name)) for name in ("test", "last"))])

    def of_faces(runs: pl.DataFrame) -> pl.DataFrame:
        found = runs.filter(pl.col("dataset") == "aaf")
        assert (found["loss"] == "none").any()
        options = pl.when(pl.col("loss") == "none").then("options").otherwise(MOVED)
        return found.with_columns(options, pl.lit("neural").alias("study"))

    path = with_runs(mixed)
    assert neural_table(QUERIES, path, study.epochs).scores.equals(queries.scores)
    assert readers.read_runs(path, PIXELS, []).equals(readers.read_runs(study.runs, PIXELS, []))
    by_features = [readers.read_runs_by_features(one, PIXELS, 30_000) for one in (path, study.runs)]
    assert by_features[0].equals(by_features[1])
    assert neural_table(PIXELS, with_runs(of_faces), study.epochs).scores["ours"].count() == 0
    with pytest.raises(DataError, match=r"column 'nDCG@10' is missing"):
        neural_table(QUERIES, with_runs(lambda runs: runs.drop("nDCG@10")), study.epochs)


# Tables 2 and 3


def test_accuracy_by_scores_is_that_of_the_runs_and_is_split_by_age_gap(pixels: NeuralTable, study: Evidence) -> None:
    runs = pl.read_parquet(study.runs).filter(pl.col("dataset") == "aaf", pl.col("loss") != "none")
    wanted = dict(runs.group_by("model").agg(pl.col("PairAccuracy").mean()).rows())
    assert set(wanted) == set(AGES)
    assert {method: cell(pixels, method, "PairAccuracy")["ours"] for method in wanted} == pytest.approx(wanted)
    pairs = read_pairs(study.predictions, study.images).filter(pl.col("method") == "RankNet")
    gaps = pixels.gaps.filter(pl.col("method") == "RankNet")
    assert gaps["n"].sum() == len(pairs)
    assert (gaps["accuracy"] * gaps["n"]).sum() == pytest.approx(pairs["PairAccuracy"].sum())


def test_readings_of_classifiers_and_the_fit_of_regressions_are_those_of_the_scores(
    pixels: NeuralTable, tmp_path: Path
) -> None:
    """Both labels right is what gives numbers below one half; R^2 is of the distinct faces."""
    _, ages = write_images(tmp_path / "images.parquet")
    pairs = draw_pairs(ages)
    faces = np.unique(pairs)
    older = (ages[pairs] == ages[pairs].max(1, keepdims=True)).astype(bool)
    for method, (family, noise) in AGES.items():
        scores = method_scores(method, family, noise, ages)
        if family == "classification":
            shares = [cell(pixels, method, name)["ours"] for name in ("BothRight", "SameLabel", "BothWrong")]
            assert sum(shares) == pytest.approx(1)
            assert shares[0] < cell(pixels, method, "PairAccuracy")["ours"]
            assert shares[0] == pytest.approx(((scores[pairs] > 0) == older).all(1).mean())
        if family == "regression":
            missed = ((scores[faces] - ages[faces]) ** 2).sum()
            wanted = 1 - missed / ((ages[faces] - ages[faces].mean()) ** 2).sum()
            found = cell(pixels, method, "R2")
            assert (found["ours"], found["n"]) == (pytest.approx(wanted, abs=1e-6), len(faces))
    assert "BothRight" not in pixels.scores.filter(pl.col("family") == "rank")["metric"].to_list()


def test_methods_that_have_not_run_are_named_with_their_printed_score(pixels: NeuralTable, study: Evidence) -> None:
    missing = pixels.scores.filter(pl.col("ours").is_null())
    assert set(missing["method"]) == {"DirectRanker", "Reg-RF", "Reg-Boost", "Class-RF", "Class-Boost"}
    assert missing["printed"].null_count() == 0
    table = neural_table(FEATURES, study.runs, study.epochs)
    assert table.scores["ours"].null_count() == len(table.scores) == 12
    assert "published weights" in neural.texts(table.scores, FEATURES).markdown
    # RankCNN is printed as a dash.
    assert table.scores["printed"].null_count() == 1


def test_synthetic_data_never_meet_a_printed_score(tmp_path: Path) -> None:
    made = write_study(tmp_path, web="synthetic-mq2008-label1", faces="synthetic-aaf")
    for about in (QUERIES, PIXELS):
        table = neural_table(about, made.runs, made.epochs, made.predictions if about.of_faces else (), made.images)
        assert table.scores["printed"].null_count() == len(table.scores)
        assert table.scores["ours"].null_count() == 0
        assert "synthetic" in neural.texts(table.scores, about).markdown.lower()
        assert list(facts([Results(about, table.scores, table.comparisons)])) == []


def test_shares_are_even_at_one_half_and_other_than_pairs_of_different_ages_are_refused(
    study: Evidence, tmp_path: Path
) -> None:
    def read(path: Path, *changes: pl.Expr) -> pl.DataFrame:
        """Read the pairs of a file of predictions with changed columns."""
        table = read_table(path, "predictions")
        frame = pl.from_arrow(table).with_columns(*changes)  # type: ignore[union-attr]
        kinds = {"items": pa.list_(pa.int64()), "scores": pa.list_(pa.float32())}
        columns = {
            name: pa.array(frame[name].to_list(), kinds.get(name, table.schema.field(name).type))
            for name in table.column_names
        }
        write_table(pa.table(columns), tmp_path / "none.predictions.parquet", "predictions")
        return read_pairs([tmp_path / "none.predictions.parquet"], study.images)

    source = study.predictions[list(AGES).index("Class-LR")]
    right = read(source, pl.lit("squared").alias("loss"), pl.col("scores") + 0.5)["BothRight"]
    assert right.equals(read_pairs([source], study.images)["BothRight"])
    assert right.sum() > 0
    with pytest.raises(DataError, match="column 'items' should hold pairs"):
        read(source, pl.col("items", "scores").list.concat(pl.lit([0])))
    with pytest.raises(DataError, match="have the same age"):
        read(source, pl.lit([3, 3], pl.List(pl.Int64)).alias("items"))


# Layout, names, facts


def test_data_sets_have_their_tables_and_titles() -> None:
    tables = {"mq2008-label1": 1, "mslr-web10k-label2": 1, "aaf": 2, "synthetic-aaf-vgg16": 3}
    assert {name: table_of(name).number for name in tables} == tables
    names = ["mslr-web10k-label2", "mslr-web10k-graded", "mslr-web10k-label1", "mq2008-label2"]
    assert [QUERIES.is_on(name) for name in names] == [True, False, False, False]
    assert data_set_title("mslr-web10k-graded") == "MSLR-WEB10K (graded)"


@pytest.mark.parametrize(
    ("names", "header", "note"),
    [
        (["mslr-web10k-label2"], ["printed"], None),
        (["mq2008-label1"], ["printed, MSLR-WEB10K"], "is on MSLR-WEB10K, ours is not:"),
        (
            ["mq2008-label1", "mslr-web10k-label2"],
            ["printed, MSLR-WEB10K", "printed"],
            "is on MSLR-WEB10K, MQ2008 (relevant: label ≥ 1) is not:",
        ),
    ],
)
def test_a_table_says_whether_the_printed_scores_are_on_its_data(
    queries: NeuralTable, names: list[str], header: list[str], note: str | None
) -> None:
    own = queries.scores.filter(pl.col("dataset") == queries.scores["dataset"][0])
    scores = pl.concat([own.with_columns(pl.lit(name).alias("dataset")) for name in names])
    assert [block.header[4] for block in neural.score_blocks(scores, QUERIES)] == header
    said = neural.caption(scores, QUERIES)
    assert (note in said) if note else ("The printed column" not in said)


def test_facts_follow_the_numbers(queries: NeuralTable, pixels: NeuralTable) -> None:
    above_random, same_models = facts([Results(QUERIES, queries.scores, queries.comparisons)])
    means = {name: cell(queries, name, "nDCG@10")["ours"] for name in (*WEB, "random")}
    assert above_random.headline == (
        f"LambdaMART scores {means['LambdaMART']:.4f} on MQ2008 (relevant: label ≥ 1), place 1 of 8; a random ordering "
        f"scores {means['random']:.4f}."
    )
    assert above_random.detail.startswith("8 of 8 methods have a higher mean than a random ordering.")
    assert [row[0] for row in same_models.rows] == [
        "RankNet − Class-NN", "Rank-LR − Class-LR", "LambdaMART − Class-Boost",
    ]  # fmt: skip
    assert same_models.rows[0][1] == signed(means["RankNet"] - means["Class-NN"])
    readings, same_models = facts([Results(PIXELS, pixels.scores, pixels.comparisons)])
    assert [row[0] for row in readings.rows] == ["Class-CNN", "Class-LR"]
    # The models that were trained for two tasks.
    assert [row[0] for row in same_models.rows] == ["Rank-LR − Class-LR", "RankNet − Reg-NN", "RankCNN − Class-CNN"]
    printed = dict(readers.printed_scores(PIXELS).select("method", "printed").rows())
    assert same_models.rows[1][3] == signed(printed["RankNet"] - printed["Reg-NN"])


def test_the_command_writes_every_form_twice_the_same(study: Evidence, tmp_path: Path) -> None:
    runs, faces = ("--runs", study.runs, "--epochs", study.epochs), ("--predictions", *study.predictions)
    folders = [tmp_path / name for name in ("a", "b")]
    for about in TABLES:
        more = ("--images", study.images, *faces) if about is PIXELS else ()
        for folder in folders:
            run("table", about.name, *runs, "--out-dir", folder, *more)
    files, again = map(contents, folders)
    assert files == again
    assert len(files) == 3 * 4 + 2
    results = read_results(folders[0])
    assert [one.about for one in results] == list(TABLES)
    assert results[1].mean("RankNet") == pytest.approx(0.9, abs=1e-6)
    assert results[2].mean("RankNet") is None
    # A row per method in Markdown and in LaTeX, the best one in bold.
    rows = [line for line in files["table_neural_2.md"].decode().splitlines() if line.startswith("| ")]
    assert len(rows) == len(set(results[1].scores["method"])) + 1 == files["table_neural_2.tex"].count(rb"\\")
    assert [row.split(" | ")[1] for row in rows if "**" in row] == ["**RankCNN**"]
    for number, words, missing in ((1, (), "--runs"), (1, runs[:2], "--epochs"), (2, (*runs, *faces), "--images")):
        with pytest.raises(ConfigError, match=missing):
            run("table", f"table_neural_{number}", *words, "--out-dir", tmp_path)
