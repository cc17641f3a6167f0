"""The folds of data: each user's relevant items cut in five; judged lists by files, in turns, or dealt at random."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbound.errors import DataError
from rankbound_study.data.contracts import FOLDS, PARTS_KEY, judged_table, read_metadata, read_table, write_table
from rankbound_study.data.splits import split_lists, split_ratings, split_relevant

# Ratings


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(0, 3))
def test_every_user_is_cut_into_near_equal_parts(sizes: list[int], seed: int) -> None:
    topic = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    fold = split_relevant(topic, "toy", seed)
    for user, size in enumerate(sizes):
        counts = np.bincount(fold[topic == user], minlength=FOLDS + 1)
        assert counts[0] == 0
        assert sorted(set(counts[1:].tolist())) in ([size // FOLDS], [size // FOLDS, size // FOLDS + 1])


def test_folds_are_drawn_from_data_set_seed_and_user_alone_and_share_surplus_items() -> None:
    topic = np.repeat([3, 8], 30).astype(np.int32)
    fold = split_relevant(topic, "toy", seed=0)
    np.testing.assert_array_equal(split_relevant(topic[30:], "toy", seed=0), fold[30:])
    for other in (split_relevant(topic, "toy", seed=1), split_relevant(topic, "other", seed=0)):
        assert (other != fold).any()
    assert (fold[:30] != fold[30:]).any()
    counts = np.bincount(split_relevant(np.repeat(np.arange(200), 26).astype(np.int32), "toy", seed=0))[1:]
    assert counts.max() < 200 * 5 + 80


def test_the_file_states_how_it_was_made(tmp_path: Path) -> None:
    ratings, out = tmp_path / "x.parquet", tmp_path / "folds.parquet"
    topic, item, rating = np.repeat([1, 2], 12), np.tile(np.arange(12), 2), [5.0] * 12 + [4.0, 3.0] * 6
    columns = {"topic": topic, "item": item, "rating": rating, "timestamp": item}
    write_table(pa.table(columns), ratings, "interactions", metadata={"rankbound.dataset": "toy"})
    split_ratings(ratings, out, "toy", threshold=4, min_relevant=10, seed=0)
    folds = read_table(out, "interaction-folds")
    assert folds.column("topic").to_pylist() == [1] * 12
    assert sorted(np.bincount(folds.column("fold").to_numpy())[1:].tolist()) == [2, 2, 2, 3, 3]
    expected = {"dataset": "toy", "min_relevant": 10, "seed": 0, "threshold": 4}
    assert json.loads(read_metadata(out, "interaction-folds")["rankbound.folds"]) == expected
    with pytest.raises(
        DataError, match=r"no user has 13 ratings of at least 4; the most that a user has are 12: lower the"
    ):
        split_ratings(ratings, out, "toy", threshold=4, min_relevant=13, seed=0)


# Judged lists

Places = dict[str, list[list[int]]]
Folds = dict[tuple[int, str], list[int]]


def split(folder: Path, places: Places | None, topics: list[str] | None = None, **options: Any) -> Folds:
    """The lists of each fold and split, of files with lists at these places."""
    last = max((limits[1] for ranges in (places or {}).values() for limits in ranges), default=1)
    names = topics or [f"q{row}" for row in range(last)]
    count, notes = len(names), {} if places is None else {PARTS_KEY: json.dumps(places)}
    ones, zeros = np.ones(count, np.int8), np.zeros((count, 1), np.float32)
    table = judged_table(names, ["d"] * count, ones, zeros, np.arange(count + 1))
    write_table(table, folder / "lists.parquet", "lists", metadata=notes)
    split_lists(folder / "lists.parquet", folder / "splits.parquet", "toy", **options)
    found: Folds = {}
    for row in read_table(folder / "splits.parquet", "list-splits").to_pylist():
        found.setdefault((row["fold"], row["split"]), []).append(row["list"])
    return found


def parts(*sizes: int) -> Places:
    ends = np.cumsum(sizes).tolist()
    return {f"S{part}": [[end - size, end]] for part, (size, end) in enumerate(zip(sizes, ends, strict=True), start=1)}


def test_five_parts_take_turns_as_letors_folds_do(tmp_path: Path) -> None:
    found = split(tmp_path, parts(1, 1, 1, 1, 1))
    assert {fold: (found[fold, "train"], found[fold, "validation"], found[fold, "test"]) for fold in (1, 2, 5)} == {
        1: ([0, 1, 2], [3], [4]),
        2: ([1, 2, 3], [4], [0]),
        5: ([0, 1, 4], [2], [3]),
    }


@given(sizes=st.lists(st.integers(1, 4), min_size=3, max_size=7))
def test_every_list_is_tested_once_and_validated_on_once(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    found = split(tmp_path_factory.getbasetemp(), parts(*sizes))
    every = list(range(sum(sizes)))
    for wanted, times in {"test": 1, "validation": 1, "train": len(sizes) - 2}.items():
        rows = Counter(row for (_, name), rows in found.items() if name == wanted for row in rows)
        assert rows == dict.fromkeys(every, times)
    for fold in range(1, len(sizes) + 1):
        assert sorted(row for (of, _), rows in found.items() if of == fold for row in rows) == every


def test_files_given_for_each_fold_may_share_test_topics(tmp_path: Path) -> None:
    places = {"a": [[0, 2]], "b": [[2, 3]], "c": [[3, 4]], "d": [[1, 2], [3, 4]], "e": [[0, 1]]}
    folds = [{"train": [train], "validation": ["b"], "test": [test]} for train, test in ("ac", "ed")]
    found = split(tmp_path, places, folds=folds)
    assert [[found[fold, name] for name in ("train", "validation", "test")] for fold in (1, 2)] == [
        [[0, 1], [2], [3]],
        [[0], [2], [1, 3]],
    ]


def test_topics_are_dealt_to_parts_and_held_out_for_validation_at_random(tmp_path: Path) -> None:
    found = split(tmp_path, {"all": [[0, 22]]}, random_parts=4)
    tested = [found[fold, "test"] for fold in range(1, 5)]
    assert sorted(map(len, tested)) == [5, 5, 6, 6]
    assert sorted(row for rows in tested for row in rows) == list(range(22))
    assert tested[0] != list(range(len(tested[0])))
    options = {"folds": [{"train": ["S1"], "test": ["S2"]}] * 2, "validation_share": 0.3}
    found = split(tmp_path, parts(10, 3), **options)
    assert [len(found[fold, "validation"]) for fold in (1, 2)] == [3, 3]
    assert found[1, "validation"] != found[2, "validation"]
    assert sorted(found[1, "train"] + found[1, "validation"]) == list(range(10))
    assert found == split(tmp_path, parts(10, 3), **options)
    assert found != split(tmp_path, parts(10, 3), **options, seed=1)


THREE = {"folds": [{"train": ["S1"], "validation": ["S2"], "test": ["S3"]}]}


@pytest.mark.parametrize(
    ("places", "options", "topics", "message"),
    [
        (None, {}, "q", r"'rankbound\.parts' is missing"),
        (parts(1, 1), {}, "qrs", r"counts 2 lists, but there are 3"),
        (parts(1, 1), THREE, "qr", r"it has no lists of 'S3', which fold 1 names"),
        (parts(1, 1, 1), THREE, "qrq", r"toy, fold 1: topic 'q' is in train and in test"),
        (parts(2, 1, 1), THREE, "qqrs", r"toy, fold 1: a topic is in several files of train, or twice in one"),
        (
            parts(1, 1),
            {"folds": [{"train": ["S1"], "test": ["S2"]}]},
            "qr",
            r"fold 1 trains on 1 topic, of which 1 would be held out for validation, so that none is left to train on",
        ),
        (parts(2, 1), {"random_parts": 4}, "qrs", r"it has 3 topics, too few for 4 .* set random_parts to 3 or less"),
        (parts(1, 1), {"random_parts": 3}, "qr", r"it has 2 topics, too few for 3 .* a study needs 3 topics"),
    ],
)
def test_what_contradicts_itself_is_refused(
    tmp_path: Path, places: Places | None, options: dict[str, Any], topics: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        split(tmp_path, places, list(topics), **options)
    assert not (tmp_path / "splits.parquet").exists()
