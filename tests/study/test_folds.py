"""Folds of ratings: every user's relevant items cut in five."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rankbound.errors import DataError
from rankbound_study.data.contracts import FOLDS, read_metadata, read_table, write_table
from rankbound_study.data.splits import RatingSplitting, keep_relevant, split_ratings, split_relevant


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
    split_ratings(ratings, out, RatingSplitting(dataset="toy", threshold=4, min_relevant=10, seed=0))
    folds = read_table(out, "interaction-folds")
    assert folds.column("topic").to_pylist() == [1] * 12
    assert sorted(np.bincount(folds.column("fold").to_numpy())[1:].tolist()) == [2, 2, 2, 3, 3]
    metadata = read_metadata(out, "interaction-folds")
    expected = {"dataset": "toy", "min_relevant": 10, "seed": 0, "threshold": 4}
    assert json.loads(metadata["rankbound.folds"]) == expected
    with pytest.raises(
        DataError, match=r"no user has 13 ratings of at least 4; the most that a user has are 12: lower the"
    ):
        split_ratings(ratings, out, RatingSplitting(dataset="toy", threshold=4, min_relevant=13, seed=0))
