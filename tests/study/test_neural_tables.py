"""Tables and facts of the neural-ranking study, on generated files: arithmetic, printed column, tests."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from synthetic_comparisons import AGES, WEB, Study, draw_pairs, method_scores, write_images, write_study

from rankbound.compare.statistics import holm
from rankbound.errors import ConfigError, DataError
from rankbound_study.data.contracts import read_table, write_table
from rankbound_study.report.columns import signed
from rankbound_study.report.neural_section import Results, facts, read_results
from rankbound_study.report.tables import neural
from rankbound_study.report.tables.neural import NeuralTable, neural_table
from rankbound_study.results import neural_runs
from rankbound_study.results.neural_names import TABLES, data_set_title, table_named, table_of
from rankbound_study.results.neural_pairs import read_pairs, with_readings
from rankbound_study.steps import BY_NAME

table_command = BY_NAME["table"]

QUERIES, PIXELS, FEATURES = TABLES


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return write_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def queries(study: Study) -> NeuralTable:
    return neural_table(QUERIES, study.runs, study.epochs)


@pytest.fixture(scope="module")
def pixels(study: Study) -> NeuralTable:
    return neural_table(PIXELS, study.runs, study.epochs, study.predictions, study.images)


def cell(table: NeuralTable, method: str, metric: str) -> dict[str, object]:
    return table.scores.filter(pl.col("method") == method, pl.col("metric") == metric).row(0, named=True)


def with_runs(study: Study, folder: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Path:
    change(pl.read_parquet(study.runs)).write_parquet(folder / "runs.parquet")
    return folder / "runs.parquet"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_adjusts_step_by_step(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        smaller = sorted(p_values)[: rank + 1]
        wanted = max(min(1.0, (len(p_values) - place) * value) for place, value in enumerate(smaller))
        assert adjusted[index] == pytest.approx(wanted)


# Table 1


def test_every_printed_method_has_a_row_beside_its_score(queries: NeuralTable) -> None:
    printed = neural_runs.printed_scores(QUERIES)
    assert printed["method"].to_list() == list(WEB)
    rows = queries.scores.filter(pl.col("metric") == "nDCG@10")
    beside = rows.filter(pl.col("printed").is_not_null()).select("method", "printed")
    assert dict(beside.rows()) == dict(printed.select("method", "printed").rows())
    assert rows["method"].to_list()[-2:] == ["oracle", "random"]
    config = yaml.safe_load(Path(__file__).parents[2].joinpath("config.yaml").read_text("utf-8"))
    assert set(printed["method"]) <= set(config["comparisons"]["web-queries"]["methods"])


def test_queries_without_a_relevant_document_are_left_out_and_counted(queries: NeuralTable, study: Study) -> None:
    found = cell(queries, "RankNet", "nDCG@10")
    assert (found["n"], found["n_skipped"], found["n_folds"]) == (25, 5, 5)
    runs = pl.read_parquet(study.runs).filter(pl.col("model") == "RankNet", pl.col("dataset") == "mq2008-label1")
    assert found["ours"] == pytest.approx(runs["nDCG@10"].drop_nans().mean())


@pytest.mark.parametrize("best_by_validation", ["LambdaMART", "Class-LR"])
def test_the_best_method_by_validation_is_compared_with_none_and_all_others_with_it(
    best_by_validation: str, study: Study, tmp_path: Path
) -> None:
    """Whatever the test part says of it: LambdaMART has the highest mean there, Class-LR the lowest."""
    picked = (pl.col("model") == best_by_validation) & (pl.col("part") == "validation")
    epochs = pl.read_parquet(study.epochs).with_columns(
        pl.when(picked).then(0.99).otherwise("nDCG@10").alias("nDCG@10")
    )
    epochs.write_parquet(tmp_path / "epochs.parquet")
    queries = neural_table(QUERIES, study.runs, tmp_path / "epochs.parquet")
    trained = queries.scores.filter(pl.col("metric") == "nDCG@10", pl.col("family") != "control")
    assert trained.sort("ours")["method"].to_list()[:: len(trained) - 1] == ["Class-LR", "LambdaMART"]
    best = trained.filter(pl.col("method") == best_by_validation).row(0, named=True)
    (block,) = neural.score_blocks(queries.scores, QUERIES)
    assert [method.text for _, method, *_ in block.rows if method.strong] == [best_by_validation]
    assert best["p_value"] is None
    others = trained.filter(pl.col("method") != best["method"])
    assert others["p_holm"].null_count() == 0
    assert others["difference_to_best"].to_list() == pytest.approx((others["ours"] - best["ours"]).to_list())
    assert (others["p_holm"] >= others["p_value"]).all()


def test_only_the_epoch_that_validation_picked_counts(queries: NeuralTable, study: Study, tmp_path: Path) -> None:
    def mixed(runs: pl.DataFrame) -> pl.DataFrame:
        others = runs.filter(pl.col("selection") == "validation").with_columns(pl.lit(0.0).alias("nDCG@10"))
        return pl.concat([runs, *(others.with_columns(selection=pl.lit(name)) for name in ("test", "last"))])

    assert neural_table(QUERIES, with_runs(study, tmp_path, mixed), study.epochs).scores.equals(queries.scores)


MOVED = pl.col("options").str.replace("}", ', "shift": 0.2}', literal=True)


def test_methods_on_moved_pictures_are_in_no_table(study: Study, tmp_path: Path) -> None:
    def mixed(runs: pl.DataFrame) -> pl.DataFrame:
        moved = runs.filter(pl.col("model") == "RankCNN").with_columns(pl.col("model") + "-shifted", MOVED)
        assert len(moved)
        return pl.concat([runs, moved])

    path = with_runs(study, tmp_path, mixed)
    for read, more in ((neural_runs.read_runs, PIXELS.metrics), (neural_runs.read_runs_by_features, 30_000)):
        assert read(path, PIXELS, more).equals(read(study.runs, PIXELS, more))


def test_a_data_set_with_moved_pictures_alone_has_printed_scores_alone(study: Study, tmp_path: Path) -> None:
    def of_faces(runs: pl.DataFrame) -> pl.DataFrame:
        found = runs.filter(pl.col("dataset") == "aaf")
        assert (found["loss"] == "none").any()
        options = pl.when(pl.col("loss") == "none").then("options").otherwise(MOVED)
        return found.with_columns(options, pl.lit("neural").alias("study"))

    table = neural_table(PIXELS, with_runs(study, tmp_path, of_faces), study.epochs)
    assert table.scores["ours"].count() == 0


def test_a_missing_column_is_named(study: Study, tmp_path: Path) -> None:
    path = with_runs(study, tmp_path, lambda runs: runs.drop("nDCG@10"))
    with pytest.raises(DataError, match=r"column 'nDCG@10' is missing"):
        neural_table(QUERIES, path, study.epochs)


# Tables 2 and 3


def test_accuracy_by_scores_is_the_one_of_the_runs_and_is_split_by_age_gap(pixels: NeuralTable, study: Study) -> None:
    runs = pl.read_parquet(study.runs).filter(pl.col("dataset") == "aaf", pl.col("loss") != "none")
    wanted = dict(runs.group_by("model").agg(pl.col("PairAccuracy").mean()).rows())
    assert set(wanted) == set(AGES)
    for method, mean in wanted.items():
        assert cell(pixels, method, "PairAccuracy")["ours"] == pytest.approx(mean)
    pairs = with_readings(read_pairs(study.predictions, study.images)).filter(pl.col("method") == "RankNet")
    gaps = pixels.gaps.filter(pl.col("method") == "RankNet")
    assert gaps["n"].sum() == len(pairs)
    assert (gaps["accuracy"] * gaps["n"]).sum() == pytest.approx(pairs["PairAccuracy"].sum())


def test_both_labels_right_is_what_gives_numbers_below_one_half(pixels: NeuralTable, tmp_path: Path) -> None:
    _, ages = write_images(tmp_path / "images.parquet")
    pairs = draw_pairs(ages)
    for method, (family, noise) in AGES.items():
        if family == "classification":
            shares = {name: cell(pixels, method, name)["ours"] for name in ("BothRight", "SameLabel", "BothWrong")}
            assert sum(shares.values()) == pytest.approx(1)
            assert shares["BothRight"] < cell(pixels, method, "PairAccuracy")["ours"]
            scores = method_scores(method, family, noise, ages)[pairs]
            older = (ages[pairs] == ages[pairs].max(1, keepdims=True)).astype(bool)
            assert shares["BothRight"] == pytest.approx(((scores > 0) == older).all(1).mean())
    assert "BothRight" not in pixels.scores.filter(pl.col("family") == "rank")["metric"].to_list()


def test_r_squared_is_of_the_distinct_faces(pixels: NeuralTable, tmp_path: Path) -> None:
    _, ages = write_images(tmp_path / "images.parquet")
    faces = np.unique(draw_pairs(ages))
    for method in ("Reg-NN", "Reg-l1"):
        predicted = method_scores(method, *AGES[method], ages)[faces]
        wanted = 1 - ((predicted - ages[faces]) ** 2).sum() / ((ages[faces] - ages[faces].mean()) ** 2).sum()
        found = cell(pixels, method, "R2")
        assert (found["ours"], found["n"]) == (pytest.approx(wanted, abs=1e-6), len(faces))


def test_methods_that_have_not_run_are_named_with_their_printed_score(pixels: NeuralTable, study: Study) -> None:
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


def rewritten(source: Path, folder: Path, *changes: pl.Expr) -> Path:
    """Return a file of predictions with changed columns."""
    table = read_table(source, "predictions")
    frame = pl.from_arrow(table).with_columns(*changes)  # type: ignore[union-attr]
    kinds = {"items": pa.list_(pa.int64()), "scores": pa.list_(pa.float32())}
    columns = {
        name: pa.array(frame[name].to_list(), kinds.get(name, table.schema.field(name).type))
        for name in table.column_names
    }
    write_table(pa.table(columns), folder / "none.predictions.parquet", "predictions")
    return folder / "none.predictions.parquet"


def test_shares_of_a_squared_loss_are_even_at_one_half(study: Study, tmp_path: Path) -> None:
    source = study.predictions[list(AGES).index("Class-LR")]
    shares = pl.lit("squared").alias("loss"), (pl.col("scores") + 0.5).alias("scores")
    paths = (source, rewritten(source, tmp_path, *shares))
    one, other = (with_readings(read_pairs([each], study.images)) for each in paths)
    assert one["BothRight"].equals(other["BothRight"])
    assert one["BothRight"].sum() > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([pl.col("items", "scores").list.concat(pl.lit([0]))], "column 'items' should hold pairs"),
        ([pl.lit([3, 3], pl.List(pl.Int64)).alias("items")], "have the same age"),
    ],
)
def test_what_is_no_pair_of_different_ages_is_refused(
    changes: list[pl.Expr], message: str, study: Study, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        read_pairs([rewritten(study.predictions[0], tmp_path, *changes)], study.images)


# Layout, names, facts


def test_data_sets_have_their_tables_and_titles() -> None:
    tables = {"mq2008-label1": 1, "mslr-web10k-label2": 1, "aaf": 2, "synthetic-aaf-vgg16": 3}
    assert {name: table_of(name).number for name in tables} == tables
    with pytest.raises(ConfigError, match="there is no 'table_neural_4'"):
        table_named("table_neural_4")
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


def test_markdown_and_latex_have_a_row_per_method(pixels: NeuralTable) -> None:
    (block,) = neural.score_blocks(pixels.scores, PIXELS)
    assert all(len(row) == len(block.header) for row in block.rows)
    assert [method.text for _, method, *_ in block.rows if method.strong] == ["RankCNN"]
    texts = neural.texts(pixels.scores, PIXELS)
    assert sum(line.startswith("| ") for line in texts.markdown.splitlines()) == 1 + len(block.rows)
    assert texts.latex.count(r"\\") == 1 + len(block.rows)


def test_facts_follow_the_numbers(queries: NeuralTable, pixels: NeuralTable) -> None:
    web, faces = (Results(*pair, table.comparisons) for *pair, table in (
        (QUERIES, queries.scores, queries), (PIXELS, pixels.scores, pixels),
    ))  # fmt: skip
    above_random, same_models = facts([web])
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
    readings, same_models = facts([faces])
    assert [row[0] for row in readings.rows] == ["Class-CNN", "Class-LR"]
    # The models that were trained for two tasks.
    assert [row[0] for row in same_models.rows] == ["Rank-LR − Class-LR", "RankNet − Reg-NN", "RankCNN − Class-CNN"]
    printed = [faces.printed(name) for name in ("RankNet", "Reg-NN")]
    assert None not in printed
    assert same_models.rows[1][3] == signed(printed[0] - printed[1])


def run(*words: str) -> None:
    parser = argparse.ArgumentParser()
    table_command.configure(parser)
    table_command.run(parser.parse_args(list(words)))


def test_the_command_writes_every_form_twice_the_same(study: Study, tmp_path: Path) -> None:
    files = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        for about in TABLES:
            words = ["--runs", str(study.runs), "--epochs", str(study.epochs), "--out-dir", str(folder)]
            if about is PIXELS:
                words += ["--images", str(study.images), "--predictions", *map(str, study.predictions)]
            run(about.name, *words)
        files.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert files[0] == files[1]
    assert len(files[0]) == 3 * 4 + 2
    results = read_results(tmp_path / "a")
    assert [one.about for one in results] == list(TABLES)
    assert results[1].mean("RankNet") == pytest.approx(0.9, abs=1e-6)
    assert results[2].mean("RankNet") is None


def test_the_command_asks_for_what_it_needs(study: Study, tmp_path: Path) -> None:
    words = {"--runs": str(study.runs), "--epochs": str(study.epochs), "--images": ""}
    given: list[str] = []
    for flag, value in words.items():
        more = ["--predictions", str(study.predictions[0])] if flag == "--images" else []
        with pytest.raises(ConfigError, match=flag):
            run(f"table_neural_{2 if more else 1}", "--out-dir", str(tmp_path), *given, *more)
        given += [flag, value]
