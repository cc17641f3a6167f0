"""Rankers across folds: every topic is scored once, by a ranker that never saw it."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound.cli import main
from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists
from tests.library.planted_ratings import frame, ratings

QUICK = {"epochs": 3, "batch_size": 8, "device": "cpu"}


def rows_of(lists: Any, topic: int) -> slice:
    """The rows of the topic at this place."""
    return slice(*lists.offsets[topic:][:2])


def judged(topics: int = 20, sizes: tuple[int, ...] = (3, 5, 4)) -> JudgedLists:
    random = np.random.default_rng(0)
    lengths = [sizes[topic % len(sizes)] for topic in range(topics)]
    features = random.random((sum(lengths), 2)).astype(np.float32)
    return JudgedLists(
        topics=[f"q{topic}" for topic in range(topics)],
        items=[f"d{row}" for row in range(len(features))],
        relevance=(features[:, 0] > np.median(features[:, 0])).astype(float),
        offsets=np.append(0, np.cumsum(lengths)),
        features=features,
        feature_names=["a", "b"],
    )


def test_every_topic_is_tested_once_in_the_order_of_the_lists_by_a_ranker_that_never_saw_it() -> None:
    lists = judged()
    made = rb.cross_validate(lists, 4, **QUICK)
    assert [len(fold) for fold in made.folds] == [5, 5, 5, 5]
    assert sorted(topic for fold in made.folds for topic in fold) == sorted(lists.topics)
    assert (list(made.run.topics), list(made.run.items)) == (lists.topics, lists.items)
    np.testing.assert_array_equal(made.run.offsets, lists.offsets)
    for ranker, fold in zip(made.rankers, made.folds, strict=True):
        scores = ranker.score(lists.features, lists.offsets)
        for place in (rows_of(lists, int(topic[1:])) for topic in fold):
            np.testing.assert_allclose(made.run.scores[place], scores[place], rtol=1e-6)
    changed, first = lists.relevance.copy(), [rows_of(lists, int(topic[1:])) for topic in made.folds[0]]
    for place in first:
        changed[place] = 1 - changed[place]
    again = rb.cross_validate(replace(lists, relevance=changed), 4, **QUICK)
    for place in first:
        np.testing.assert_array_equal(made.run.scores[place], again.run.scores[place])
    assert not np.array_equal(made.run.scores, again.run.scores)


def test_folds_are_those_of_the_seed_or_are_named_and_leave_topics_out() -> None:
    one, same, other = (rb.cross_validate(judged(), 3, seed=seed, **QUICK) for seed in (1, 1, 2))
    assert one.folds == same.folds != other.folds
    np.testing.assert_array_equal(one.run.scores, same.run.scores)
    lists = judged()
    made = rb.cross_validate(lists, [["q3", "q1"], ["q7"]], **QUICK)
    assert (list(made.run.topics), made.folds) == (["q1", "q3", "q7"], [["q1", "q3"], ["q7"]])
    assert list(made.run.items) == [item for topic in (1, 3, 7) for item in lists.items[rows_of(lists, topic)]]
    assert np.isfinite(made.run.scores).all()


@pytest.mark.parametrize(
    ("model", "folds", "message"),
    [
        ("linear", 1, "folds: found 1, expected 2 to 20, the number of topics"),
        ("linear", 21, "folds: found 21, expected 2 to 20"),
        ("linear", [["q1"], ["other"]], "folds: found topic 'other', which the lists do not have"),
        ("linear", [["q1"], ["q2", "q1"]], "a topic is tested in two folds"),
        ("linear", [["q1"], []], "found one without topics"),
        ("linear", [[f"q{topic}" for topic in range(20)]], "or with all of them"),
        ("matrix-factorization", 1, "folds: found 1, expected 2 to 5, the number of items of the largest topic"),
        ("matrix-factorization", 6, "folds: found 6, expected 2 to 5"),
        ("matrix-factorization", [["q1"]], "names of topics"),
    ],
)
def test_folds_that_cannot_be(model: str, folds: int | list[list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.cross_validate(judged(), folds, model=model, **QUICK)


def test_the_command_compares_losses_and_keeps_their_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = frame(judged(12)).rename({"topic": "query", "item": "sku", "relevance": "clicked"})
    table.with_columns(pl.concat_str(pl.lit("shoes "), "query").alias("query")).write_csv(tmp_path / "lists.csv")
    columns = ["--topic", "query", "--item", "sku", "--relevance", "clicked"]
    flags = ["--folds", "3", "--epochs", "2", "-m", "nDCG@5", "-m", "RR", "--runs", str(tmp_path / "runs"), *columns]
    losses = ["--loss", "nDCG", "--loss", "LambdaRank(metric=nDCG@5)"]
    assert main(["cross-validate", str(tmp_path / "lists.csv"), *losses, *flags]) == 0
    shown = capsys.readouterr().out
    assert shown.count("3 folds, 12 topics\n") == 2
    assert "A: LambdaRank(metric=nDCG@5)\nB: nDCG\n" in shown
    runs = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert runs == ["LambdaRank(metric=nDCG@5).csv", "nDCG.csv"]
    evaluated = ["evaluate", str(tmp_path / "runs/nDCG.csv"), str(tmp_path / "lists.csv"), "-m", "nDCG@5", *columns]
    assert main(evaluated) == 0
    assert capsys.readouterr().out.splitlines()[1] in shown


def test_a_mean_over_topics_is_that_of_the_run_and_folds_have_their_own() -> None:
    lists = judged()
    made = rb.cross_validate(lists, 4, **QUICK)
    expected = rb.evaluate_run(made.run, lists, ["nDCG@2", "AP"])
    found = made.evaluate(["nDCG@2", "AP"])
    assert list(found.topics) == list(expected.topics)
    by_fold = made.evaluate_folds(["nDCG@2", "AP"])
    for name, values in expected.values.items():
        np.testing.assert_allclose(found.values[name], values)
        for fold, mean in zip(made.folds, by_fold[name], strict=True):
            assert mean == pytest.approx(np.nanmean(values[[lists.topics.index(topic) for topic in fold]]))
    assert len(made.seconds) == 4
    assert min(made.seconds) > 0
    assert list(made.unknown) == [0, 0, 0, 0]


# Folds within topics, of a factorisation

FACTORS: dict[str, Any] = {**QUICK, "model": "matrix-factorization", "factors": 4}


RATED = ratings(users=15, items=12)
LISTS = RATED.lists(RATED.known)


def pairs(lists: rb.Run | rb.Qrels, tests: Any = None) -> list[tuple[str, str]]:
    names = [topic for topic, _ in tests] if tests else list(lists.topics)
    return list(zip(np.repeat(np.array(names), np.diff(lists.offsets)).tolist(), list(lists.items), strict=True))


def test_every_item_of_a_topic_is_tested_once_by_a_factorisation_that_never_saw_it() -> None:
    lists, made = LISTS, rb.cross_validate(LISTS, 3, **FACTORS)
    assert sorted(pairs(made.run, made.tests)) == sorted(pairs(lists))
    assert list(made.run.topics) == [f"{topic}/{fold}" for topic, fold in made.tests]
    assert list(made.judged.topics) == list(made.run.topics)
    # Flipping the labels of what one fold tests changes none of its scores, but other folds'.
    tested = {pair for pair, fold in _folds_of(made).items() if fold == 1}
    flipped = np.array([pair in tested for pair in pairs(lists)])
    changed = replace(lists, relevance=np.where(flipped, 1 - lists.relevance, lists.relevance))
    # The folds depend on labels, so that these are given.
    assert _folds_of(made) == _folds_of(rb.cross_validate(lists, 3, **FACTORS))
    kept = rb.read_lists(frame(changed).filter(pl.Series(~flipped)))
    ranker = rb.train_ranker(kept, **FACTORS, unknown="mean")
    again = dict(zip(pairs(lists), ranker.score_lists(lists).scores.tolist(), strict=True))
    for pair, score in zip(pairs(made.run, made.tests), made.run.scores.tolist(), strict=True):
        if pair in tested:
            assert score == pytest.approx(again[pair], abs=1e-7)


def _folds_of(made: rb.CrossValidated) -> dict[tuple[str, str], int]:
    folds = np.repeat([fold for _, fold in made.tests], np.diff(made.run.offsets)).tolist()
    return dict(zip(pairs(made.run, made.tests), folds, strict=True))


def test_the_value_of_a_topic_is_its_mean_over_folds() -> None:
    lists, made = LISTS, rb.cross_validate(LISTS, 3, **FACTORS)
    by_list = rb.evaluate_run(made.run, made.judged, "nDCG").values["nDCG"]
    found = made.evaluate("nDCG")
    assert list(found.topics) == lists.topics
    for topic, value in zip(found.topics, found.values["nDCG"].tolist(), strict=True):
        own = np.array([by_list[place] for place, (name, _) in enumerate(made.tests) if name == topic])
        defined = own[~np.isnan(own)]
        assert np.isnan(value) if not len(defined) else value == pytest.approx(defined.mean())
    shuffled = rb.read_lists(frame(lists).sample(fraction=1, shuffle=True, seed=0))
    assert _folds_of(rb.cross_validate(shuffled, 3, **FACTORS)) == _folds_of(made)


def test_test_lists_have_negatives_too() -> None:
    lists = RATED.lists(RATED.known & (RATED.relevant > 0))
    made = rb.cross_validate(lists, 3, **FACTORS, negatives=1)
    known = set(pairs(lists))
    drawn = [pair for pair in pairs(made.run, made.tests) if pair not in known]
    assert 0 < len(drawn) <= len(known)
    assert made.judged.relevance.sum() == len(known)
    assert 0 < made.evaluate("nDCG").means()["nDCG"] < 1


def test_what_no_other_fold_has_is_scored_by_means_and_counted() -> None:
    table = pl.DataFrame(
        {"topic": list("aaaabbbbc"), "item": list("wxyzwxyur"), "relevance": [1, 0, 1, 0, 1, 0, 0, 1, 1]}
    )
    made = rb.cross_validate(rb.read_lists(table), 2, **FACTORS, validation_share=0)
    folds = _folds_of(made)
    for number, count in enumerate(made.unknown, start=1):
        topics, items = ({pair[at] for pair, fold in folds.items() if fold != number} for at in (0, 1))
        tested = [pair for pair, fold in folds.items() if fold == number]
        assert count == sum(topic not in topics or item not in items for topic, item in tested)
    assert sum(made.unknown) >= 3
    with pytest.raises(DataError, match=r"fold 1: found (topic|item) .*, which the ranker was not trained on"):
        rb.cross_validate(rb.read_lists(table), 2, **FACTORS, validation_share=0, unknown="refuse")


# Given splits


def some(lists: JudgedLists, first: int, last: int) -> JudgedLists:
    offsets = lists.offsets[first : last + 1]
    rows = slice(offsets[0], offsets[-1])
    columns = {name: getattr(lists, name)[rows] for name in ("items", "relevance", "features")}
    return replace(lists, topics=lists.topics[first:last], offsets=offsets - offsets[0], **columns)


def test_given_splits_may_test_a_topic_twice() -> None:
    lists = judged()
    train, vali, test = some(lists, 0, 10), some(lists, 10, 14), some(lists, 14, 20)
    splits = [
        rb.Split(training=train, validation=vali, test=test),
        rb.Split(training=vali, test=some(lists, 16, 20)),
    ]
    made = rb.cross_validate_splits(iter(splits), **QUICK)
    assert list(made.run.topics) == [
        *["q14/1", "q15/1"],
        *(f"q{topic}/{fold}" for topic in range(16, 20) for fold in (1, 2)),
    ]
    for place, (split, options) in enumerate(zip(splits, ({"validation": vali}, {}), strict=True)):
        alone = rb.train_ranker(split.training, **options, **QUICK).score_lists(split.test).scores
        own = [at for at, (_, fold) in enumerate(made.tests) if fold == place + 1]
        found = np.concatenate([made.run.scores[rows_of(made.run, at)] for at in own])
        np.testing.assert_array_equal(found, alone)
    assert list(made.evaluate("AP").topics) == test.topics
    with pytest.raises(ValueError, match="splits: found none"):
        rb.cross_validate_splits([], **QUICK)
    with pytest.raises(ValueError, match="negatives: found 2 beside given splits"):
        rb.cross_validate_splits([], **FACTORS, negatives=2)


@pytest.mark.parametrize("model", ["linear", "matrix-factorization"])
def test_parts_of_a_split_are_apart(model: str) -> None:
    lists = judged()
    lists = replace(lists, items=[f"d{row % 7}" for row in range(len(lists.items))])
    train, test = some(lists, 0, 10), some(lists, 9, 12)
    split = rb.Split(training=train, test=test, name="a.csv, b.csv")
    what = "topic 'q9'" if model == "linear" else "item 'd1' of topic 'q9'"
    with pytest.raises(DataError, match=rf"^fold 1 \(a.csv, b.csv\): {what} is in the training and in the test lists"):
        rb.cross_validate_splits([split], model=model, **QUICK)
    with pytest.raises(DataError, match=rf"{what} is in the training and in the validation lists"):
        rb.train_ranker(train, test, model=model, **QUICK)


# The command line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten splits, by name."""
    monkeypatch.chdir(tmp_path)
    lists = judged(22)
    for fold in range(1, 11):
        (tmp_path / f"Fold{fold}").mkdir()
        for name, topics in {"train": (0, 8), "vali": (8, 12), "test": (11 + fold, 12 + fold)}.items():
            frame(some(lists, *topics)).write_csv(tmp_path / f"Fold{fold}" / f"{name}.csv")
    return tmp_path


PATTERN = "Fold{fold}/train.csv,Fold{fold}/vali.csv,Fold{fold}/test.csv"
FLAGS = ["-m", "nDCG", "--epochs", "2", "--device", "cpu"]


def test_a_pattern_names_the_files_of_all_splits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cross-validate", "--split", PATTERN, "--runs", "runs", *FLAGS]) == 0
    shown = capsys.readouterr().out
    assert "nDCG, 10 folds, 10 topics\n" in shown
    assert "fold  topics    nDCG  epoch  seconds\n1          1" in shown
    run = rb.read_run("runs/nDCG.csv")
    assert list(run.topics) == [f"q{topic}" for topic in range(12, 22)]
    flags = [word for fold in range(1, 11) for word in ("--split", PATTERN.replace("{fold}", str(fold)))]
    assert main(["cross-validate", *flags, "--runs", "again", *FLAGS]) == 0
    assert (folder / "again/nDCG.csv").read_bytes() == (folder / "runs/nDCG.csv").read_bytes()
    absolute = ",".join(str(folder / part) for part in PATTERN.split(","))
    assert main(["cross-validate", "--split", absolute, *FLAGS]) == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--split", "Fold{fold}/none.csv,Fold{fold}/test.csv"], "there is no file Fold{fold}/none.csv, with any name"),
        (["--split", "Fold1/train.csv"], "--split: found Fold1/train.csv, expected TRAIN,TEST or TRAIN,VALIDATION,T"),
        (["--split", "Fold1/train.csv,Fold1/no.csv"], "Fold1/no.csv: there is no such file; expected it beside Fold1"),
        (["Fold1/train.csv", "--split", PATTERN], "FILE: found Fold1/train.csv beside --split"),
        (["--folds", "3", "--split", PATTERN], "--folds: found 3 beside --split"),
        ([], "found no file: expected one to deal into folds, or the files of given splits by --split"),
        (["--split", "Fold1/train.csv,Fold1/train.csv"], "topic 'q0' is in the training and in the test lists"),
        (["--split", "Fold1/train.csv,Fold1/wide.csv"], "Fold1/wide.csv: there is no column 'b'; it has topic, item,"),
    ],
)
def test_mistakes_in_splits_are_one_message(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    pl.read_csv("Fold1/test.csv").drop("b").write_csv("Fold1/wide.csv")
    assert main(["cross-validate", *flags, *FLAGS]) == 2
    assert message in capsys.readouterr().err


def test_a_fold_that_is_missing_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, message in {
        "vali": "fold 7 of Fold7/vali.csv: there is no such file; expected it beside",
        "train": "fold 7 of Fold{fold}/train.csv is missing: found the folds 1, 2, 3, 4, 5, 6, 8, 9, 10; add its",
    }.items():
        (folder / f"Fold7/{name}.csv").unlink()
        assert main(["cross-validate", "--split", PATTERN, *FLAGS]) == 2
        assert message in capsys.readouterr().err


def test_losses_of_a_factorisation_are_compared_over_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_of = ratings(users=20, items=15)
    frame(made_of.lists(made_of.known)).write_csv(tmp_path / "r.csv")
    flags = ["--model", "matrix-factorization", "--folds", "3", "--loss", "nDCG", "--loss", "RankNet", *FLAGS]
    assert main(["cross-validate", str(tmp_path / "r.csv"), "--runs", str(tmp_path / "runs"), *flags]) == 0
    shown = capsys.readouterr().out
    assert shown.count("3 folds, 20 topics\n") == 2
    assert "A: RankNet\nB: nDCG\n" in shown
    files = [str(tmp_path / "runs" / name) for name in ("nDCG.csv", "judgements.csv")]
    assert main(["evaluate", *files, "-m", "nDCG"]) == 0
    assert main(["compare", files[0], str(tmp_path / "runs/RankNet.csv"), "--qrels", files[1], "-m", "nDCG"]) == 0


def test_training_across_folds_is_another_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame(judged()).write_csv(tmp_path / "my lists.csv")
    path = str(tmp_path / "my lists.csv")
    assert main(["train", path, "--folds", "3", "--loss", "hinge(margin=2)"]) == 2
    shown = capsys.readouterr().err
    command = f"rankbound cross-validate '{path}' --folds 3 --loss 'hinge(margin=2)' -m nDCG@10"
    assert f"run `{command}`" in shown
    assert main([*shlex.split(command)[1:], "--epochs", "1"]) == 0
    assert main(["train", path]) == 2
    assert "--out: found none, expected the file of the model" in capsys.readouterr().err
