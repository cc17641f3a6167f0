"""Rankers of one's own lists: what they learn, how they score, and the three subcommands."""

import argparse
import errno
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import rankbound as rb
from rankbound import commands
from rankbound.errors import DataError
from rankbound.io.files import stream_lists, write_runs
from rankbound.io.judged import JudgedLists
from rankbound.lists import Lists
from rankbound.training.models import ScaledFeatures, Scaling
from rankbound.training.recipe import Recipe, build, learning_rate_of
from tests.library.conftest import Program
from tests.library.planted_ratings import frame, lists_of
from tests.library.refusals import problems, refusals

N_TOPICS, N_ITEMS = 40, 12


def planted(seed: int = 0, n_topics: int = N_TOPICS) -> JudgedLists:
    """Lists whose relevance follows two of three features, which lie on very different scales."""
    generator = np.random.default_rng(seed)
    latent = generator.normal(size=(n_topics * N_ITEMS, 3))
    relevance = np.digitize(latent[:, 0] - latent[:, 1], [0.5, 1.5])
    features = (latent * [1000, 0.01, 1] + [1e5, 0, 3]).astype(np.float32)
    topics = [f"q{topic}" if seed == 0 else f"q{seed}.{topic}" for topic in range(n_topics)]
    return lists_of([N_ITEMS] * n_topics, relevance, features, ["clicks", "price", "noise"], topics=topics)


def value(ranker: rb.Ranker, lists: JudgedLists) -> float:
    return rb.evaluate_run(ranker.score_lists(lists), lists, ["nDCG"]).means()["nDCG"]


def doubles() -> ExitStack:
    torch.set_default_dtype(torch.float64)
    stack = ExitStack()
    stack.callback(torch.set_default_dtype, torch.float32)
    return stack


@pytest.mark.parametrize(("patience", "steps"), [(3, None), (0, None), (None, 1)])
def test_a_training_ends_when_epochs_no_longer_help_and_the_best_one_counts(
    patience: int | None, steps: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `patience` epochs, or those of so many steps and at least 10; at a rate that destroys what was learned."""
    if steps is not None:
        monkeypatch.setattr("rankbound.training.ranker.PATIENT_STEPS", steps)
    seen: list[float] = []
    validation, settings = planted(1, 10), {"learning_rate": 0.2, "epochs": 40, "patience": patience, "metric": "nDCG"}
    ranker = rb.train_ranker(
        planted(n_topics=20),
        validation,
        **settings,
        on_epoch=lambda epoch: seen.append(epoch.metrics["validation"]["nDCG"]),
    )
    best = 1 + seen.index(max(seen))
    assert len(seen) == min(40, best + (10 if patience is None else patience or 40))
    expected = {"epoch": best, "epochs": len(seen), "training_topics": 20, "validation_topics": 10}
    assert {name: ranker.record[name] for name in expected} == expected
    assert ranker.record["validation"] == max(seen) == pytest.approx(value(ranker, validation), abs=1e-12)


@pytest.mark.parametrize(
    ("recipe", "n_items", "rate"),
    [
        ({"model": "mlp"}, 20_000, 0.003),
        ({"model": "mlp"}, 19_999, 0.01),
        ({}, 20_000, 0.01),
        ({"model": "attention"}, 20_000, 0.01),
        ({"model": "mlp", "learning_rate": 0.01}, 20_000, 0.01),
    ],
)
def test_the_default_rate_suits_the_size_of_the_data(
    recipe: dict[str, Any], n_items: int, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training takes the rate of its training items, without those of the validation topics."""
    assert learning_rate_of(Recipe(**recipe), n_items) == rate
    ours = 10 * N_ITEMS
    monkeypatch.setattr("rankbound.training.recipe.MANY_ITEMS", ours if n_items == 20_000 else ours + 1)
    lists, validation = planted(n_topics=10), planted(1)
    found = rb.train_ranker(lists, validation, epochs=1, **recipe)
    assert found.record["learning_rate"] == rate
    named = rb.train_ranker(lists, validation, epochs=1, **recipe | {"learning_rate": rate})
    assert all(map(torch.equal, found.model.parameters(), named.model.parameters()))


def test_validation_topics_are_a_share_of_the_lists_or_none() -> None:
    shared = rb.train_ranker(planted(), validation_share=0.25, epochs=1).record
    assert (shared["training_topics"], shared["validation_topics"]) == (30, 10)
    last = rb.train_ranker(planted(), validation_share=0.0, epochs=3).record
    assert (last["epoch"], last["validation"], last["training_topics"]) == (3, None, N_TOPICS)


@pytest.mark.parametrize("recipe", [{"scale": "none"}, {"model": "matrix-factorization", "negatives": 1}])
def test_the_loss_and_the_bound_do_not_change_what_is_drawn(recipe: dict[str, Any]) -> None:
    """Before the first step all models are the same: comparisons between losses are paired."""
    lists = replace(planted(), items=[f"d{row % 30}" for row in range(N_TOPICS * N_ITEMS)])
    rankers = [
        rb.train_ranker(lists, epochs=1, learning_rate=1e-30, **recipe, **objective)
        for objective in ({"loss": "nDCG"}, {"loss": "AP", "bound": "expectation"})
    ]
    first, second = (ranker.model.state_dict() for ranker in rankers)
    torch.testing.assert_close(first, second, rtol=0, atol=1e-20)


@pytest.mark.parametrize("surroundings", [torch.no_grad, torch.inference_mode, partial(torch.device, "meta"), doubles])
@pytest.mark.parametrize("model", ["mlp", "attention", "matrix-factorization", "neural-mf", "ease"])
def test_settings_of_pytorch(
    model: str, surroundings: Callable[[], AbstractContextManager[object]], tmp_path: Path
) -> None:
    lists = replace(planted(n_topics=6), items=[f"d{row % N_ITEMS}" for row in range(6 * N_ITEMS)])
    before = torch.get_rng_state()
    expected = rb.train_ranker(lists, model=model, epochs=2, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    with surroundings():
        found = rb.train_ranker(lists, model=model, epochs=2, device="cpu")
        found.save(tmp_path / "model.safetensors")
        runs = [ranker.score_lists(lists) for ranker in (found, rb.load(tmp_path / "model.safetensors"))]
    for found_run in runs:
        np.testing.assert_array_equal(found_run.scores, expected.score_lists(lists).scores)


# Scoring
def test_scores_come_in_the_kind_of_the_features_and_depend_on_the_list_if_scaled_within_it() -> None:
    lists = planted()
    ranker, within = rb.train_ranker(lists, epochs=1), rb.train_ranker(lists, epochs=1, scale="query")
    array, tensor = ranker.score(lists.features), ranker.score(torch.from_numpy(lists.features))
    assert isinstance(array, np.ndarray)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, tensor.numpy())
    assert ranker.score(lists.features.astype(np.float64)).shape == (N_TOPICS * N_ITEMS,)
    assert ranker.score(np.empty((0, 3), np.float32)).shape == (0,)
    np.testing.assert_allclose(ranker.score(lists.features[5:6]), array[5:6], rtol=1e-6)
    with pytest.raises(ValueError, match=r"^offsets: found none, expected those of the lists"):
        within.score(lists.features)
    one = within.score(lists.features[:N_ITEMS], np.array([0, N_ITEMS]))
    np.testing.assert_allclose(one, within.score(lists.features, lists.offsets)[:N_ITEMS], rtol=1e-5, atol=1e-6)


def test_features_are_found_by_name_in_lists_and_data_frames() -> None:
    """Whatever their order, and whatever else there is."""
    lists = planted()
    ranker = rb.train_ranker(lists, epochs=1)
    more = np.concatenate([lists.features[:, ::-1], lists.features[:, :1]], axis=1)
    shuffled = replace(lists, features=more, feature_names=["noise", "price", "clicks", "more"])
    np.testing.assert_array_equal(ranker.score_lists(shuffled).scores, ranker.score_lists(lists).scores)
    with pytest.raises(DataError, match="there is no feature 'price', which the ranker was trained with"):
        ranker.score_lists(replace(lists, feature_names=["clicks", "cost", "noise"]))
    columns = dict(zip(lists.feature_names, lists.features.T, strict=True))
    frame = {"title": ["a"] * len(lists.items), **{name: columns[name] for name in ("noise", "price", "clicks")}}
    message = r"no column '(price|clicks)'; .* features \(clicks, price, noise\), or an array"
    for make in (pl.DataFrame, pd.DataFrame):
        np.testing.assert_array_equal(ranker.score(make(frame)), ranker.score(lists.features))
        for wrong in (make({"clicks": [1.0], "cost": [1.0], "noise": [1.0]}), make(lists.features)):
            with pytest.raises(ValueError, match=message):
                ranker.score(wrong)


test_features_that_do_not_fit_are_refused = refusals(
    [
        (np.zeros((2, 4)), r"^features: found shape \(2, 4\), expected \(n_items, 3\)"),
        (np.zeros(3), r"^features: found shape \(3,\)"),
        (np.array([[0, 0, 0], [0, np.nan, 0]]), r"^features: found nan at item 1, feature 'price'"),
    ],
    lambda features: rb.train_ranker(planted(), epochs=1).score(features),
)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("standard", [[-(1.5**0.5), 0, -(1.5**0.5)], [0, 0, 0], [1.5**0.5, 0, 1.5**0.5]]),
        ("query", [[0, 0, 0], [1, 0, 1], [0, 0, 0]]),
        ("none", [[1, 7, 1e8], [3, 7, 1e8 + 8], [5, 7, 1e8 + 16]]),
    ],
)
def test_scaling(kind: str, expected: list[list[float]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant feature becomes 0; a large mean does not hide a small spread; blocks of rows change nothing."""
    features = torch.tensor([[1.0, 7.0, 1e8], [3.0, 7.0, 1e8 + 8], [5.0, 7.0, 1e8 + 16]])
    lists = Lists(torch.tensor([0, 2, 2, 3]))
    scaled = ScaledFeatures(Scaling.fitted(kind, features), features, lists).of_rows(slice(None))
    torch.testing.assert_close(scaled, torch.tensor(expected, dtype=torch.float32))
    features = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 1e3 + 1e4
    features[:, 1] = 7
    lists, rows = Lists(torch.tensor([0, 20, 20, 50])), torch.arange(0, 50, 3)
    whole = Scaling.fitted(kind, features[rows])
    monkeypatch.setattr("rankbound.training.models.ROWS_AT_ONCE", 4)
    blocks = Scaling.fitted(kind, features, rows)
    torch.testing.assert_close((blocks.shift, blocks.factor), (whole.shift, whole.factor), rtol=1e-6, atol=0)
    blocked = ScaledFeatures(blocks, features, lists)
    torch.testing.assert_close(blocked.of_rows(rows), blocked.of_rows(slice(None))[rows], rtol=0, atol=0)


# What cannot be
test_recipes_that_cannot_be_are_refused = refusals(
    [
        *problems("recipes"),
        ({"learning_rate": float("nan")}, r"^learning_rate: found nan"),
        ({"hidden": (3, 0)}, r"^hidden: found \(3, 0\)"),
    ],
    lambda recipe: rb.train_ranker(planted(), **recipe),
)


EMPTY = replace(planted(n_topics=4), relevance=np.zeros(4 * N_ITEMS, int))
test_lists_that_teach_nothing_are_refused = refusals(
    [
        (lambda: rb.train_ranker(EMPTY), "no training topic is informative"),
        (
            lambda: rb.train_ranker(planted(seed=1), EMPTY),
            r"nDCG@10 is undefined on all validation topics: none has a rele",
        ),
        (lambda: rb.train_ranker(planted(n_topics=1)), "found 1 topic, expected two or more"),
    ],
    error=DataError,
)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device: found cuda, but PyTorch finds no GPU here; expected auto or cpu"):
        rb.train_ranker(planted(), device="cuda")


# The subcommands
@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("suffix", "out"), [("csv", "run.txt"), ("parquet", "run.parquet")])
def test_train_score_and_evaluate(folder: Path, program: Program, suffix: str, out: str) -> None:
    train, test = (f"{name}.{suffix}" for name in ("train", "test"))
    for path, lists in ((train, planted()), (test, planted(seed=1))):
        frame(lists).write_csv(path) if suffix == "csv" else frame(lists).write_parquet(path)
    command = f"train {train} --out m.safetensors --loss nDCG --bound min-max --epochs 30 --learning-rate 0.05"
    printed = program(f"{command} --device cpu")
    assert "trained on 32 topics, 384 items, 3 features" in printed
    assert "loss nDCG, bound min-max, linear model: epoch" in printed
    assert "wrote m.safetensors" in printed
    program(f"score m.safetensors {test} --out {out}")
    found = json.loads(program(f"evaluate {out} {test} -m nDCG -m P@5 --json"))
    assert found["topics"] == {"evaluated": N_TOPICS, "missing_in_run": 0, "not_in_qrels": 0}
    assert found["means"]["nDCG"] == pytest.approx(value(rb.load("m.safetensors"), planted(seed=1)), abs=1e-12)
    assert found["means"]["nDCG"] > 0.9


def test_validation_files_and_columns_that_are_left_out(folder: Path, program: Program) -> None:
    table = frame(planted()).with_columns(title=pl.lit("a text"))
    table.write_csv("train.csv")
    # Other columns, in another order: the training file's features are looked for by name.
    frame(planted(seed=1)).select("noise", "price", "topic", "clicks", "relevance").write_csv("vali.csv")
    command = "train train.csv --out m.safetensors --validation vali.csv --epochs 1 --model mlp --hidden 4,2"
    printed = program(command)
    assert "features: clicks, price, noise\nleft out, as --features does not name them: title (text)\n" in printed
    assert f"nDCG@10 on {N_TOPICS} validation topics" in printed
    assert rb.load("m.safetensors").recipe.hidden == (4, 2)
    # What is scored needs neither labels nor names of items.
    table.drop("relevance", "item").write_csv("new.csv")
    program("score m.safetensors new.csv --out s.csv")
    scored = pl.read_csv("s.csv")
    assert (scored.columns, len(scored), scored["item"][0]) == (["topic", "item", "score"], len(table), "q0-2")


RUN = "a Q0 x 1 2 t\na Q0 y 2 1 t\nb Q0 x 1 1 t\nc Q0 x 1 1 t\n"
DCG = "DCG(gain=linear,discount=log2(r))"


@pytest.fixture
def evaluate(folder: Path, program: Program) -> Program:
    Path("run.txt").write_text(RUN)
    Path("qrels.txt").write_text("a 0 y 1\nb 0 x 0\nd 0 x 1\n")
    Path("lists.csv").write_text("topic,item,relevance\na,x,1\na,y,3\n")
    return lambda *flags, qrels="qrels.txt", status=0: program("evaluate", "run.txt", qrels, *flags, status=status)


def test_evaluation_for_people_and_as_json(evaluate: Program) -> None:
    assert evaluate("-m", "AP", "-m", "P@1", "--per-topic").splitlines() == [
        "topic      AP     P@1",
        "a      0.5000  0.0000",
        "b           -  0.0000",
        "",
        "metric    mean  topics  undefined",
        "AP      0.5000       1          1",
        "P@1     0.0000       2          0",
        "topics of the qrels that the run lacks: 1",
        "topics of the run that the qrels lack: 1",
    ]
    assert "AP      0.2500       2          1" in evaluate("-m", "AP", "--missing", "zero")
    found = json.loads(evaluate("-m", "AP", "--per-topic", "--json"))
    assert (found["per_topic"], found["undefined"]) == ({"a": {"AP": 0.5}, "b": {"AP": None}}, {"AP": 1})
    means = json.loads(evaluate("--names", "ir_measures", "-m", "nDCG@10", "--json", qrels="lists.csv"))["means"]
    expected = (1 + 3 / np.log2(3)) / (3 + 1 / np.log2(3))
    assert means == {"nDCG(gain=linear)@10": pytest.approx(expected, abs=1e-12)}


def test_values_of_topics_in_a_file(evaluate: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written whole, or not at all."""
    rows = "a 0.5 1.0 false", "b _ 0.0 false", "d _ _ true"
    for name, separator, quote in (("topics.csv", ",", '"'), ("topics.tsv", "\t", "")):
        assert "AP" in evaluate("-m", "AP", "-m", DCG, "--csv", name)
        table = "\n".join([f"topic AP {quote}{DCG}{quote} missing", *rows, ""])
        assert Path(name).read_text() == table.replace("_", "").replace(" ", separator)

    def full_disk(frame: pl.DataFrame, path: Path, **options: str) -> None:
        path.write_text("topic,A")
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(pl.DataFrame, "write_csv", full_disk)
    message = evaluate("-m", "RR", "--csv", "topics.csv", status=2)
    assert "topics.csv: could not be written: No space left" in message
    assert Path("topics.csv").read_text().startswith("topic,AP")
    assert len([*Path().iterdir()]) == 5


@pytest.mark.parametrize(("command", "message"), problems("mistakes in commands"))
def test_mistakes_are_one_message(folder: Path, program: Program, command: str, message: str) -> None:
    frame(planted(n_topics=3)).write_csv("lists.csv")
    Path("run.txt").write_text("q0 Q0 d0 1 1 x\n")
    before = Path("lists.csv").read_text()
    printed = program(command, status=2).splitlines()
    assert len([line for line in printed if line.startswith("rankbound ")]) == 1
    assert message in printed[-1]
    assert sorted(path.name for path in folder.iterdir()) == ["lists.csv", "run.txt"]
    assert Path("lists.csv").read_text() == before


def test_an_output_that_cannot_be_written_is_refused_before_the_training(
    folder: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second module, imported here first, would keep the patch of the first.
    for name in ("splits.cross_validate", "ranker.train_ranker"):
        monkeypatch.setattr(f"rankbound.training.{name}", Mock(side_effect=AssertionError("a training began")))
    frame(planted(n_topics=3)).write_csv("x.csv")
    Path("runs/judgements.csv").mkdir(parents=True)
    for command in ("train x.csv --out .", "cross-validate x.csv -m AP --runs runs"):
        assert "could not be written: found a folder, expected the name of a file" in program(command, status=2)
    assert sorted(path.name for path in folder.iterdir()) == ["runs", "x.csv"]


def examples(name: str) -> list[str]:
    return re.findall("^(?:\\$|  rankbound) (.*)$", commands.TABLE["command"][name]["examples"], re.MULTILINE)


def test_the_examples_of_help_run(folder: Path, program: Program) -> None:
    lists = planted(n_topics=5)
    frame(lists).write_csv("lists.csv")
    frame(lists).rename({"topic": "query", "relevance": "clicked", "noise": "age"}).write_parquet("clicks.parquet")
    letor = letor_of(lists)
    Path("lists.letor").write_text(letor)
    for place, name in enumerate(("train", "vali", "test"), start=1):
        for path in (f"{name}.letor", f"Fold1/{name}.txt", f"Fold2/{name}.txt"):
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).write_text(letor.replace("qid:", f"qid:{place}"))
        for split in "ab":
            frame(planted(seed=place, n_topics=5)).write_csv(f"{split}_{name}.csv")
    rb.write_qrels("qrels.txt", lists)
    # As MS MARCO's: without names of columns.
    rb.write_qrels("qrels.dev.small", lists)
    Path("qrels.dev.small").rename("qrels.dev.small.tsv")
    pairs = frame(lists).select("topic", "item").with_columns(rank=pl.int_range(1, pl.len() + 1).over("topic"))
    pairs.write_csv("run.tsv", separator="\t", include_header=False)
    for name, scores in zip(("bm25", "mine"), lists.features.T, strict=False):
        rb.write_run(
            f"{name}.txt", rb.Run(topics=lists.topics, items=lists.items, scores=scores, offsets=lists.offsets)
        )
    rated = [(user, film, int((user + film) % 3 > 0)) for user in range(6) for film in range(8)]
    pl.DataFrame(rated, schema=["user", "film", "relevance"], orient="row").write_csv("ratings.csv")
    trained, scored = examples("train"), examples("score")
    # What is scored has the features that the example before it trained with.
    for command in (trained[0], scored[0], trained[1], scored[1], *trained[2:], *examples("evaluate")):
        program(command)
    for command in examples("cross-validate"):
        folds = "" if "--split" in command or "--folds" in command else " --folds 2"
        program(command.replace(" 10", " 5") + folds, "--epochs", 1)


def test_help_tells_the_defaults_of_the_recipe_and_a_recipe_builds_its_model() -> None:
    parser = argparse.ArgumentParser()
    commands.declare(parser, commands.TABLE["command"]["train"]["flags"])
    texts = {action.dest: action.help or "" for action in parser._actions}
    assert texts["bound"].startswith("none (default)")
    for one in fields(Recipe):
        default = ",".join(map(str, one.default)) if isinstance(one.default, tuple) else str(one.default)
        if one.name != "activation":  # from Python alone
            assert re.search(rf"\(default: {default}\)|{default} \(default\)", texts[one.name]), one.name
    shapes = [build(Recipe(hidden=(3,), model=model), 2).layers[0].weight.shape for model in ("linear", "mlp")]
    assert shapes == [(1, 2), (3, 2)]


# Scores in a stream: the run of lists that are read whole, and nothing where a line is wrong
def letor_of(lists: rb.JudgedLists) -> str:
    topics = np.repeat(lists.topics, np.diff(lists.offsets))
    rows = zip(lists.relevance, topics, lists.features.tolist(), strict=True)
    return "".join(
        f"{grade} qid:{topic} {' '.join(f'{place + 1}:{value}' for place, value in enumerate(values))}\n"
        for grade, topic, values in rows
    )


@pytest.mark.parametrize("kind", ["csv", "parquet", "letor"])
@pytest.mark.parametrize("out", ["run.txt", "run.csv", "run.tsv", "run.parquet", "run.json"])
def test_a_stream_scores_as_the_whole(
    kind: str, out: str, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankbound.io.tables.BATCH_BYTES", 4_000)
    lists, path, whole = planted(), tmp_path / f"lists.{kind}", tmp_path / f"whole-{out}"
    if kind == "letor":
        path.write_text(letor_of(lists))
    elif kind == "csv":
        frame(lists).drop("relevance").write_csv(path)
    else:
        frame(lists).drop("relevance").write_parquet(path)
    train = rb.read_lists(path) if kind == "letor" else lists
    ranker = rb.train_ranker(train, epochs=2)
    ranker.save(tmp_path / "model.safetensors")
    printed = program(f"score {tmp_path}/model.safetensors {path} --out {tmp_path}/{out}")
    assert "scored 480 items of 40 topics" in printed
    rb.write_run(whole, ranker.score_lists(path))
    ours, theirs = (rb.read_run(file) for file in (tmp_path / out, whole))
    assert (list(ours.topics), list(ours.items)) == (list(theirs.topics), list(theirs.items))
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-6)


def test_a_late_mistake_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    lists, path, out = planted(), tmp_path / "lists.letor", tmp_path / "run.txt"
    path.write_text(letor_of(lists))
    ranker = rb.train_ranker(rb.read_lists(path), epochs=2)
    out.write_text("as it was")
    parts = stream_lists(path, ranker.feature_names)
    assert parts is not None

    def runs() -> object:
        yield from map(ranker.score_lists, parts)
        raise DataError("a late line")

    with pytest.raises(DataError, match="a late line"):
        write_runs(out, runs())  # type: ignore[arg-type]
    assert out.read_text() == "as it was"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lists.letor", "run.txt"]
