"""Stand-ins: the published sizes and shares, and a structure that a model can learn in part."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pytest

from rankbound.errors import ConfigError
from rankbound_study.data.contracts import read_metadata, read_table
from rankbound_study.data.negatives import Drawing
from rankbound_study.data.reader import FoldedLists, Split, merge, read_features, read_instances
from rankbound_study.data.sampling import sample_interactions, sample_lists
from rankbound_study.data.splits import keep_relevant, split_lists, split_ratings
from rankbound_study.data.synthetic import generate


def test_ratings_have_the_published_sizes(tmp_path: Path) -> None:
    generate("synthetic-movielens", tmp_path / "x.parquet", seed=0, size="full")
    table = read_table(tmp_path / "x.parquet", "interactions")
    topic, rating = table.column("topic").to_numpy(), table.column("rating").to_numpy()
    assert len(np.unique(topic)) == 610
    assert 90_000 < len(topic) < 120_000
    assert 8_000 < len(np.unique(table.column("item").to_numpy())) <= 9_724
    assert set(np.unique(rating)) == set(np.arange(0.5, 5.5, 0.5))
    _, positives = np.unique(topic[keep_relevant(topic, rating, 4.0, 25)], return_counts=True)
    assert len(positives) == 412
    assert positives.min() >= 25
    assert 900 < positives.max() <= 1_227
    assert 50 < np.median(positives) < 85
    assert 40_000 < positives.sum() < 52_000


def test_judged_lists_have_the_published_shares(tmp_path: Path) -> None:
    generate("synthetic-mq2008", tmp_path / "x.parquet", seed=0, size="full")
    table = read_table(tmp_path / "x.parquet", "lists")
    assert len(table) == 784
    parts = json.loads(read_metadata(tmp_path / "x.parquet", "lists")["rankbound.parts"])
    assert {part: last - first for part, ((first, last),) in parts.items()} == {
        **dict.fromkeys(("S1", "S2", "S3", "S4"), 157),
        "S5": 156,
    }
    sizes = pc.list_value_length(table.column("relevance")).to_numpy()
    assert (sizes.min(), sizes.max()) == (5, 121)
    assert 7 <= np.median(sizes) <= 10
    labels = table.column("relevance").to_pylist()
    shares = np.bincount(np.concatenate(labels)) / sizes.sum()
    np.testing.assert_allclose(shares, [0.807, 0.132, 0.061], atol=0.03)
    assert 0.24 < np.mean([max(one) == 0 for one in labels]) < 0.32
    assert all(min(one) == 0 for one in labels)
    features = read_features(tmp_path / "x.parquet")
    assert features.shape == (sizes.sum(), 46)
    assert (features.min(), features.max()) == (0, 1)


@pytest.mark.parametrize("dataset", ["synthetic-movielens", "synthetic-mq2008"])
def test_the_same_seed_gives_the_same_bytes_and_the_label(tmp_path: Path, dataset: str) -> None:
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        generate(dataset, tmp_path / name, seed, "20")
    contents = [(tmp_path / name).read_bytes() for name in ("one", "two", "other")]
    assert contents[0] == contents[1] != contents[2]
    contract = "interactions" if dataset == "synthetic-movielens" else "lists"
    metadata = read_metadata(tmp_path / "one", contract)
    assert json.loads(metadata["rankbound.synthetic"]) == {"dataset": dataset, "seed": 3, "topics": 20}
    assert metadata["rankbound.dataset"] == dataset


@pytest.mark.parametrize(
    ("dataset", "size", "message"),
    [
        ("movielens", "demo", "no synthetic data set 'movielens'; known are synthetic-movielens"),
        ("synthetic-mq2008", "big", "--size is 'big'; expected demo, full, or a number of topics from 10"),
        ("synthetic-mq2008", "9", "--size is '9'"),
        ("synthetic-mq2008", "-9", "--size is '-9'"),
    ],
)
def test_unknown_names_and_sizes_are_refused(tmp_path: Path, dataset: str, size: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        generate(dataset, tmp_path / "x", 0, size)


def area_under_curve(scores: npt.NDArray[np.float64], split: Split) -> float:
    """The mean share of pairs in order, over the lists that have any: 1/2 for a random order, 1 for an oracle."""
    values = []
    for start, stop in zip(split.offsets[:-1], split.offsets[1:], strict=True):
        relevant = split.relevance[start:stop] > 0
        high, low = scores[start:stop][relevant], scores[start:stop][~relevant]
        if len(high) and len(low):
            difference = np.subtract.outer(high, low)
            values.append(float(((difference > 0) + 0.5 * (difference == 0)).mean()))
    return float(np.mean(values))


def training(instances: FoldedLists) -> Split:
    return merge(instances.split(1, "train"), instances.split(1, "validation"))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_low_rank_model_beats_popularity_and_that_beats_chance(tmp_path: Path, seed: int) -> None:
    ratings, folds, out = (tmp_path / name for name in ("ratings", "folds", "instances"))
    name = "synthetic-movielens"
    generate(name, ratings, seed, "demo")
    split_ratings(ratings, folds, name, threshold=4, min_relevant=25, seed=0)
    checked = {"threshold": 4.0, "min_relevant": 25}
    sample_interactions(ratings, folds, out, drawing=Drawing(name, 3, 0.1, 0), checked=checked)
    instances = read_instances(out)
    assert len(instances.topics) == 60
    train, test = training(instances), instances.split(1, "test")
    counts = np.zeros((60, instances.item_count))
    counts[np.repeat(train.topics, train.sizes), train.items] = train.relevance
    left, singular, right = np.linalg.svd(counts, full_matrices=False)
    low_rank = (left[:, :5] * singular[:5]) @ right[:5]
    owner = np.repeat(test.topics, test.sizes)
    popularity = area_under_curve(counts.sum(0)[test.items], test)
    model = area_under_curve(low_rank[owner, test.items], test)
    assert 0.7 < popularity < model - 0.02
    assert model < 0.95


@pytest.mark.parametrize("seed", [0, 1])
def test_a_linear_model_learns_the_judged_lists_in_part(tmp_path: Path, seed: int) -> None:
    lists, folds, out = (tmp_path / name for name in ("lists", "folds", "instances"))
    generate("synthetic-mq2008", lists, seed, "demo")
    split_lists(lists, folds, "synthetic-mq2008")
    features = np.hstack((read_features(lists), np.ones((len(read_features(lists)), 1)))).astype(np.float64)
    for threshold in (1, 2):
        sample_lists(lists, folds, out, dataset=f"synthetic-mq2008-label{threshold}", threshold=threshold)
        instances = read_instances(out)
        train, test = training(instances), instances.split(1, "test")
        rows = features[train.items]
        weights = np.linalg.solve(rows.T @ rows + np.eye(rows.shape[1]), rows.T @ train.relevance)
        assert 0.7 < area_under_curve(features[test.items] @ weights, test) < 0.97
