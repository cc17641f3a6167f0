"""The step `export`: what it writes evaluates to the study's own numbers, here and elsewhere; and its errors."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import pytrec_eval
from test_train_job import OPTIONS, frame

from rankbound import cli as library
from rankbound.evaluation import evaluate_run
from rankbound.io.files import read_qrels, read_run
from rankbound.metrics import metric
from rankbound_study.cli import main
from rankbound_study.data.contracts import read_metadata, read_table, write_table
from rankbound_study.export import whole_folder
from rankbound_study.export.trec_folder import METRICS, NAMED
from rankbound_study.jobs.parts import RUN_METRICS

KEY = (*NAMED, "dataset", "nsr_train", "nsr_test", "options", "seed")
QUERIES, USERS = "synthetic-mq2008", "synthetic-movielens"
LABELLED = f"{QUERIES}-label1"
FOLDS = [1, 2, 3, 4, 5]

# The study


def step(*arguments: str, **options: Any) -> None:
    """Run a step, which must go well."""
    given = ("--options", json.dumps(options)) if options else ()
    assert main([*arguments, *given]) == 0, arguments


def instances(name: str) -> str:
    return f"data/instances/{name}.parquet"


def make_data(seed: int) -> None:
    """Lists of queries, read in two ways, and ratings of users, sampled at two ratios."""
    few: dict[str, Any] = {"min_relevant": 5}
    ways = (
        {"label1": {"threshold": 1}, "graded": {"graded": True}},
        {f"nsr{nsr}": {"nsr": nsr, **few} for nsr in (1, 2)},
    )
    for name, kind, options, made in ((QUERIES, "lists", {}, ways[0]), (USERS, "interactions", few, ways[1])):
        data, folds = f"data/{kind}/{name}.parquet", f"data/folds/{name}.parquet"
        step("generate", name, "--size", "12", "--seed", str(seed), "--out", data)
        step("split", name, "--in", data, "--out", folds, **options)
        for ending, how in made.items():
            step("sample", name, "--in", data, "--folds", folds, "--out", instances(f"{name}-{ending}"), **how)


JOBS: dict[str, dict[str, Any]] = OPTIONS["exported"]
BOTH_SEEDS, _, OF_METHOD, OF_USERS, *_ = JOBS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and results, made by the command line as the workflow does."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make_data(seed=0)
        for out, options in JOBS.items():
            nsr = options["nsr"]
            data = instances(options["dataset"] if nsr is None else f"{USERS}-nsr{nsr}")
            more = ["--lists", f"data/lists/{QUERIES}.parquet"] if nsr is None else []
            more += ["--test-instances", instances(f"{USERS}-nsr1")] if "test_nsr" in options else []
            step("job", "--instances", data, "--out", f"results/{out}.parquet", "--device", "cpu", *more, **options)
        shared = {"study": "thesis", "protocol": "published", "dataset": USERS, "nsr": 1, "folds": FOLDS}
        controls, lists = f"results/runs/published/{USERS}-nsr1/controls.parquet", instances(f"{USERS}-nsr1")
        step("controls", "--instances", lists, "--out", controls, **shared, controls=["random", "oracle"])
        every = [str(path) for path in Path("results/runs").rglob("*.parquet") if path.name.count(".") == 1]
        outs = {"--out": "runs", "--epochs-out": "epochs", "--rates-out": "rates"}
        named = [word for flag, name in outs.items() for word in (flag, f"results/{name}.parquet")]
        step("collect", "--runs", *every, *named)
    return folder


@pytest.fixture
def study(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that a test may change, the working folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


Export = Callable[..., str]


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Export:
    """Runs the step in the working folder; gives what it printed."""
    monkeypatch.chdir(tmp_path)

    def call(*flags: object, out: str = "trec", status: int = 0) -> str:
        capsys.readouterr()
        found = main(["export", "--out-dir", out, *map(str, flags)])
        printed = capsys.readouterr()
        assert found == status, printed.err
        assert Path(out).exists() == (status == 0)
        assert not [path for path in Path().iterdir() if path.name.startswith(".")]
        return printed.err if status else printed.out

    return call


def rewrite(path: str, contract: str, **columns: pl.Expr) -> None:
    """The file with other values in columns, and the metadata that it had."""
    table = frame(path, contract).with_columns(**columns).to_arrow()
    write_table(table, path, contract, metadata=read_metadata(path, contract))


def index() -> list[dict[str, Any]]:
    read = pl.read_csv("trec/runs.csv", schema_overrides={"fold": pl.String})
    return [{**row, "fold": [int(fold) for fold in row["fold"].split()]} for row in read.iter_rows(named=True)]


def places() -> set[str]:
    """The folders of the qrels."""
    return {str(path.parent.relative_to("trec")) for path in Path("trec").rglob("qrels.txt")}


def table_rows(row: dict[str, Any]) -> pl.DataFrame:
    """The rows of an exported run in the study's table."""
    runs = frame("results/runs.parquet", "runs")
    same = [pl.col(key).eq_missing(pl.lit(row[key], dtype=runs.schema[key])) for key in KEY]
    return runs.filter(*same, pl.col("fold").is_in(row["fold"]))


def both(row: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """The grades and the scores of an exported run by topic and item, as pytrec_eval takes them."""
    run, qrels = read_run(Path("trec") / row["run"]), read_qrels(Path("trec") / row["qrels"])
    found = []
    for one, values in ((qrels, qrels.relevance), (run, run.scores)):
        limits = zip(one.topics, one.offsets[:-1].tolist(), one.offsets[1:].tolist(), strict=True)
        named = list(zip(list(one.items), values.tolist(), strict=True))
        found.append({topic: dict(named[start:stop]) for topic, start, stop in limits})
    return found[0], found[1]


def assert_evaluates_to_the_studys_numbers(row: dict[str, Any]) -> None:
    found, expected = evaluate_run(Path("trec") / row["run"], Path("trec") / row["qrels"], METRICS), table_rows(row)
    assert not found.missing
    assert not found.unjudged
    assert list(found.topics) == expected["topic"].to_list()
    for name in METRICS:
        np.testing.assert_allclose(found.values[name], expected[name].to_numpy(), rtol=0, atol=1e-12)


# What is written


@pytest.mark.usefixtures("study")
def test_every_run_evaluates_to_the_studys_numbers_here_and_by_trec_eval(export: Export) -> None:
    """Trec_eval's nDCG is that of linear gains, equal where the relevance is 0 or 1; it counts topics without any as 0.

    Where scores are tied, it goes by the items' names.
    """
    assert "nDCG, AP, RR of all lists are those of the study's runs" in export()
    runs = frame("results/runs.parquet", "runs").filter(pl.col("loss") != "none", pl.col("selection") != "last")
    kept = runs.filter((pl.col("protocol") == "honest") == (pl.col("selection") == "validation"))
    assert sum(row["topics"] for row in index()) == len(kept)
    compared = 0
    for row in index():
        assert_evaluates_to_the_studys_numbers(row)
        lines = (Path("trec") / row["run"]).read_text("utf-8").splitlines()
        assert {line.split()[-1] for line in lines} == {Path(row["run"]).stem}, "the tag is the file's name"
        judged, scored = both(row)
        found = pytrec_eval.RelevanceEvaluator(judged, {"ndcg", "map", "recip_rank"}).evaluate(scored)
        tied = [topic for topic, scores in scored.items() if len(set(scores.values())) < len(scores)]
        assert row["tied_topics"] == len(tied)
        names = {"map": "AP", "recip_rank": "RR"} | ({} if "graded" in row["dataset"] else {"ndcg": "nDCG"})
        for one in table_rows(row).filter(pl.col("p") > 0, ~pl.col("topic").is_in(tied)).iter_rows(named=True):
            compared += 1
            for theirs, ours in names.items():
                assert found[one["topic"]][theirs] == pytest.approx(one[ours], abs=1e-12)
    assert compared > 100


@pytest.mark.usefixtures("study")
def test_scores_and_grades_are_all_there(export: Export) -> None:
    """Digits that read back exactly; every item of the lists is judged, the grades as the lists have them."""
    export("--study", "neural")
    (row,) = index()
    judged, scored = both(row)
    for topic, scores in frame(f"results/{OF_METHOD}.predictions.parquet", "predictions")["topic", "scores"].rows():
        assert sorted(map(np.float32, scored[topic].values())) == sorted(scores)
    lists = frame(f"data/lists/{QUERIES}.parquet", "lists")["topic", "items", "relevance"].rows()
    assert judged == {topic: dict(zip(items, grades, strict=True)) for topic, items, grades in lists}
    assert {grade for grades in judged.values() for grade in grades.values()} == {0, 1, 2}


@pytest.mark.usefixtures("study")
def test_tied_scores_stay_tied(export: Export) -> None:
    """In the study's table they count by the mean over their orders, and so they do in what is written."""
    file, element = f"results/{BOTH_SEEDS}.predictions.parquet", pl.element()
    rounded = pl.col("scores").list.eval((element * 4).round(0) / np.float32(7)).cast(pl.List(pl.Float32))
    rewrite(file, "predictions", scores=rounded)
    truth = frame(instances(LABELLED), "instances").filter(split="test")
    rough = frame(file, "predictions")
    joined = rough.join(truth, on=["fold", "topic"], suffix="_true", maintain_order="left")
    offsets = np.append(0, joined["items"].list.len().cum_sum().to_numpy())
    scores, grades = (joined[name].explode().to_numpy() for name in ("scores", "relevance"))
    keys = ["fold", "seed", "topic"]
    changed = joined.select(keys).with_columns(
        **{name: pl.Series(metric(name)(scores, grades, offsets)) for name in RUN_METRICS}
    )
    runs = frame(f"results/{BOTH_SEEDS}.parquet", "runs").filter(selection="test").drop(RUN_METRICS)
    table = runs.join(changed, on=keys, maintain_order="left").to_arrow()
    for path in (f"results/{BOTH_SEEDS}.parquet", "results/runs.parquet"):
        write_table(table, path, "runs", metadata=read_metadata(path, "runs"))
    assert "of all lists are those" in export("--loss", "nDCG")
    for row in index():
        assert row["tied_topics"] > 0
        assert_evaluates_to_the_studys_numbers(row)
    # The study's numbers may come from scores with more digits than are kept.
    rewrite(file, "predictions", scores=pl.col("scores").list.eval(element * 0))
    shutil.rmtree("trec")
    assert "lists differ from those of the study's runs by more than 1e-09" in export("--loss", "nDCG")


# Places


@pytest.mark.usefixtures("study")
def test_folds_of_queries_are_one_run_those_of_users_apart(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    for out in ("trec", "again"):
        export("--protocol", "published", out=out)
    one, two = (
        {path.relative_to(out): path.read_bytes() for path in Path(out).rglob("*.*")} for out in ("trec", "again")
    )
    assert one == two
    assert places() == {LABELLED, *(f"{USERS}-nsr1/fold-{fold}" for fold in FOLDS)}
    queries, users = ([row for row in index() if row["dataset"] == name] for name in (LABELLED, USERS))
    found = [(row["loss"], row["seed"], row["fold"]) for row in queries]
    assert found == [("AP", 0, FOLDS), ("nDCG", 0, FOLDS), ("nDCG", 1, FOLDS)]
    assert [row["fold"] for row in users] == [[fold] for fold in FOLDS]
    names = {Path(row["run"]).stem for row in users}
    assert names == {"thesis_published_matrix-factorization_WARP-alpha=constant-@1_none_test_seed0"}
    topics = [read_run(Path("trec") / row["run"]).topics for row in users]
    assert topics[0] == topics[1], "users keep their names in every fold"
    given = ["--qrels", f"trec/{LABELLED}/qrels.txt", "-m", "AP", "--resamples", "99", "--flips", "99"]
    assert library.main(["compare", *(f"trec/{row['run']}" for row in queries[:2]), *given]) == 0
    assert "AP" in capsys.readouterr().out


@pytest.mark.usefixtures("study")
def test_experiments_have_qrels_of_the_lists_that_they_were_tested_on(export: Export) -> None:
    export("--protocol", "honest", "--dataset", USERS)
    at_ratio = {f"{USERS}-nsr2_tested-at-nsr1/fold-{fold}" for fold in (1, 2)}
    assert places() == {*at_ratio, f"{USERS}-nsr1_relevant-1/fold-2"}
    qrels = read_qrels(f"trec/{USERS}-nsr1_relevant-1/fold-2/qrels.txt")
    assert np.add.reduceat(qrels.relevance, qrels.offsets[:-1]).tolist() == [1] * len(qrels.topics)


@pytest.mark.usefixtures("study")
def test_one_cell(export: Export) -> None:
    export("--dataset", LABELLED, "--loss", "nDCG", "--seed", 1, "--fold", 3)
    (row,) = index()
    assert (row["seed"], row["fold"]) == (1, [3])
    assert row["run"].startswith(f"{LABELLED}_folds-3/runs/"), "fewer topics than the qrels of all folds have"


# Errors


def without_predictions() -> None:
    for path in Path("results").rglob("*.predictions.parquet"):
        path.unlink()


def twice() -> None:
    for ending in ("parquet", "predictions.parquet"):
        shutil.copy(f"results/{BOTH_SEEDS}.{ending}", f"results/{BOTH_SEEDS}-again.{ending}")


def scored(value: float) -> Callable[[], None]:
    """All scores of one file are this; it is the last file of all, so something was written before."""
    constant = pl.col("scores").list.eval(pl.element() * 0 + value)
    return lambda: rewrite(f"results/{BOTH_SEEDS}.predictions.parquet", "predictions", scores=constant)


def other_grades() -> None:
    rewrite(instances(LABELLED), "instances", relevance=pl.col("relevance").list.eval(1 - pl.element()))


def item_names() -> None:
    first = pl.when(pl.element().cum_count() == 1).then(pl.lit("a b")).otherwise(pl.lit("a_b"))
    lists = read_table(f"data/lists/{QUERIES}.parquet", "lists")
    items = pl.Series(lists.column("items")).list.eval(first).to_arrow().cast(pa.list_(pa.string()))
    metadata = read_metadata(f"data/lists/{QUERIES}.parquet", "lists")
    write_table(lists.set_column(1, "items", items), f"data/lists/{QUERIES}.parquet", "lists", metadata=metadata)


NONE_KEPT = "results/runs/**/*.predictions.parquet has no such runs"
ERRORS: dict[str, tuple[Callable[[], object], tuple[object, ...], str]] = {
    "no predictions": (
        without_predictions, (), "results: it has no runs/**/*.predictions.parquet; expected a study's results folder"
    ),
    "no such runs": (
        list, ("--dataset", "movielens"),
        f"dataset 'movielens': {NONE_KEPT}; it has {USERS}, {QUERIES}-graded",
    ),
    "controls": (list, ("--model", "oracle"), f"model 'oracle': {NONE_KEPT}"),
    "last epochs": (list, ("--selection", "last"), f"selection 'last': {NONE_KEPT}"),
    **{
        f"no {file}": (
            lambda file=file: Path(f"data/{file}.parquet").unlink(), (),
            f"data/{file}.parquet: there is no such file; expected the",
        )
        for file in (f"instances/{QUERIES}-graded", f"lists/{QUERIES}", f"instances/{USERS}-nsr1")
    },
    "another sample": (
        lambda: make_data(seed=1), ("--dataset", USERS, "--nsr-train", 1), "expected the data of the study"
    ),
    "other grades": (other_grades, ("--dataset", LABELLED), "in their numbers of items or of relevant items"),
    "NaN": (scored(float("nan")), (), "has the score nan, expected finite numbers"),
    "infinity": (scored(float("inf")), (), "has the score inf, expected finite numbers"),
    "two runs of one name": (twice, (), "seed0.txt would be a run of results/"),
    "one name without white space": (
        item_names, ("--study", "neural", "--space", "_"), "item 'a_b' occurs more than once in topic"
    ),
}  # fmt: skip


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize("name", ERRORS)
def test_what_does_not_fit_is_one_message_and_leaves_nothing(export: Export, name: str) -> None:
    change, flags, message = ERRORS[name]
    change()
    assert message in export(*flags, status=2)


@pytest.mark.usefixtures("study")
def test_names_with_white_space_need_another_character(export: Export) -> None:
    spaced = pl.col("topic").str.replace("^", "query ")
    for path, contract in (
        (instances(LABELLED), "instances"),
        (f"results/{BOTH_SEEDS}.predictions.parquet", "predictions"),
        (f"results/{BOTH_SEEDS}.parquet", "runs"),
    ):
        rewrite(path, contract, topic=spaced)
    message = export("--loss", "nDCG", status=2)
    assert f"data/instances/{LABELLED}.parquet: found the topic 'query " in message
    assert "use --space _" in message
    assert "expected one or more characters" in export("--loss", "nDCG", "--space", " ", status=2)
    export("--loss", "nDCG", "--space", "_")
    assert all(topic.startswith("query_") for topic in read_run(Path("trec") / index()[0]["run"]).topics)


# Users and items that are called by texts

READERS, BOOKS = 12, 60


def rate(books: list[str]) -> set[tuple[str, ...]]:
    """Ratings by texts, and one training on them; the relevant pairs, with _ for white space."""
    random, rows = np.random.default_rng(0), []
    for reader in range(READERS):
        chosen = random.choice(BOOKS, 20, replace=False)
        rows += [(f"reader é {reader:02}", books[book], int(random.integers(4, 6))) for book in chosen]
    pl.DataFrame(rows, schema=["who", "what", "stars"], orient="row").write_parquet("ratings.parquet")
    described = {"format": "ratings", "path": "ratings.parquet", "ids": "texts"}
    described["columns"] = {"topic": "who", "item": "what", "rating": "stars"}  # type: ignore[assignment]
    data, folds = "data/interactions/mine.parquet", "data/folds/mine.parquet"
    drawing = {"threshold": 4, "min_relevant": 10}
    step("convert", "mine", "--raw", "ratings.parquet", "--out", data, "--description", json.dumps(described))
    step("split", "mine", "--in", data, "--out", folds, **drawing)
    lists, out = instances("mine-nsr1"), "results/runs/published/mine-nsr1/x/nDCG/none.parquet"
    step("sample", "mine", "--in", data, "--folds", folds, "--out", lists, **drawing, nsr=1)
    options = {**JOBS[OF_USERS], "dataset": "mine", "loss": "nDCG"}
    step("job", "--instances", lists, "--out", out, "--device", "cpu", **options)
    return {tuple("_".join(name.split()) for name in row[:2]) for row in rows}


NAMES = [f'isbn,\t"{number:02}"\nfirst edition' for number in range(BOOKS)]


def test_texts_are_the_names_of_runs_and_qrels(export: Export) -> None:
    relevant, found = rate(NAMES), list[tuple[str, str]]()
    assert "a name in a TREC file has no white space and is not empty: use --space _" in export(status=2)
    assert "nDCG, AP, RR of all lists are those of the study's runs" in export("--space", "_")
    for row in index():
        judged, scored = both(row)
        assert set(scored) == {f"reader_é_{number:02}" for number in range(READERS)}
        pairs = {(topic, item): label for topic, items in judged.items() for item, label in items.items()}
        found += [pair for pair, label in pairs.items() if label]
        assert not {pair for pair, label in pairs.items() if not label} & relevant
        assert {topic: set(items) for topic, items in judged.items()} == {t: set(items) for t, items in scored.items()}
    # The test parts of the five folds have every relevant pair once.
    assert sorted(found) == sorted(relevant)


def test_two_items_that_would_have_one_name_are_refused(export: Export) -> None:
    """Even if no list has both of them."""
    rate([*NAMES[:-2], "red shoes", "red_shoes"])
    said = "with '_' instead of white space, two items have the name 'red_shoes': choose another character"
    assert said in export("--space", "_", status=2)
    export("--space", "=")


# Whole folders


def test_a_folder_is_whole_or_absent(tmp_path: Path) -> None:
    """An empty folder is no obstacle, others are."""
    (tmp_path / "x").mkdir()
    with suppress(InterruptedError), whole_folder(tmp_path / "x") as folder:
        (folder / "a").write_text("half")
        raise InterruptedError
    with whole_folder(tmp_path / "x") as folder:
        (folder / "a").write_text("whole")
        assert list((tmp_path / "x").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x" / "a").read_text() == "whole"
    assert main(["export", "--out-dir", str(tmp_path / "x")]) == 2
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["a"]
