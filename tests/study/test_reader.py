"""From judged lists or ratings to what training reads, as flat arrays; their merging, and their pairs."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbound.errors import ConfigError, DataError
from rankbound_study.data.contracts import PARTS_KEY, SPLITS, judged_table, read_metadata, read_table, write_table
from rankbound_study.data.reader import (
    FoldedLists,
    Split,
    merge,
    pairs_of_lists,
    read_features,
    read_instances,
    read_item_names,
)
from rankbound_study.data.sampling import Drawing, sample_interactions, sample_lists
from rankbound_study.data.splits import split_lists, split_ratings
from rankbound_study.data.synthetic import generate

LABELS = [[2, 0, 1], [0, 0], [1, 2, 0], [2], [0, 2]]
FLAT = [label for labels in LABELS[:3] for label in labels]
WIDTH = 2
PARTS = {PARTS_KEY: json.dumps({f"S{part + 1}": [[part, part + 1]] for part in range(5)})}


def list_column(values: list[list[int]]) -> pa.Array:
    return pa.array(values, pa.list_(pa.int8()))


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Five queries, one in each part; the features of row r are r and -r."""
    labels, offsets = np.concatenate(LABELS).astype(np.int8), np.cumsum([0, *map(len, LABELS)])
    rows = np.arange(len(labels), dtype=np.float32)
    items, features = [f"d{row}" for row in range(len(rows))], np.stack((rows, -rows), axis=1)
    table = judged_table([f"q{query}" for query in range(5)], items, labels, features, offsets)
    write_table(table, tmp_path / "lists.parquet", "lists", [2, 3], PARTS)
    split_lists(tmp_path / "lists.parquet", tmp_path / "folds.parquet", "toy")
    return tmp_path / "lists.parquet"


def sampled_lists(lists: Path, threshold: int | None) -> FoldedLists:
    out = lists.with_name("instances.parquet")
    sample_lists(lists, lists.with_name("folds.parquet"), out, dataset="toy", threshold=threshold)
    return read_instances(out)


@pytest.mark.parametrize(("threshold", "positives"), [(1, [2, 0, 2]), (2, [1, 0, 1]), (None, [2, 0, 2])])
def test_a_threshold_makes_labels_binary(lists: Path, threshold: int | None, positives: list[int]) -> None:
    instances = sampled_lists(lists, threshold)
    dataset = "toy-graded" if threshold is None else f"toy-label{threshold}"
    assert (instances.dataset, instances.nsr, instances.item_count) == (dataset, None, 11)
    assert instances.folds == (1, 2, 3, 4, 5)
    train = instances.split(1, "train")
    assert train.relevance.tolist() == [label if threshold is None else int(label >= threshold) for label in FLAT]
    assert train.sizes.tolist() == [3, 2, 3]
    assert train.positives.tolist() == positives
    # Items are rows of the features.
    features, names = read_features(lists), read_item_names(lists)
    assert (features.dtype, features.shape) == (np.float32, (11, WIDTH))
    train = instances.split(3, "train")
    assert train.items.tolist() == [5, 6, 7, 8, 9, 10]
    np.testing.assert_array_equal(features[train.items, 0], train.items)
    assert [names[item] for item in train.items[:2]] == ["d5", "d6"]
    assert instances.pairs() == ({(3, 1), (1, 1), (2, 1)} if threshold == 2 else {(3, 2), (1, 1), (2, 1)})
    # One row group per fold and split.
    file = pq.ParquetFile(lists.with_name("instances.parquet"))
    keys = [file.read_row_group(group, ["fold", "split"]).to_pylist() for group in range(file.num_row_groups)]
    assert [(rows[0]["fold"], rows[0]["split"]) for rows in keys] == [(f, s) for f in range(1, 6) for s in SPLITS]
    assert all(len({tuple(row.items()) for row in rows}) == 1 for rows in keys)


@pytest.mark.parametrize("rows", [10, 12])
def test_features_of_another_number_of_rows_are_refused(lists: Path, rows: int) -> None:
    table = read_table(lists, "lists")
    vectors = table.column("features").to_pylist()
    vectors[0] = vectors[0] + vectors[0][:1] if rows == 12 else vectors[0][1:]
    features = pa.array(vectors, table.schema.field("features").type)
    changed = table.set_column(table.schema.names.index("features"), "features", features)
    write_table(changed, lists, "lists", [2, 3], PARTS)
    with pytest.raises(DataError, match=rf"lists\.parquet: column 'features' has {rows} rows, column 'relevance' 11"):
        read_features(lists)


def test_lists_have_their_own_folds(lists: Path, tmp_path: Path) -> None:
    others = read_table(lists, "lists").set_column(0, "topic", [["q1", "q0", "q2", "q3", "q4"]])
    write_table(others, tmp_path / "others.parquet", "lists", metadata=PARTS)
    split_lists(tmp_path / "others.parquet", tmp_path / "folds.parquet", "toy")
    with pytest.raises(DataError, match=r"folds\.parquet: its topics are not those of .*lists\.parquet"):
        sampled_lists(lists, 1)


MADE_WITH = {"threshold": 4.0, "min_relevant": 10}


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """Generated ratings and their folds."""
    generate("synthetic-movielens", tmp_path / "ratings.parquet", seed=0, size="12")
    split_ratings(tmp_path / "ratings.parquet", tmp_path / "folds.parquet", "x", seed=0, **MADE_WITH)  # type: ignore[arg-type]
    return tmp_path / "ratings.parquet"


def sampled_ratings(ratings: Path, dataset: str = "synthetic-movielens", nsr: int = 2, **changed: float) -> FoldedLists:
    folds, out = ratings.with_name("folds.parquet"), ratings.with_name("instances.parquet")
    drawing = Drawing(dataset, nsr, 0.1, 0)
    sample_interactions(ratings, folds, out, drawing=drawing, checked={**MADE_WITH, **changed})
    return read_instances(out)


def test_the_same_inputs_give_the_same_bytes_and_other_options_are_refused(ratings: Path) -> None:
    """The synthetic label is inherited; arrays are views of Arrow's."""
    contents = []
    for nsr in (2, 2, 1):
        sampled_ratings(ratings, nsr=nsr)
        contents.append(ratings.with_name("instances.parquet").read_bytes())
    assert contents[0] == contents[1] != contents[2]
    message = r"folds\.parquet: the folds were made with min_relevant 10, but the options have 9: make the folds anew"
    with pytest.raises(DataError, match=message):
        sampled_ratings(ratings, min_relevant=9)
    instances = sampled_ratings(ratings)
    test = instances.split(1, "test")
    assert not any(array.flags.owndata or array.flags.writeable for array in (test.items, test.relevance))
    assert (test.items.dtype, test.relevance.dtype, test.offsets.dtype) == (np.int64, np.int8, np.int64)
    for name, contract in (("folds", "interaction-folds"), ("instances", "instances")):
        assert "rankbound.synthetic" in read_metadata(ratings.with_name(f"{name}.parquet"), contract)
    with pytest.raises(ConfigError, match="is synthetic, so its data set cannot be named 'movielens'"):
        sampled_ratings(ratings, dataset="movielens")


# Files that contradict themselves

GOOD = pa.table(
    {
        "dataset": ["toy"] * 3,
        "nsr": pa.array([1] * 3, pa.int8()),
        "fold": pa.array([1, 1, 2], pa.int8()),
        "split": ["train", "train", "test"],
        "topic": ["a", "b", "a"],
        "items": pa.array([[0, 3], [1], [2]], pa.list_(pa.int64())),
        "relevance": list_column([[1, 0], [1], [0]]),
    }
)


def read(path: Path, table: pa.Table = GOOD, **notes: str) -> FoldedLists:
    write_table(table, path, "instances", metadata=notes or {"rankbound.item_count": "4"})
    return read_instances(path)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("relevance", list_column([[1], [1, 0], [0]]), r"fold 1, train: .*'items' and 'relevance' differ in length"),
        ("relevance", list_column([[1, 0], [-1], [0]]), r"fold 1, train: column 'relevance' holds -1"),
        ("items", pa.array([[0, 3], [1], [4]]), r"fold 2, test: column 'items' holds an index outside 0 \.\. 3"),
        ("items", pa.array([[0, 3], [-1], [2]]), r"fold 1, train: column 'items' holds an index outside"),
        ("topic", pa.array(["a", "a", "a"]), r"fold 1, train: a topic has more than one list"),
        ("split", pa.array(["train", "dev", "test"]), r"column 'split' holds 'dev'; expected one of train"),
        ("dataset", pa.array(["toy", "toy", "other"]), r"column 'dataset' should have one value, found \['toy', 'oth"),
        ("fold", pa.array([1, 2, 1], pa.int8()), ""),
        ("split", pa.array(["train", "test", "train"]), ""),
    ],
)
def test_contradictory_files_are_refused(tmp_path: Path, column: str, values: pa.Array, message: str) -> None:
    table = GOOD.set_column(GOOD.column_names.index(column), column, values)
    if not message:
        assert len(read(tmp_path / "x.parquet", table).splits) == 3
        return
    with pytest.raises(DataError, match=rf"x\.parquet.*{message}"):
        read(tmp_path / "x.parquet", table)


def test_a_count_a_split_and_the_order_of_rows_are_needed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the rows of fold 1, split 'train' are not contiguous"):
        read(tmp_path / "x.parquet", GOOD.take([0, 2, 1]))
    with pytest.raises(DataError, match=r"'rankbound\.item_count' should be the number of items"):
        read(tmp_path / "x.parquet", other="4")
    with pytest.raises(DataError, match=r"toy: no lists of fold 2, split 'train'; the folds are 1, 2"):
        read(tmp_path / "x.parquet").split(2, "train")


# Merging

flat_lists = st.dictionaries(st.integers(0, 5), st.sets(st.integers(0, 9)), max_size=4)


def as_split(lists: dict[int, set[int]]) -> Split:
    items = np.array([item for one in lists.values() for item in sorted(one)], dtype=np.int64)
    offsets = np.cumsum([0, *(len(one) for one in lists.values())])
    return Split(np.array(list(lists), dtype=np.int64), items, (items // 2 % 2).astype(np.int8), offsets)


@given(flat_lists, flat_lists)
def test_merging_is_the_union_per_topic(train: dict[int, set[int]], other: dict[int, set[int]]) -> None:
    even = {topic: {2 * item for item in items} for topic, items in train.items()}
    odd = {topic: {2 * item + 1 for item in items} for topic, items in other.items()}
    both = merge(as_split(even), as_split(odd))
    bounds = pairwise(both.offsets)
    found = {int(topic): both.items[a:b].tolist() for topic, (a, b) in zip(both.topics, bounds, strict=True)}
    assert found == {topic: sorted(even.get(topic, set()) | odd.get(topic, set())) for topic in even | odd}
    np.testing.assert_array_equal(both.relevance, both.items // 2 % 2)


# Pairs

Pair = tuple[int, int, int, int, int]
"""Topic, better item, its grade, worse item, its grade."""


def random_split(seed: int = 0, lists: int = 12) -> Split:
    random = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(random.integers(0, 8, lists))))
    items = random.permutation(1000)[: offsets[-1]]
    return Split(100 + np.arange(lists), items, random.integers(0, 3, offsets[-1]).astype(np.int8), offsets)


def all_pairs(split: Split) -> set[Pair]:
    """By two loops."""
    graded = list(zip(split.items.tolist(), split.relevance.tolist(), strict=True))
    return {
        (topic, *one, *other)
        for topic, places in split.slices()
        for one in graded[places]
        for other in graded[places]
        if one[1] > other[1]
    }


def as_pairs(pairs: Split) -> list[Pair]:
    """Two-item lists, better item first."""
    order = np.argsort(-pairs.relevance.reshape(-1, 2), axis=1)
    items, grades = (
        np.take_along_axis(one.reshape(-1, 2), order, 1).T.tolist() for one in (pairs.items, pairs.relevance)
    )
    return list(zip(pairs.topics.tolist(), items[0], grades[0], items[1], grades[1], strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_all_pairs_of_lists_are_those_of_two_loops(seed: int) -> None:
    split = random_split(seed)
    pairs = pairs_of_lists(split)
    assert (pairs.sizes == 2).all()
    assert len(pairs) == len(all_pairs(split)) > 10
    assert (pairs.relevance[::2] > pairs.relevance[1::2]).all()
    turned = pairs_of_lists(split, random=np.random.default_rng(0))
    assert set(as_pairs(pairs)) == set(as_pairs(turned)) == all_pairs(split)
    assert 0.2 < (turned.relevance[::2] > turned.relevance[1::2]).mean() < 0.8


def test_drawn_pairs_are_as_likely_and_there_have_to_be_some() -> None:
    split = random_split(1)
    every = sorted(all_pairs(split))
    random, counts = np.random.default_rng(0), dict.fromkeys(every, 0)
    for _ in range(400):
        found = as_pairs(pairs_of_lists(split, 10, random))
        assert len(set(found)) == len(found) == 10
        for pair in found:
            counts[pair] += 1
    expected = 400 * 10 / len(every)
    assert max(abs(count - expected) for count in counts.values()) < 5 * expected**0.5
    assert set(as_pairs(pairs_of_lists(split, 10_000, random))) == set(every)
    split = random_split()
    with pytest.raises(ValueError, match=r"^count: found 3 with random None"):
        pairs_of_lists(split, 3)
    with pytest.raises(ValueError, match=r"^split: none of its 12 lists has two items of different relevance"):
        pairs_of_lists(replace(split, relevance=np.ones_like(split.relevance)))
    with pytest.raises(ValueError, match=r"^split: none of its 0 lists"):
        pairs_of_lists(as_split({}))
