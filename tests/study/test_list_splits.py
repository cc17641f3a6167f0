"""The folds of judged lists: parts that take turns, files given for each fold, parts drawn at random."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbound.errors import DataError
from rankbound_study.data.contracts import PARTS_KEY, read_table, write_table
from rankbound_study.data.splits import ListSplitting, split_lists

Places = dict[str, list[list[int]]]
Folds = dict[tuple[int, str], list[int]]


def write_lists(path: Path, places: Places | None, topics: list[str]) -> Path:
    count = len(topics)
    table = pa.table(
        {
            "topic": topics,
            "items": [["d"]] * count,
            "relevance": pa.array([[1]] * count, pa.list_(pa.int8())),
            "features": pa.array([[[0.0]]] * count, pa.list_(pa.list_(pa.float32(), 1))),
        }
    )
    write_table(table, path, "lists", metadata={} if places is None else {PARTS_KEY: json.dumps(places)})
    return path


def split(folder: Path, places: Places | None, splitting: ListSplitting, topics: list[str] | None = None) -> Folds:
    """The lists of each fold and split."""
    last = max((limits[1] for ranges in (places or {}).values() for limits in ranges), default=1)
    lists = write_lists(folder / "lists.parquet", places, topics or [f"q{row}" for row in range(last)])
    split_lists(lists, folder / "splits.parquet", splitting)
    found: Folds = {}
    for row in read_table(folder / "splits.parquet", "list-splits").to_pylist():
        found.setdefault((row["fold"], row["split"]), []).append(row["list"])
    return found


def parts(*sizes: int) -> Places:
    ends = np.cumsum(sizes).tolist()
    return {f"S{part}": [[end - size, end]] for part, (size, end) in enumerate(zip(sizes, ends, strict=True), start=1)}


def test_five_parts_take_turns_as_letors_folds_do(tmp_path: Path) -> None:
    found = split(tmp_path, parts(1, 1, 1, 1, 1), ListSplitting("toy"))
    assert {fold: (found[fold, "train"], found[fold, "validation"], found[fold, "test"]) for fold in (1, 2, 5)} == {
        1: ([0, 1, 2], [3], [4]),
        2: ([1, 2, 3], [4], [0]),
        5: ([0, 1, 4], [2], [3]),
    }


@given(sizes=st.lists(st.integers(1, 4), min_size=3, max_size=7))
def test_every_list_is_tested_once_and_validated_on_once(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    found = split(tmp_path_factory.getbasetemp(), parts(*sizes), ListSplitting("toy"))
    every = list(range(sum(sizes)))
    for wanted, times in {"test": 1, "validation": 1, "train": len(sizes) - 2}.items():
        rows = Counter(row for (_, name), rows in found.items() if name == wanted for row in rows)
        assert rows == dict.fromkeys(every, times)
    for fold in range(1, len(sizes) + 1):
        assert sorted(row for (of, _), rows in found.items() if of == fold for row in rows) == every


def test_files_given_for_each_fold_may_share_test_topics(tmp_path: Path) -> None:
    places = {"a": [[0, 2]], "b": [[2, 3]], "c": [[3, 4]], "d": [[1, 2], [3, 4]], "e": [[0, 1]]}
    folds = [
        {"train": ["a"], "validation": ["b"], "test": ["c"]},
        {"train": ["e"], "validation": ["b"], "test": ["d"]},
    ]
    found = split(tmp_path, places, ListSplitting("toy", folds))
    assert found == {
        (1, "train"): [0, 1],
        (1, "validation"): [2],
        (1, "test"): [3],
        (2, "train"): [0],
        (2, "validation"): [2],
        (2, "test"): [1, 3],
    }


def test_without_files_for_validation_a_share_of_the_training_topics_is_held_out(tmp_path: Path) -> None:
    folds = [{"train": ["S1"], "test": ["S2"]}] * 2
    found = split(tmp_path, parts(10, 3), ListSplitting("toy", folds, validation_share=0.3))
    assert [len(found[fold, "validation"]) for fold in (1, 2)] == [3, 3]
    assert found[1, "validation"] != found[2, "validation"]
    assert sorted(found[1, "train"] + found[1, "validation"]) == list(range(10))
    assert found == split(tmp_path, parts(10, 3), ListSplitting("toy", folds, validation_share=0.3))
    assert found != split(tmp_path, parts(10, 3), ListSplitting("toy", folds, validation_share=0.3, seed=1))


def test_topics_dealt_at_random_take_turns(tmp_path: Path) -> None:
    found = split(tmp_path, {"all": [[0, 22]]}, ListSplitting("toy", random_parts=4))
    tested = [found[fold, "test"] for fold in range(1, 5)]
    assert sorted(map(len, tested)) == [5, 5, 6, 6]
    assert sorted(row for rows in tested for row in rows) == list(range(22))
    assert tested[0] != list(range(len(tested[0])))


@pytest.mark.parametrize(
    ("places", "splitting", "topics", "message"),
    [
        (None, ListSplitting("toy"), ["q"], r"'rankbound\.parts' is missing"),
        (parts(1, 1), ListSplitting("toy"), ["q", "r", "s"], r"counts 2 lists, but there are 3"),
        (
            parts(1, 1),
            ListSplitting("toy", [{"train": ["S1"], "test": ["S3"]}]),
            ["q", "r"],
            r"it has no lists of 'S3', which fold 1 names",
        ),
        (
            parts(1, 1, 1),
            ListSplitting("toy", [{"train": ["S1"], "validation": ["S2"], "test": ["S3"]}]),
            ["q", "r", "q"],
            r"toy, fold 1: topic 'q' is in train and in test",
        ),
        (
            parts(2, 1, 1),
            ListSplitting("toy", [{"train": ["S1"], "validation": ["S2"], "test": ["S3"]}]),
            ["q", "q", "r", "s"],
            r"toy, fold 1: a topic is in several files of train, or twice in one",
        ),
        (
            parts(1, 1),
            ListSplitting("toy", [{"train": ["S1"], "test": ["S2"]}]),
            ["q", "r"],
            r"fold 1 trains on 1 topic, of which 1 would be held out for validation, so that none is left to train on",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(
    tmp_path: Path, places: Places | None, splitting: ListSplitting, topics: list[str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        split(tmp_path, places, splitting, topics)
    assert not (tmp_path / "splits.parquet").exists()
