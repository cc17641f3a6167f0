"""The real data sets have the counts that were published for them; runs only where a mirror holds the archives."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankbound.io.fetch import MIRROR_VARIABLE
from rankbound_study.commands.data import fetched
from rankbound_study.config.sections.description import known_set
from rankbound_study.data import judged_files
from rankbound_study.data import ratings as ratings_files
from rankbound_study.data.contracts import PARTS_KEY, read_metadata, read_table
from rankbound_study.data.reader import Split, merge, read_features, read_instances
from rankbound_study.data.sampling import Drawing, sample_interactions, sample_lists
from rankbound_study.data.sources import SOURCES, RawFile
from rankbound_study.data.splits import split_lists, split_ratings

pytestmark = pytest.mark.skipif(
    not os.environ.get(MIRROR_VARIABLE),
    reason=f"{MIRROR_VARIABLE} is not set: the real archives are licensed and not part of the project",
)
EXPECTED = json.loads((Path(__file__).parents[1] / "reference" / "data_sets.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real")


@pytest.fixture(scope="module")
def lists(folder: Path) -> Path:
    raw = fetched(SOURCES["mq2008"], folder / "MQ2008.zip")
    judged_files.convert(RawFile(SOURCES["mq2008"], raw), folder / "lists.parquet")
    return folder / "lists.parquet"


@pytest.fixture(scope="module")
def ratings(folder: Path) -> Path:
    raw = fetched(SOURCES["movielens"], folder / "ml-latest-small.zip")
    ratings_files.convert(RawFile(SOURCES["movielens"], raw), folder / "ratings.parquet")
    return folder / "ratings.parquet"


def shapes(splits: list[Split]) -> set[tuple[int, int]]:
    return {pair for one in splits for pair in zip(one.sizes.tolist(), one.positives.tolist(), strict=True)}


def test_mq2008_has_the_published_rows_and_labels(lists: Path, folder: Path) -> None:
    expected: dict[str, Any] = EXPECTED["mq2008"]
    ends = [limits for ranges in json.loads(read_metadata(lists, "lists")[PARTS_KEY]).values() for limits in ranges]
    relevance = read_table(lists, "lists", ["relevance"]).column("relevance").to_pylist()
    for index in range(5):
        labels = relevance[slice(*ends[index])]
        assert len(labels) == expected["queries"][index]
        assert sum(len(one) for one in labels) == expected["rows"][index]
        assert np.bincount(np.concatenate(labels)).tolist() == expected["labels"][index]
        assert sum(max(one) == 0 for one in labels) == expected["queries_without_label_above_0"][index]
    sizes = [len(one) for one in relevance]
    assert [min(sizes), np.median(sizes), max(sizes)] == expected["documents_per_query"]
    assert sum(size > 100 for size in sizes) == expected["lists_above_100"]
    assert sum(max(one) < 2 for one in relevance) == expected["queries_without_label_2"]
    assert read_features(lists).shape == (sum(expected["rows"]), known_set("mq2008").features)


@pytest.mark.parametrize("threshold", [1, 2])
def test_mq2008_instances_have_the_published_shapes(lists: Path, folder: Path, threshold: int) -> None:
    split_lists(lists, folder / "splits.parquet", "mq2008")
    out = folder / f"label{threshold}.parquet"
    sample_lists(lists, folder / "splits.parquet", out, dataset=f"mq2008-label{threshold}", threshold=threshold)
    instances = read_instances(out)
    assert len(instances.pairs()) == EXPECTED["mq2008"]["distinct_n_and_p"][str(threshold)]
    queries = EXPECTED["mq2008"]["queries"]
    for fold in instances.folds:
        after = [queries[(fold - 1 + step) % 5] for step in range(5)]
        found = [len(instances.split(fold, split)) for split in ("train", "validation", "test")]
        assert found == [sum(after[:3]), after[3], after[4]]


@pytest.mark.parametrize("nsr", [1, 2, 3])
def test_movielens_has_the_published_users_and_items(ratings: Path, folder: Path, nsr: int) -> None:
    expected: dict[str, Any] = EXPECTED["movielens"]
    table = read_table(ratings, "interactions")
    assert len(table) == expected["ratings"]
    assert len(np.unique(table.column("topic").to_numpy())) == expected["users"]
    folds, out = folder / "folds.parquet", folder / f"nsr{nsr}.parquet"
    split_ratings(ratings, folds, "movielens", threshold=4, min_relevant=25, seed=0)
    checked = {"threshold": 4, "min_relevant": 25}
    sample_interactions(ratings, folds, out, drawing=Drawing("movielens", nsr, 0.1, 0), checked=checked)
    instances = read_instances(out)
    assert (len(instances.topics), instances.item_count) == (expected["users_kept"], expected["rated_movies"])
    tests = [instances.split(fold, "test") for fold in instances.folds]
    trains = [merge(instances.split(fold, "train"), instances.split(fold, "validation")) for fold in instances.folds]
    relevant = np.sum([test.positives for test in tests], axis=0)
    assert [relevant.min(), np.median(relevant), relevant.max()] == expected["relevant"]
    assert relevant.sum() == expected["relevant_sum"]
    in_test = np.concatenate([test.positives for test in tests])
    assert [in_test.min(), in_test.max()] == expected["relevant_in_test"]
    assert len(np.unique(in_test)) == expected["relevant_in_test_distinct"]
    assert min(train.positives.min() for train in trains) == expected["fewest_relevant_in_training"]
    assert len(shapes(tests + trains)) == expected["distinct_n_and_p_at_each_nsr"]
    for split in tests + trains:
        np.testing.assert_array_equal(split.sizes, (nsr + 1) * split.positives)


def test_citeulike_has_the_splits_of_its_files(folder: Path) -> None:
    """2,465 users with at least 25 articles, of which each of three splits tests on a fifth."""
    described, interactions, folds = known_set("citeulike-a"), folder / "articles.parquet", folder / "splits.parquet"
    raw = fetched(SOURCES["citeulike-a"], folder / "citeulike-a-sigir21.zip")
    ratings_files.convert(RawFile(SOURCES["citeulike-a"], raw), interactions)
    made_with = {"threshold": 1, "min_relevant": 25}
    assert not split_ratings(interactions, folds, "citeulike-a", seed=0, **made_with, **described.splitting)
    out = folder / "articles-nsr1.parquet"
    sample_interactions(interactions, folds, out, drawing=Drawing("citeulike-a", 1, 0.1, 0), checked=made_with)
    instances = read_instances(out)
    assert (len(instances.topics), instances.folds) == (2465, (1, 2, 3))
    for fold in instances.folds:
        train, validation, test = (instances.split(fold, split).positives for split in ("train", "validation", "test"))
        everything = train + validation + test
        assert everything.min() >= 25
        assert np.abs(test - 0.2 * everything).max() <= 0.5
        assert (train + validation).sum() == 126_070
        assert test.sum() == 31_457
