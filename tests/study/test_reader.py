"""From judged lists or ratings to what training reads, and back as flat arrays."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rankbound.errors import ConfigError, DataError
from rankbound_study.data.contracts import PARTS_KEY, read_metadata, read_table, write_table
from rankbound_study.data.negatives import Drawing
from rankbound_study.data.reader import FoldedLists, Split, merge, read_features, read_instances, read_item_names
from rankbound_study.data.sampling import label_dataset, sample_interactions, sample_lists
from rankbound_study.data.splits import ListSplitting, RatingSplitting, split_lists, split_ratings

LABELS = [[2, 0, 1], [0, 0], [1, 2, 0], [2], [0, 2]]
WIDTH = 2
PARTS = json.dumps({f"S{part + 1}": [[part, part + 1]] for part in range(5)})


def list_column(values: list[list[int]]) -> pa.Array:
    return pa.array(values, pa.list_(pa.int8()))


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Five queries, one in each part; the features of row r are r and -r."""
    sizes = [len(labels) for labels in LABELS]
    offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32))
    rows = np.arange(sum(sizes), dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.stack((rows, -rows), axis=1).ravel()), WIDTH)
    table = pa.table(
        {
            "topic": [f"q{query}" for query in range(5)],
            "items": pa.ListArray.from_arrays(offsets, pa.array([f"d{row}" for row in range(len(rows))])),
            "relevance": list_column(LABELS),
            "features": pa.ListArray.from_arrays(offsets, vectors),
        }
    )
    write_table(table, tmp_path / "lists.parquet", "lists", [2, 3], {PARTS_KEY: PARTS})
    split_lists(tmp_path / "lists.parquet", tmp_path / "folds.parquet", ListSplitting("toy"))
    return tmp_path / "lists.parquet"


def sampled_lists(lists: Path, threshold: int | None) -> FoldedLists:
    out = lists.with_name("instances.parquet")
    dataset = label_dataset("toy", threshold)
    sample_lists(lists, lists.with_name("folds.parquet"), out, dataset=dataset, threshold=threshold)
    return read_instances(out)


def test_letor_parts_turn_into_folds(lists: Path) -> None:
    instances = sampled_lists(lists, threshold=1)
    assert (instances.dataset, instances.nsr, instances.item_count) == ("toy-label1", None, 11)
    assert instances.folds == (1, 2, 3, 4, 5)
    parts = {
        (fold, split): [instances.topics[topic] for topic in instances.split(fold, split).topics]
        for fold in (1, 3, 5)
        for split in ("train", "validation", "test")
    }
    assert parts == {
        (1, "train"): ["q0", "q1", "q2"],
        (1, "validation"): ["q3"],
        (1, "test"): ["q4"],
        (3, "train"): ["q2", "q3", "q4"],
        (3, "validation"): ["q0"],
        (3, "test"): ["q1"],
        (5, "train"): ["q0", "q1", "q4"],
        (5, "validation"): ["q2"],
        (5, "test"): ["q3"],
    }


@pytest.mark.parametrize("threshold", [1, 2])
def test_the_threshold_makes_labels_binary_and_keeps_lists_without_relevant_items(lists: Path, threshold: int) -> None:
    train = sampled_lists(lists, threshold).split(1, "train")
    assert train.relevance.tolist() == [int(label >= threshold) for labels in LABELS[:3] for label in labels]
    assert train.sizes.tolist() == [3, 2, 3]
    assert train.positives.tolist() == ([2, 0, 2] if threshold == 1 else [1, 0, 1])


def test_without_a_threshold_the_labels_are_the_relevance(lists: Path) -> None:
    instances = sampled_lists(lists, threshold=None)
    assert instances.dataset == "toy-graded"
    assert instances.split(1, "train").relevance.tolist() == [label for labels in LABELS[:3] for label in labels]
    assert instances.split(1, "train").positives.tolist() == [2, 0, 2]


def test_items_are_rows_of_the_features(lists: Path) -> None:
    features, names = read_features(lists), read_item_names(lists)
    assert features.dtype == np.float32
    assert features.shape == (11, WIDTH)
    validation = sampled_lists(lists, 1).split(3, "train")
    assert validation.items.tolist() == [5, 6, 7, 8, 9, 10]
    np.testing.assert_array_equal(features[validation.items, 0], validation.items)
    assert [names[item] for item in validation.items[:2]] == ["d5", "d6"]


@pytest.mark.parametrize(
    ("row", "message"), [(1, "has more rows than column 'relevance'"), (0, "has 10 rows, column 'relevance' 11")]
)
def test_features_of_another_number_of_rows_are_refused(lists: Path, row: int, message: str) -> None:
    table = read_table(lists, "lists")
    vectors = table.column("features").to_pylist()
    vectors[0] = vectors[0] + vectors[0][:1] if row else vectors[0][1:]
    features = pa.array(vectors, table.schema.field("features").type)
    changed = table.set_column(table.schema.names.index("features"), "features", features)
    write_table(changed, lists, "lists", [2, 3], {PARTS_KEY: PARTS})
    with pytest.raises(DataError, match=rf"lists\.parquet: column 'features' {message}"):
        read_features(lists)


def test_one_row_group_per_fold_and_split(lists: Path) -> None:
    import pyarrow.parquet as pq

    sampled_lists(lists, 1)
    file = pq.ParquetFile(lists.with_name("instances.parquet"))
    keys = [file.read_row_group(group, ["fold", "split"]).to_pylist() for group in range(file.num_row_groups)]
    assert [(rows[0]["fold"], rows[0]["split"]) for rows in keys] == [
        (fold, split) for fold in range(1, 6) for split in ("train", "validation", "test")
    ]
    assert all(len({tuple(row.items()) for row in rows}) == 1 for rows in keys)


def test_folds_of_other_lists_are_refused(lists: Path, tmp_path: Path) -> None:
    table = read_table(lists, "lists")
    others = table.set_column(0, "topic", [["q1", "q0", "q2", "q3", "q4"]])
    write_table(others, tmp_path / "others.parquet", "lists", metadata={PARTS_KEY: PARTS})
    split_lists(tmp_path / "others.parquet", tmp_path / "folds.parquet", ListSplitting("toy"))
    with pytest.raises(DataError, match=r"folds\.parquet: its topics are not those of .*lists\.parquet"):
        sampled_lists(lists, 1)


def test_a_data_set_of_lists_is_named_by_its_threshold() -> None:
    assert label_dataset("mq2008", 2) == label_dataset("mq2008-label2", 2) == "mq2008-label2"
    assert label_dataset("mslr-web10k", None) == label_dataset("mslr-web10k-graded", None) == "mslr-web10k-graded"
    for name, threshold, reading in (
        ("mq2008-label2", 1, "label1"),
        ("mq2008-label2", None, "graded"),
        ("mq2008-graded", 2, "label2"),
    ):
        with pytest.raises(ConfigError, match=f"named '{name}', but its labels are read as {reading}"):
            label_dataset(name, threshold)


def write_ratings(folder: Path) -> Path:
    """Two users with ten relevant movies each, of sixty with the ids 5, 15, .. 595; a third one rates them all."""
    random = np.random.default_rng(0)
    topic = np.concatenate(([11] * 10, [2] * 10, [30] * 60))
    item = np.concatenate([random.permutation(60)[:10], random.permutation(60)[:10], np.arange(60)]) * 10 + 5
    rating = np.where(topic == 30, 2.0, 4.0)
    table = pa.table({"topic": topic, "item": item, "rating": rating, "timestamp": item})
    write_table(
        table.sort_by([("topic", "ascending"), ("item", "ascending")]), folder / "ratings.parquet", "interactions"
    )
    options = {"dataset": "toy", "threshold": 4.0, "min_relevant": 10, "seed": 0}
    split_ratings(folder / "ratings.parquet", folder / "folds.parquet", RatingSplitting(**options))  # type: ignore[arg-type]
    return folder / "ratings.parquet"


def sampled_ratings(ratings: Path, nsr: int = 2, min_relevant: int = 10, dataset: str = "toy") -> FoldedLists:
    sample_interactions(
        ratings,
        ratings.with_name("folds.parquet"),
        ratings.with_name("instances.parquet"),
        drawing=Drawing(dataset, nsr, 0.1, 0),
        checked={"min_relevant": min_relevant, "threshold": 4.0},
    )
    return read_instances(ratings.with_name("instances.parquet"))


def test_sampled_items_map_back_to_movies(tmp_path: Path) -> None:
    ratings = write_ratings(tmp_path)
    instances = sampled_ratings(ratings)
    assert (instances.nsr, instances.item_count, instances.topics) == (2, 60, ("2", "11"))
    assert instances.item_names == tuple(str(item) for item in range(5, 600, 10))
    rows = read_table(ratings, "interactions").to_pylist()
    for topic, name in enumerate(instances.topics):
        found = set()
        for split in (instances.split(1, "train"), instances.split(1, "validation"), instances.split(1, "test")):
            (place,) = np.flatnonzero(split.topics == topic)
            chosen = slice(split.offsets[place], split.offsets[place + 1])
            found |= {int(instances.item_names[item]) for item in split.items[chosen][split.relevance[chosen] == 1]}
        assert found == {row["item"] for row in rows if row["topic"] == int(name) and row["rating"] >= 4}


def test_folds_made_with_other_options_are_refused(tmp_path: Path) -> None:
    ratings = write_ratings(tmp_path)
    message = r"folds\.parquet: the folds were made with min_relevant 10, but the options have 9: make the folds anew"
    with pytest.raises(DataError, match=message):
        sampled_ratings(ratings, min_relevant=9)


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    ratings = write_ratings(tmp_path)
    contents = []
    for _ in range(2):
        sampled_ratings(ratings)
        contents.append((tmp_path / "instances.parquet").read_bytes())
    assert contents[0] == contents[1]
    sampled_ratings(ratings, nsr=1)
    assert (tmp_path / "instances.parquet").read_bytes() != contents[0]


def test_arrays_are_views_of_arrow(tmp_path: Path) -> None:
    test = sampled_ratings(write_ratings(tmp_path)).split(1, "test")
    for array in (test.items, test.relevance):
        assert array.base is not None
        assert not array.flags.owndata
        assert not array.flags.writeable
    assert (test.items.dtype, test.relevance.dtype, test.offsets.dtype) == (np.int64, np.int8, np.int64)


def test_merging_joins_the_lists_of_a_topic() -> None:
    train = Split(np.array([4, 1]), np.array([3, 9, 2, 5]), np.array([1, 0, 1, 0], np.int8), np.array([0, 2, 4]))
    other = Split(np.array([1, 6]), np.array([4, 1, 7]), np.array([1, 0, 1], np.int8), np.array([0, 2, 3]))
    both = merge(train, other)
    assert both.topics.tolist() == [1, 4, 6]
    lists = [both.items[start:stop].tolist() for start, stop in pairwise(both.offsets)]
    assert lists == [[1, 2, 4, 5], [3, 9], [7]]
    assert both.relevance.tolist() == [0, 1, 1, 0, 1, 0, 1]


def test_all_list_shapes_are_known_for_the_tables(lists: Path) -> None:
    assert sampled_lists(lists, 1).pairs() == {(3, 2), (1, 1), (2, 1)}


def good_instances() -> pa.Table:
    return pa.table(
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
        ("fold", pa.array([1, 2, 1], pa.int8()), None),
        ("split", pa.array(["train", "test", "train"]), None),
    ],
)
def test_files_that_contradict_themselves_are_refused(
    tmp_path: Path, column: str, values: pa.Array, message: str | None
) -> None:
    table = good_instances()
    write_table(
        table.set_column(table.column_names.index(column), column, values),
        tmp_path / "x.parquet",
        "instances",
        metadata={"rankbound.item_count": "4"},
    )
    if message is None:
        assert len(read_instances(tmp_path / "x.parquet").splits) == 3
        return
    with pytest.raises(DataError, match=rf"x\.parquet.*{message}"):
        read_instances(tmp_path / "x.parquet")


def test_rows_of_a_split_must_stand_together(tmp_path: Path) -> None:
    table = good_instances().take([0, 2, 1])
    write_table(table, tmp_path / "x.parquet", "instances", metadata={"rankbound.item_count": "4"})
    with pytest.raises(DataError, match="the rows of fold 1, split 'train' are not contiguous"):
        read_instances(tmp_path / "x.parquet")


def test_a_missing_count_or_split_is_named(tmp_path: Path) -> None:
    write_table(good_instances(), tmp_path / "x.parquet", "instances")
    with pytest.raises(DataError, match=r"'rankbound\.item_count' should be the number of items"):
        read_instances(tmp_path / "x.parquet")
    write_table(good_instances(), tmp_path / "x.parquet", "instances", metadata={"rankbound.item_count": "4"})
    with pytest.raises(DataError, match=r"toy: no lists of fold 2, split 'train'; the folds are 1, 2"):
        read_instances(tmp_path / "x.parquet").split(2, "train")


def test_the_synthetic_label_is_inherited_and_cannot_be_dropped(tmp_path: Path) -> None:
    from rankbound_study.data.synthetic import generate

    generate("synthetic-movielens", tmp_path / "ratings.parquet", seed=0, size="12")
    options = {"threshold": 4.0, "min_relevant": 10, "seed": 0}
    split_ratings(tmp_path / "ratings.parquet", tmp_path / "folds.parquet", RatingSplitting(dataset="x", **options))  # type: ignore[arg-type]
    assert sampled_ratings(tmp_path / "ratings.parquet", dataset="synthetic-movielens").synthetic
    assert "rankbound.synthetic" in read_metadata(tmp_path / "folds.parquet", "interaction-folds")
    with pytest.raises(ConfigError, match="is synthetic, so its data set cannot be named 'movielens'"):
        sampled_ratings(tmp_path / "ratings.parquet", dataset="movielens")
