"""Folds: LETOR's parts as they come, and every user's relevant items cut in five."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rankbound.errors import DataError
from rankbound_study.data.contracts import read_metadata, read_table, write_table
from rankbound_study.data.folds import FOLDS, fold_interactions, fold_lists, keep_relevant, split_relevant
from rankbound_study.data.schemas import PARTS_KEY


def write_lists(path: Path, counts: list[int] | None, topics: int = 4) -> Path:
    features = pa.array([[[0.0]]] * topics, pa.list_(pa.list_(pa.float32(), 1)))
    table = pa.table(
        {
            "topic": [f"q{topic}" for topic in range(topics)],
            "items": [["d"]] * topics,
            "relevance": pa.array([[1]] * topics, pa.list_(pa.int8())),
            "features": features,
        }
    )
    write_table(table, path, "lists", metadata={} if counts is None else {PARTS_KEY: json.dumps(counts)})
    return path


def test_judged_lists_keep_their_parts(tmp_path: Path) -> None:
    lists = write_lists(tmp_path / "lists.parquet", [1, 1, 0, 1, 1])
    fold_lists(lists, tmp_path / "folds.parquet")
    folds = read_table(tmp_path / "folds.parquet", "list-folds").to_pydict()
    assert folds == {"topic": ["q0", "q1", "q2", "q3"], "fold": [1, 2, 4, 5]}


@pytest.mark.parametrize(
    ("counts", "message"), [(None, "'rankbound.parts' is missing"), ([1, 1], r"counts 2 topics in \[1, 1\].*are 4")]
)
def test_lists_that_do_not_tell_their_parts_are_refused(tmp_path: Path, counts: list[int] | None, message: str) -> None:
    with pytest.raises(DataError, match=rf"lists\.parquet: .*{message}"):
        fold_lists(write_lists(tmp_path / "lists.parquet", counts), tmp_path / "folds.parquet")


def test_relevant_pairs_of_users_with_enough_of_them_stay() -> None:
    topic = np.array([1, 1, 1, 2, 2, 2, 3], dtype=np.int32)
    rating = np.array([4, 4.5, 3.5, 4, 1, 1, 5], dtype=np.float32)
    assert keep_relevant(topic, rating, 4.0, 2).tolist() == [True, True, False, False, False, False, False]
    assert keep_relevant(topic, rating, 4.0, 1).tolist() == [True, True, False, True, False, False, True]


def test_every_user_is_cut_into_near_equal_parts() -> None:
    sizes = [25, 26, 29, 31, 1, 4]
    topic = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    fold = split_relevant(topic, "toy", seed=0)
    for user, size in enumerate(sizes):
        counts = np.bincount(fold[topic == user], minlength=FOLDS + 1)[1:]
        assert counts.sum() == size
        assert counts.max() - counts.min() <= 1


def test_no_fold_gets_all_surplus_items() -> None:
    topic = np.repeat(np.arange(200), 26).astype(np.int32)
    counts = np.bincount(split_relevant(topic, "toy", seed=0))[1:]
    assert counts.max() < 200 * 5 + 80


def test_folds_are_drawn_from_data_set_seed_and_user_alone() -> None:
    topic = np.repeat([3, 8], 30).astype(np.int32)
    fold = split_relevant(topic, "toy", seed=0)
    np.testing.assert_array_equal(split_relevant(topic[30:], "toy", seed=0), fold[30:])
    for other in (split_relevant(topic, "toy", seed=1), split_relevant(topic, "other", seed=0)):
        assert (other != fold).any()
    assert (fold[:30] != fold[30:]).any()


def write_ratings(path: Path) -> Path:
    topics, items, ratings = np.repeat([1, 2], 12), np.tile(np.arange(12), 2), np.tile([4.0, 3.0], 12)
    ratings[:12] = 5
    columns = {"topic": topics, "item": items, "rating": ratings, "timestamp": items}
    write_table(pa.table(columns), path, "interactions", metadata={"rankbound.dataset": "toy"})
    return path


def test_the_file_states_how_it_was_made(tmp_path: Path) -> None:
    ratings, out = write_ratings(tmp_path / "x.parquet"), tmp_path / "folds.parquet"
    fold_interactions(ratings, out, dataset="toy", threshold=4, min_relevant=10, seed=0)
    folds = read_table(out, "interaction-folds")
    assert folds.column("topic").to_pylist() == [1] * 12
    assert sorted(np.bincount(folds.column("fold").to_numpy())[1:].tolist()) == [2, 2, 2, 3, 3]
    metadata = read_metadata(out, "interaction-folds")
    expected = {"dataset": "toy", "min_relevant": 10, "seed": 0, "threshold": 4}
    assert json.loads(metadata["rankbound.folds"]) == expected
    with pytest.raises(DataError, match=r"no user has 13 ratings of at least 4; lower min_relevant"):
        fold_interactions(ratings, out, dataset="toy", threshold=4, min_relevant=13, seed=0)
