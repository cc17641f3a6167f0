"""Rankers across folds: every topic is scored once, by a ranker that never saw it; and splits by time.

Splits by time are compared with rows picked one by one, whatever the order of the table.
"""

import shutil
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists
from tests.library.conftest import Program
from tests.library.planted_ratings import frame, lists_of, ratings, table_of
from tests.library.refusals import problems, refusals

QUICK = {"epochs": 3, "batch_size": 8, "device": "cpu"}


def rows_of(lists: Any, topic: int) -> slice:
    return slice(*lists.offsets[topic:][:2])


def judged(topics: int = 20, sizes: tuple[int, ...] = (3, 5, 4)) -> JudgedLists:
    random = np.random.default_rng(0)
    lengths = [sizes[topic % len(sizes)] for topic in range(topics)]
    features = random.random((sum(lengths), 2)).astype(np.float32)
    relevance = (features[:, 0] > np.median(features[:, 0])).astype(float)
    return lists_of(lengths, relevance, features, "ab")


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
    expected, found = (of(["nDCG@2", "AP"]) for of in (partial(rb.evaluate_run, made.run, lists), made.evaluate))
    assert list(found.topics) == list(expected.topics)
    by_fold = made.evaluate_folds(["nDCG@2", "AP"])
    for name, values in expected.values.items():
        np.testing.assert_allclose(found.values[name], values)
        means = [np.nanmean(values[[lists.topics.index(topic) for topic in fold]]) for fold in made.folds]
        assert list(by_fold[name]) == pytest.approx(means)
    assert (len(made.seconds), list(made.unknown)) == (4, [0] * 4)
    assert min(made.seconds) > 0


def test_folds_are_those_of_the_seed() -> None:
    one, same, other = (rb.cross_validate(judged(), 3, seed=seed, **QUICK) for seed in (1, 1, 2))
    assert one.folds == same.folds != other.folds
    np.testing.assert_array_equal(one.run.scores, same.run.scores)


LINEAR, FACTORED = "linear", "matrix-factorization"
test_folds_that_cannot_be_are_refused = refusals(
    [
        ((LINEAR, 1), "folds: found 1, expected 2 to 20, the number of topics"),
        ((LINEAR, 21), "folds: found 21, expected 2 to 20"),
        ((FACTORED, 1), "folds: found 1, expected 2 to 5, the items of the largest topic"),
        ((FACTORED, 6), "folds: found 6, expected 2 to 5"),
    ],
    lambda given: rb.cross_validate(judged(), given[1], model=given[0], **QUICK),
)


def test_the_command_compares_losses_and_keeps_their_runs(tmp_path: Path, program: Program) -> None:
    table, lists, runs = frame(judged(12)), tmp_path / "lists.csv", tmp_path / "runs"
    table = table.rename({"topic": "query", "item": "sku", "relevance": "clicked"})
    table.with_columns(pl.concat_str(pl.lit("shoes "), "query").alias("query")).write_csv(lists)
    columns = "--topic query --item sku --relevance clicked"
    losses = f"--loss nDCG --loss LambdaRank(metric=nDCG@5) --folds 3 --epochs 2 -m nDCG@5 -m RR --runs {runs}"
    shown = program(f"cross-validate {lists} {losses} {columns}")
    assert shown.count("3 folds, 12 topics\n") == 2
    assert "A: LambdaRank(metric=nDCG@5)\nB: nDCG\n" in shown
    assert sorted(path.name for path in runs.iterdir()) == ["LambdaRank(metric=nDCG@5).csv", "nDCG.csv"]
    assert program(f"evaluate {runs}/nDCG.csv {lists} -m nDCG@5 {columns}").splitlines()[1] in shown


# Folds within topics, of a factorisation

FACTORS: dict[str, Any] = {**QUICK, "model": FACTORED, "factors": 4}
RATED = ratings(users=15, items=12)
LISTS = RATED.lists(RATED.known)


def pairs(lists: rb.Run | rb.Qrels, tests: Any = None) -> list[tuple[str, str]]:
    names = [topic for topic, _ in tests] if tests else list(lists.topics)
    return list(zip(np.repeat(np.array(names), np.diff(lists.offsets)).tolist(), list(lists.items), strict=True))


def test_every_item_of_a_topic_is_tested_once_by_a_factorisation_that_never_saw_it() -> None:
    """The value of a topic is its mean over the folds, which are those of any order of the rows."""
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
    by_list = rb.evaluate_run(made.run, made.judged, "nDCG").values["nDCG"]
    found = made.evaluate("nDCG")
    assert list(found.topics) == lists.topics
    for topic, value in zip(found.topics, found.values["nDCG"].tolist(), strict=True):
        own = np.array([by_list[place] for place, (name, _) in enumerate(made.tests) if name == topic])
        defined = own[~np.isnan(own)]
        assert np.isnan(value) if not len(defined) else value == pytest.approx(defined.mean())
    shuffled = rb.read_lists(frame(lists).sample(fraction=1, shuffle=True, seed=0))
    assert _folds_of(rb.cross_validate(shuffled, 3, **FACTORS)) == _folds_of(made)


def _folds_of(made: rb.CrossValidated) -> dict[tuple[str, str], int]:
    folds = np.repeat([fold for _, fold in made.tests], np.diff(made.run.offsets)).tolist()
    return dict(zip(pairs(made.run, made.tests), folds, strict=True))


def test_test_lists_have_negatives_and_what_no_other_fold_has_is_scored_by_means() -> None:
    lists = RATED.lists(RATED.known & (RATED.relevant > 0))
    made = rb.cross_validate(lists, 3, **FACTORS, negatives=1)
    known = set(pairs(lists))
    drawn = [pair for pair in pairs(made.run, made.tests) if pair not in known]
    assert 0 < len(drawn) <= len(known)
    assert made.judged.relevance.sum() == len(known)
    assert 0 < made.evaluate("nDCG").means()["nDCG"] < 1
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
    splits = [rb.Split(training=train, validation=vali, test=test), rb.Split(training=vali, test=some(lists, 16, 20))]
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
    monkeypatch.chdir(tmp_path)
    lists = judged(22)
    for fold in range(1, 11):
        (tmp_path / f"Fold{fold}").mkdir()
        for name, topics in {"train": (0, 8), "vali": (8, 12), "test": (11 + fold, 12 + fold)}.items():
            frame(some(lists, *topics)).write_csv(tmp_path / f"Fold{fold}" / f"{name}.csv")
    return tmp_path


PATTERN = "Fold{fold}/train.csv,Fold{fold}/vali.csv,Fold{fold}/test.csv"
SPLIT = "cross-validate -m nDCG --epochs 2 --device cpu --split "


def test_a_pattern_names_the_files_of_all_splits(folder: Path, program: Program) -> None:
    shown = program(f"{SPLIT} {PATTERN} --runs runs")
    assert "nDCG, 10 folds, 10 topics\n" in shown
    assert "fold  topics    nDCG  epoch  seconds\n1          1" in shown
    assert list(rb.read_run("runs/nDCG.csv").topics) == [f"q{topic}" for topic in range(12, 22)]
    program(SPLIT + ",".join(str(folder / part) for part in PATTERN.split(",")), "--runs", "again")
    assert (folder / "again/nDCG.csv").read_bytes() == (folder / "runs/nDCG.csv").read_bytes()


@pytest.mark.parametrize(("files", "message"), problems("splits by command"))
def test_mistakes_in_splits_are_one_message(folder: Path, program: Program, files: str, message: str) -> None:
    pl.read_csv("Fold1/test.csv").drop("b").write_csv("Fold1/wide.csv")
    for fold in (1, 2, 3, 4, 5, 6, 8, 9, 10):
        shutil.copy(f"Fold{fold}/vali.csv", f"Fold{fold}/gone.csv")
    assert message in program(SPLIT + files, status=2)
    assert "found no file: expected one to deal into folds" in program("cross-validate -m AP", status=2)


def test_losses_of_a_factorisation_are_compared_over_topics(tmp_path: Path, program: Program) -> None:
    made_of, runs = ratings(users=20, items=15), tmp_path / "runs"
    frame(made_of.lists(made_of.known)).write_csv(tmp_path / "r.csv")
    flags = f"--model {FACTORED} --folds 3 --loss nDCG --loss RankNet -m nDCG --epochs 2 --device cpu --runs {runs}"
    shown = program(f"cross-validate {tmp_path}/r.csv {flags}")
    assert shown.count("3 folds, 20 topics\n") == 2
    assert "A: RankNet\nB: nDCG\n" in shown
    program(f"evaluate {runs}/nDCG.csv {runs}/judgements.csv -m nDCG")
    program(f"compare {runs}/nDCG.csv {runs}/RankNet.csv --qrels {runs}/judgements.csv -m nDCG")


def test_training_across_folds_is_another_command(tmp_path: Path, program: Program) -> None:
    path = tmp_path / "my lists.csv"
    frame(judged()).write_csv(path)
    flags = f"'{path}' --folds 3 --loss 'hinge(margin=2)'"
    assert "run `rankbound cross-validate`, which takes the other" in program(f"train {flags}", status=2)
    program(f"cross-validate {flags} -m nDCG@10 --epochs 1")
    assert "--out: found none, expected the file of the model" in program("train", path, status=2)


# Splits by time
Rows = set[tuple[str, str, float]]


def interactions(seed: int) -> pl.DataFrame:
    """Interactions of users of 1 to 12 items, of few times, so that many tie."""
    random = np.random.default_rng(seed)
    rows = [(f"u{u}", f"i{i}") for u, n in enumerate(random.integers(1, 13, 30)) for i in random.permutation(20)[:n]]
    user, item = zip(*rows, strict=True)
    numbers = random.integers(1, 4, len(rows)), random.integers(0, 25, len(rows))
    frame = pl.DataFrame({"user": user, "item": item, "stars": numbers[0], "when": numbers[1]})
    return frame.sample(fraction=1, shuffle=True, seed=seed)


def parts_of(split: rb.Split) -> list[Rows]:
    parts = [table_of(part) if part else {} for part in (split.training, split.validation, split.test)]
    return [{(topic, item, label) for topic, own in part.items() for item, label in own.items()} for part in parts]


COLUMNS: dict[str, Any] = {"time": "when", "topic": "user", "relevance": "stars"}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("share", "validation_share"), [(0.2, 0.0), (0.5, 0.3), (0.05, 0.5)])
def test_a_cut_is_one_moment_and_ties_stay_together(seed: int, share: float, validation_share: float) -> None:
    frame = interactions(seed)
    split = rb.split_by_time(frame, **COLUMNS, share=share, validation_share=validation_share)
    times = sorted(frame["when"])
    cut = times[min(ceil(len(times) * (1 - share)), len(times) - 1)]
    before = [time for time in times if time < cut]
    first = before[min(ceil(len(before) * (1 - validation_share)), len(before) - 1)] if validation_share else cut
    expected: list[Rows] = [set(), set(), set()]
    for user, item, stars, time in frame.rows():
        expected[0 if time < first else 1 if time < cut else 2].add((user, item, stars))
    assert parts_of(split) == expected
    assert (split.validation is None) == (validation_share == 0)
    assert len(expected[2]) >= share * len(frame) - 1
    assert parts_of(rb.split_by_time(frame, **COLUMNS, at=cut, validation_share=validation_share)) == expected
    assert parts_of(
        rb.split_by_time(frame.sort("item"), **COLUMNS, share=share, validation_share=validation_share)
    ) == (expected)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("last", "validation"), [(1, 0), (1, 1), (3, 2)])
def test_the_last_are_left_out_by_time_and_name_and_small_topics_stay(seed: int, last: int, validation: int) -> None:
    frame = interactions(seed)
    of_users = defaultdict(list)
    for user, item, stars, time in frame.rows():
        of_users[user].append((time, item, stars))
    expected: list[Rows] = [set(), set(), set()]
    for user, rows in of_users.items():
        for place, (_, item, stars) in enumerate(sorted(rows, reverse=True)):
            part = 2 if place < last else 1 if place < last + validation else 0
            expected[part if len(rows) > last + validation else 0].add((user, item, stars))
    for order in (frame, frame.sort("stars")):
        assert parts_of(rb.leave_last_out(order, **COLUMNS, last=last, validation=validation)) == expected


def test_times_are_numbers_dates_datetimes_and_their_texts(tmp_path: Path) -> None:
    days = [datetime(2026, 1, 1) + timedelta(days=7 * day) for day in (2, 0, 3, 1)]
    frame = pl.DataFrame({"user": ["a", "a", "b", "b"], "item": ["x", "y", "x", "y"]})
    texts = [day.isoformat(" ") for day in days]
    forms: list[tuple[list[Any], Any]] = [
        ([day.timestamp() for day in days], days[0].timestamp()),
        # Nanoseconds, which differ beyond the digits of a double.
        ([10**18 + day for day in (2, 0, 3, 1)], 10**18 + 2),
        (days, days[0]),
        (days, "2026-01-15"),
        ([day.date() for day in days], days[0].date()),
        (texts, date(2026, 1, 15)),
        ([f"{text}Z" for text in texts], days[0].replace(tzinfo=UTC)),
        ([f"{text}+02:00" for text in texts], "2026-01-14T22:00:00Z"),
    ]
    for values, at in forms:
        path = tmp_path / "rows.csv"
        own = frame.with_columns(pl.Series("when", values))
        own.write_csv(path)
        for source in (own, path):
            split = rb.split_by_time(source, time="when", topic="user", relevance=None, at=at)
            assert parts_of(split) == [{("a", "y", 1), ("b", "y", 1)}, set(), {("a", "x", 1), ("b", "x", 1)}], values


FRAME = pl.DataFrame({"user": ["a", "a", "b"], "item": ["x", "y", "x"], "when": [1, 2, 3], "stars": [1, 0, 2]})


@pytest.mark.parametrize(
    ("change", "flags", "message"),
    [
        *problems("cuts by time"),
        ({"when": ["2026-01-01"] * 3}, {"at": 3}, "at: found 3, expected a date or time without a time zone"),
        ({"when": ["2026-01-01T01:00Z"] * 3}, {"at": "2026-01-01"}, "expected a date or time with a time zone"),
    ],
)
def test_what_a_cut_refuses(change: dict[str, Any], flags: dict[str, Any], message: str) -> None:
    frame = FRAME.with_columns(pl.Series(name, values) for name, values in change.items())
    with pytest.raises((ValueError, DataError), match=message):
        rb.split_by_time(frame, **(COLUMNS | flags))


def test_what_leaving_the_last_out_refuses(tmp_path: Path) -> None:
    for flags, message in (
        ({"last": 0}, "last: found 0, expected a number of rows from 1"),
        ({"validation": -1}, "validation: found -1, expected a number of rows from 0"),
        ({"last": 2}, "no topic has more than 2 rows, .* the largest of 2 topics has 2"),
    ):
        with pytest.raises((ValueError, DataError), match=message):
            rb.leave_last_out(FRAME, **COLUMNS, **flags)
    letor = tmp_path / "a.txt"
    letor.write_text("1 qid:1 1:0.5\n")
    with pytest.raises(DataError, match="found no table with a row per interaction"):
        rb.leave_last_out(letor, time="when")
