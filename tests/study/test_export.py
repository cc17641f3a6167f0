"""The step `export`: what it writes evaluates to the study's own numbers, here and elsewhere; and its errors."""

import shutil
from pathlib import Path
from typing import Any

import exported_study
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import pytrec_eval
from exported_study import BOTH_SEEDS, QUERIES, USERS

from rankbound import cli as library
from rankbound.evaluation import evaluate_run
from rankbound.io.atomic import temporary_beside
from rankbound.io.files import read_qrels, read_run
from rankbound.metrics import metric
from rankbound_study import cli
from rankbound_study.data.contracts import read_metadata, read_table, write_table
from rankbound_study.export.trec_folder import NAMED
from rankbound_study.export.whole_folder import whole_folder
from rankbound_study.jobs.job import RUN_METRICS

METRICS = ("nDCG", "AP", "RR")
KEY = (*NAMED, "dataset", "nsr_train", "nsr_test", "options", "seed")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return exported_study.make_study(folder)


@pytest.fixture
def study(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that a test may change, the working folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Export:
    """Runs the subcommand, and keeps what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *flags: object, results: str = "results", out: str = "trec", status: int = 0) -> str:
        self._capsys.readouterr()
        found = cli.main(["export", results, "--out-dir", out, *map(str, flags)])
        printed = self._capsys.readouterr()
        assert found == status, printed.err
        assert Path(out).exists() == (status == 0)
        assert not [path for path in Path().iterdir() if path.name.startswith(".")]
        return printed.err if status else printed.out


@pytest.fixture
def export(study: Path, capsys: pytest.CaptureFixture[str]) -> Export:
    return Export(capsys)


def frame(path: str | Path, contract: str) -> pl.DataFrame:
    read = pl.from_arrow(read_table(path, contract))
    assert isinstance(read, pl.DataFrame)
    return read


def rewrite(path: str | Path, contract: str, changed: pl.DataFrame) -> None:
    """The file with other rows, and the metadata that it had."""
    table, before = changed.to_arrow(), read_table(path, contract)
    columns = {field.name: table.column(field.name).cast(field.type) for field in before.schema}
    write_table(pa.table(columns), path, contract, metadata=read_metadata(path, contract))


def index(folder: str = "trec") -> list[dict[str, Any]]:
    read = pl.read_csv(Path(folder) / "runs.csv", schema_overrides={"fold": pl.String})
    return [{**row, "fold": [int(fold) for fold in row["fold"].split()]} for row in read.iter_rows(named=True)]


def table_rows(row: dict[str, Any]) -> pl.DataFrame:
    """Return the rows of an exported run in the study's table."""
    runs = frame("results/runs.parquet", "runs")
    same = [pl.col(key).eq_missing(pl.lit(row[key], dtype=runs.schema[key])) for key in KEY]
    return runs.filter(*same, pl.col("fold").is_in(row["fold"]))


def nested(topics: Any, items: Any, values: Any, offsets: Any) -> dict[str, dict[str, Any]]:
    """As pytrec_eval takes it."""
    limits = list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
    names, numbers = list(items), values.tolist()
    return {
        topic: dict(zip(names[start:stop], numbers[start:stop], strict=True))
        for topic, (start, stop) in zip(topics, limits, strict=True)
    }


class TestWhatIsWritten:
    def test_every_run_evaluates_to_the_studys_numbers(self, export: Export) -> None:
        printed = export()
        assert "nDCG, AP, RR of all lists are those of the study's runs" in printed
        rows = index()
        runs = frame("results/runs.parquet", "runs").filter(pl.col("loss") != "none", pl.col("selection") != "last")
        kept = runs.filter((pl.col("protocol") == "honest") == (pl.col("selection") == "validation"))
        assert sum(row["topics"] for row in rows) == len(kept)
        for row in rows:
            found = evaluate_run(Path("trec") / row["run"], Path("trec") / row["qrels"], METRICS)
            assert not found.missing
            assert not found.unjudged
            expected = table_rows(row)
            assert list(found.topics) == expected["topic"].to_list()
            for name in METRICS:
                wanted = expected[name].to_numpy()
                np.testing.assert_allclose(found.values[name], wanted, rtol=0, atol=1e-12, err_msg=row["run"])

    def test_trec_eval_finds_the_same(self, export: Export) -> None:
        """Its nDCG is that of linear gains, equal where the relevance is 0 or 1; it counts topics without any as 0.

        Where scores are tied, it goes by the items' names.
        """
        export()
        compared = 0
        for row in index():
            run, qrels = read_run(Path("trec") / row["run"]), read_qrels(Path("trec") / row["qrels"])
            judged = nested(qrels.topics, qrels.items, qrels.relevance, qrels.offsets)
            scored = nested(run.topics, run.items, run.scores, run.offsets)
            found = pytrec_eval.RelevanceEvaluator(judged, {"ndcg", "map", "recip_rank"}).evaluate(scored)
            tied = [topic for topic, scores in scored.items() if len(set(scores.values())) < len(scores)]
            assert row["tied_topics"] == len(tied)
            for one in table_rows(row).filter(pl.col("p") > 0, ~pl.col("topic").is_in(tied)).iter_rows(named=True):
                values, compared = found[one["topic"]], compared + 1
                assert values["map"] == pytest.approx(one["AP"], abs=1e-12)
                assert values["recip_rank"] == pytest.approx(one["RR"], abs=1e-12)
                if "graded" not in row["dataset"]:
                    assert values["ndcg"] == pytest.approx(one["nDCG"], abs=1e-12)
        assert compared > 100

    def test_scores_and_grades_are_all_there(self, export: Export) -> None:
        """Digits that read back exactly; every item of the lists is judged, the grades as the lists have them."""
        export("--study", "neural")
        (row,) = index()
        run, qrels = read_run(Path("trec") / row["run"]), read_qrels(Path("trec") / row["qrels"])
        file = "results/runs/honest/synthetic-mq2008-graded/Class-LR/logistic/none.predictions.parquet"
        kept = frame(file, "predictions")
        scored = nested(run.topics, run.items, run.scores.astype(np.float32), run.offsets)
        for topic, scores in kept.select("topic", "scores").iter_rows():
            assert sorted(scored[topic].values()) == sorted(scores)
        judged = nested(qrels.topics, qrels.items, qrels.relevance, qrels.offsets)
        lists = frame(f"data/lists/{QUERIES}.parquet", "lists")
        expected = {
            topic: dict(zip(items, grades, strict=True))
            for topic, items, grades in lists.select("topic", "items", "relevance").iter_rows()
        }
        assert judged == expected
        assert {grade for grades in judged.values() for grade in grades.values()} == {0, 1, 2}

    def test_tied_scores_stay_tied(self, export: Export) -> None:
        """In the study's table they count by the mean over their orders, and so they do in what is written."""
        file = f"results/{BOTH_SEEDS}.predictions.parquet"
        rough = frame(file, "predictions").with_columns(
            pl.col("scores").list.eval((pl.element() * 4).round(0) / np.float32(7)).cast(pl.List(pl.Float32))
        )
        rewrite(file, "predictions", rough)
        truth = frame(exported_study.instances(f"{QUERIES}-label1"), "instances").filter(split="test")
        joined = rough.join(truth, on=["fold", "topic"], suffix="_true", maintain_order="left")
        offsets = np.append(0, joined["items"].list.len().cum_sum().to_numpy())
        scores, grades = (joined[name].explode().to_numpy() for name in ("scores", "relevance"))
        values = {name: pl.Series(metric(name)(scores, grades, offsets)) for name in RUN_METRICS}
        runs = frame(f"results/{BOTH_SEEDS}.parquet", "runs").filter(selection="test")
        keys = ["fold", "seed", "topic"]
        changed = joined.select(keys).with_columns(**values)
        runs = runs.drop(RUN_METRICS).join(changed, on=keys, maintain_order="left")
        rewrite(f"results/{BOTH_SEEDS}.parquet", "runs", runs)
        rewrite("results/runs.parquet", "runs", runs)
        assert "of all lists are those" in export("--loss", "nDCG")
        rows = index()
        assert all(row["tied_topics"] > 0 for row in rows)
        for row in rows:
            found = evaluate_run(Path("trec") / row["run"], Path("trec") / row["qrels"], METRICS)
            for name in METRICS:
                wanted = table_rows(row)[name].to_numpy()
                np.testing.assert_allclose(found.values[name], wanted, rtol=0, atol=1e-12)

    def test_scores_that_tie_in_single_precision_alone_are_reported(self, export: Export) -> None:
        """The study's numbers may come from scores with more digits than are kept."""
        file = f"results/{BOTH_SEEDS}.predictions.parquet"
        kept = frame(file, "predictions")
        rewrite(file, "predictions", kept.with_columns(pl.col("scores").list.eval(pl.element() * 0)))
        assert "lists differ from those of the study's runs by more than 1e-09" in export("--loss", "nDCG")


class TestPlaces:
    def test_folds_of_queries_are_one_run_and_those_of_users_are_apart(self, export: Export) -> None:
        export("--protocol", "published")
        places = {str(path.relative_to("trec")) for path in Path("trec").rglob("qrels.txt")}
        folds = [f"{USERS}-nsr1/fold-{fold}/qrels.txt" for fold in exported_study.FOLDS]
        assert places == {f"{QUERIES}-label1/qrels.txt", *folds}
        queries = [row for row in index() if row["dataset"] == f"{QUERIES}-label1"]
        assert [(row["loss"], row["seed"], row["fold"]) for row in queries] == [
            ("AP", 0, exported_study.FOLDS),
            ("nDCG", 0, exported_study.FOLDS),
            ("nDCG", 1, exported_study.FOLDS),
        ]
        users = [row for row in index() if row["dataset"] == USERS]
        assert [row["fold"] for row in users] == [[fold] for fold in exported_study.FOLDS]
        names = {Path(row["run"]).stem for row in users}
        assert names == {"thesis_published_matrix-factorization_WARP-alpha=constant-@1_none_test_seed0"}
        topics = read_run(Path("trec") / users[0]["run"]).topics
        assert topics == read_run(Path("trec") / users[1]["run"]).topics, "users keep their names in every fold"

    def test_the_tag_is_the_files_name(self, export: Export) -> None:
        export()
        for row in index():
            text = (Path("trec") / row["run"]).read_text("utf-8")
            assert {line.split()[-1] for line in text.splitlines()} == {Path(row["run"]).stem}

    def test_experiments_have_qrels_of_the_lists_that_they_were_tested_on(self, export: Export) -> None:
        export("--protocol", "honest", "--dataset", USERS)
        places = {str(path.parent.relative_to("trec")) for path in Path("trec").rglob("qrels.txt")}
        assert places == {
            f"{USERS}-nsr2_tested-at-nsr1/fold-1",
            f"{USERS}-nsr2_tested-at-nsr1/fold-2",
            f"{USERS}-nsr1_relevant-1/fold-2",
        }
        qrels = read_qrels(f"trec/{USERS}-nsr1_relevant-1/fold-2/qrels.txt")
        assert np.add.reduceat(qrels.relevance, qrels.offsets[:-1]).tolist() == [1] * len(qrels.topics)

    def test_one_cell(self, export: Export) -> None:
        export("--dataset", f"{QUERIES}-label1", "--loss", "nDCG", "--seed", 1, "--fold", 3)
        (row,) = index()
        assert (row["seed"], row["fold"]) == (1, [3])
        assert row["run"].startswith(f"{QUERIES}-label1_folds-3/runs/"), "fewer topics than the qrels of all folds have"

    def test_one_file_of_predictions(self, export: Export) -> None:
        export(results=f"results/{BOTH_SEEDS}.predictions.parquet")
        assert [row["seed"] for row in index()] == [0, 1]

    def test_the_same_bytes_every_time(self, export: Export) -> None:
        for out in ("one", "two"):
            export("--study", "thesis", out=out)
        one, two = (
            {path.relative_to(out): path.read_bytes() for path in Path(out).rglob("*") if path.is_file()}
            for out in ("one", "two")
        )
        assert one == two

    def test_runs_can_be_compared(self, export: Export, capsys: pytest.CaptureFixture[str]) -> None:
        export("--dataset", f"{QUERIES}-label1")
        a, b, _ = (f"trec/{row['run']}" for row in index())
        given = ["--qrels", f"trec/{QUERIES}-label1/qrels.txt", "-m", "AP", "--resamples", "99", "--flips", "99"]
        assert library.main(["compare", a, b, *given]) == 0
        assert "AP" in capsys.readouterr().out


class TestErrors:
    def test_there_is_something_already(self, export: Export) -> None:
        Path("trec").mkdir()
        Path("trec/mine.txt").write_text("mine")
        assert cli.main(["export", "--out-dir", "trec"]) == 2
        assert [path.name for path in Path("trec").iterdir()] == ["mine.txt"]

    def test_no_predictions(self, export: Export) -> None:
        for path in Path("results").rglob("*.predictions.parquet"):
            path.unlink()
        message = export(status=2)
        assert "results: it has no runs/**/*.predictions.parquet; expected a study's results folder" in message

    def test_no_such_runs(self, export: Export) -> None:
        message = export("--dataset", "movielens", status=2)
        assert f"dataset 'movielens': results has no such runs; it has {USERS}, {QUERIES}-graded" in message

    @pytest.mark.parametrize("flags", [("--model", "oracle"), ("--selection", "last")])
    def test_runs_whose_scores_are_not_kept(self, export: Export, flags: tuple[str, str]) -> None:
        assert "there are such runs, but their scores were not kept" in export(*flags, status=2)

    @pytest.mark.parametrize("file", [f"instances/{QUERIES}-graded", f"lists/{QUERIES}", f"instances/{USERS}-nsr1"])
    def test_data_are_missing(self, export: Export, file: str) -> None:
        Path(f"data/{file}.parquet").unlink()
        message = export(status=2)
        assert f"data/{file}.parquet: there is no such file; expected the" in message
        assert "--data" in message

    def test_data_of_another_sample(self, export: Export) -> None:
        exported_study.make_data(seed=1)
        message = export("--dataset", USERS, "--nsr-train", 1, status=2)
        assert "expected the data of the study" in message

    def test_other_grades_for_the_same_items(self, export: Export) -> None:
        path = exported_study.instances(f"{QUERIES}-label1")
        changed = frame(path, "instances").with_columns(pl.col("relevance").list.eval(1 - pl.element()))
        rewrite(path, "instances", changed)
        message = export("--dataset", f"{QUERIES}-label1", status=2)
        assert "in their numbers of items or of relevant items" in message

    @pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
    def test_a_score_that_is_no_number(self, export: Export, wrong: float) -> None:
        """The last file of all: nothing is left of what was written before."""
        file = f"results/{BOTH_SEEDS}.predictions.parquet"
        kept = frame(file, "predictions")
        rewrite(file, "predictions", kept.with_columns(pl.col("scores").list.eval(pl.element() * 0 + wrong)))
        assert f"has the score {wrong}, expected finite numbers" in export(status=2)

    def test_two_runs_of_one_name(self, export: Export) -> None:
        for ending in ("parquet", "predictions.parquet"):
            shutil.copy(f"results/{BOTH_SEEDS}.{ending}", f"results/{BOTH_SEEDS}-again.{ending}")
        assert "seed0.txt would be a run of results/" in export(status=2)

    def test_names_with_white_space(self, export: Export) -> None:
        spaced = pl.col("topic").str.replace("^", "query ")
        for path, contract in (
            (exported_study.instances(f"{QUERIES}-label1"), "instances"),
            (f"results/{BOTH_SEEDS}.predictions.parquet", "predictions"),
            (f"results/{BOTH_SEEDS}.parquet", "runs"),
        ):
            rewrite(path, contract, frame(path, contract).with_columns(spaced))
        message = export("--loss", "nDCG", status=2)
        assert f"data/instances/{QUERIES}-label1.parquet: found the topic 'query " in message
        assert "use --space _" in message
        assert "expected one or more characters" in export("--loss", "nDCG", "--space", " ", status=2)
        export("--loss", "nDCG", "--space", "_")
        topics = read_run(Path("trec") / index()[0]["run"]).topics
        assert all(topic.startswith("query_") for topic in topics)

    def test_names_that_are_one_without_white_space(self, export: Export) -> None:
        path = f"data/lists/{QUERIES}.parquet"
        lists = read_table(path, "lists")
        items = pl.Series(lists.column("items")).list.eval(
            pl.when(pl.element().cum_count() == 1).then(pl.lit("a b")).otherwise(pl.lit("a_b"))
        )
        changed = lists.set_column(1, "items", items.to_arrow().cast(pa.list_(pa.string())))
        write_table(changed, path, "lists", metadata=read_metadata(path, "lists"))
        message = export("--study", "neural", "--space", "_", status=2)
        assert "item 'a_b' occurs more than once in topic" in message


class TestWholeFolders:
    def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_has_is_not(self, tmp_path: Path) -> None:
        (tmp_path / ".x.abcdefgh.folder").mkdir()
        with temporary_beside(tmp_path / "x", ".lock") as lock:
            living = lock.with_suffix(".folder")
            living.mkdir()
            with whole_folder(tmp_path / "x") as folder:
                (folder / "a").write_text("whole")
                assert not (tmp_path / "x").exists()
            assert living.exists()
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([living.name, "x"])
        assert (tmp_path / "x" / "a").read_text() == "whole"

    def test_an_empty_folder_is_no_obstacle(self, tmp_path: Path) -> None:
        (tmp_path / "x").mkdir()
        with whole_folder(tmp_path / "x") as folder:
            (folder / "a").touch()
        assert (tmp_path / "x" / "a").exists()
