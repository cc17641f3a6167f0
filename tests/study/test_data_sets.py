"""Data sets, real ones and stand-ins: the published sizes and shares, and what can be learnt of planted ones."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pytest
from scipy.special import ndtri

import rankbound as rb
from rankbound.errors import ConfigError
from rankbound.io.fetch import MIRROR_VARIABLE
from rankbound_study.cli import main
from rankbound_study.commands.data import fetched
from rankbound_study.config.sections.data import PlantedKeys
from rankbound_study.config.sections.description import known_sets
from rankbound_study.data import judged_files
from rankbound_study.data import ratings as ratings_files
from rankbound_study.data.contracts import PARTS_KEY, contract_of, read_metadata, read_table
from rankbound_study.data.reader import FoldedLists, Split, merge, read_features, read_instances
from rankbound_study.data.sampling import Drawing, sample_interactions, sample_lists
from rankbound_study.data.sources import SOURCES, RawFiles
from rankbound_study.data.splits import split_lists, split_ratings
from rankbound_study.data.synthetic import Population, _ratings, generate
from tests.library.refusals import problems


def test_stand_ins_have_the_published_sizes_and_shares(tmp_path: Path) -> None:
    generate("synthetic-movielens", tmp_path / "x.parquet", seed=0, size="full")
    table = read_table(tmp_path / "x.parquet", "interactions")
    topic, rating = table.column("topic").to_numpy(), table.column("rating").to_numpy()
    assert len(np.unique(topic)) == 610
    assert 90_000 < len(topic) < 120_000
    assert 8_000 < len(np.unique(table.column("item").to_numpy())) <= 9_724
    assert set(np.unique(rating)) == set(np.arange(0.5, 5.5, 0.5))
    _, positives = np.unique(topic[rating >= 4], return_counts=True)
    positives = positives[positives >= 25]
    assert len(positives) == 412
    assert 900 < positives.max() <= 1_227
    assert 50 < np.median(positives) < 85
    assert 40_000 < positives.sum() < 52_000
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


@pytest.mark.parametrize("dataset", ["synthetic-movielens", "synthetic-mq2008", "synthetic-aaf"])
def test_the_same_seed_gives_the_same_bytes_and_the_label(tmp_path: Path, dataset: str) -> None:
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        generate(dataset, tmp_path / name, seed, "20")
    contents = [(tmp_path / name).read_bytes() for name in ("one", "two", "other")]
    assert contents[0] == contents[1] != contents[2]
    contract = contract_of(tmp_path / "one", ("interactions", "lists", "images"))
    metadata = read_metadata(tmp_path / "one", contract)
    assert json.loads(metadata["rankbound.synthetic"]) == {"dataset": dataset, "seed": 3, "topics": 20}
    assert metadata["rankbound.dataset"] == dataset


def area_under_curve(scores: npt.NDArray[np.float64], split: Split) -> float:
    """The mean share of pairs in order, over the lists that have any: 1/2 for a random order, 1 for an oracle."""
    return float(np.nanmean(rb.metric("PairAccuracy")(scores, split.relevance, split.offsets)))


def training(instances: FoldedLists) -> Split:
    return merge(instances.split(1, "train"), instances.split(1, "validation"))


@pytest.mark.parametrize("seed", [0, 1])
def test_models_learn_the_stand_ins_in_part(tmp_path: Path, seed: int) -> None:
    """A low-rank model beats popularity, and that chance; a linear model learns judged lists."""
    data, folds, out, name = (tmp_path / "data", tmp_path / "folds", tmp_path / "instances", "synthetic-movielens")
    generate(name, data, seed, "demo")
    split_ratings(data, folds, name, threshold=4, min_relevant=25, seed=0)
    checked = {"threshold": 4.0, "min_relevant": 25}
    sample_interactions(data, folds, out, drawing=Drawing(name, 3, 0.1, 0), checked=checked)
    instances = read_instances(out)
    assert len(instances.topics) == 60
    train, test = training(instances), instances.split(1, "test")
    counts = np.zeros((60, instances.item_count))
    counts[train.owners, train.items] = train.relevance
    left, singular, right = np.linalg.svd(counts, full_matrices=False)
    low_rank = (left[:, :5] * singular[:5]) @ right[:5]
    popularity = area_under_curve(counts.sum(0)[test.items], test)
    assert 0.7 < popularity < area_under_curve(low_rank[test.owners, test.items], test) - 0.02 < 0.93
    generate("synthetic-mq2008", data, seed, "demo")
    split_lists(data, folds, "synthetic-mq2008")
    features = np.hstack((read_features(data), np.ones((len(read_features(data)), 1)))).astype(np.float64)
    for threshold in (1, 2):
        sample_lists(data, folds, out, dataset="synthetic-mq2008", threshold=threshold)
        instances = read_instances(out)
        train, test = training(instances), instances.split(1, "test")
        rows = features[train.items]
        weights = np.linalg.solve(rows.T @ rows + np.eye(rows.shape[1]), rows.T @ train.relevance)
        assert 0.7 < area_under_curve(features[test.items] @ weights, test) < 0.97


# Planted parameters: the truth holds by construction

USERS = 200


def population(**parameters: float) -> Population:
    return Population.drawn(np.random.default_rng(0), USERS, PlantedKeys.model_validate(parameters))


@pytest.mark.parametrize("spread", [0, 0.5, 1.0, 1.5])
def test_sizes_have_the_planted_spread_and_one_mean(spread: float) -> None:
    drawn = population(spread=spread)
    assert np.log(drawn.relevant).std() == pytest.approx(spread, abs=0.01)
    assert drawn.relevant.mean() == pytest.approx(175, abs=1)
    assert drawn.relevant.min() >= 5


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_the_minority_is_as_large_as_planted_and_as_correlated(correlation: float) -> None:
    drawn = population(spread=1, correlation=correlation)
    assert drawn.minority.sum() == 50
    place = np.argsort(np.argsort(drawn.relevant))
    if correlation == 1:
        assert (drawn.minority == (place >= 150)).all()
    # The mean normal score of the largest quarter of a standard normal variable is 1.271.
    scores = ndtri((place + 0.5) / USERS)
    assert scores[drawn.minority].mean() == pytest.approx(1.271 * correlation, abs=0.2)


def test_kinds_of_taste_share_no_dimension_and_parameters_change_nothing_else() -> None:
    drawn = population(rank=6)
    used = drawn.tastes != 0
    assert (used == (drawn.minority[:, None] == (np.arange(6) < 3))).all()
    utilities = np.array(list(drawn.utilities()))
    assert np.linalg.matrix_rank(utilities) == 6
    assert np.linalg.matrix_rank(utilities[drawn.minority]) == 3
    assert np.linalg.matrix_rank(np.array(list(population(rank=6, popularity=1).utilities()))) == 7
    one, other = population(spread=0, correlation=1), population(spread=1.5, correlation=1)
    same = {name: (getattr(one, name) == getattr(other, name)).all() for name in vars(one)}
    assert {name for name, equal in same.items() if not equal} == {"relevant"}


def relevant_items(utility: np.ndarray, count: int, users: int) -> np.ndarray:
    """The share of users of one utility to whom each item is relevant."""
    random = np.random.default_rng(3)
    table = _ratings(random, np.full(users, count), [utility] * users)
    good = table.column("rating").to_numpy() >= 4
    items = (table.column("item").to_numpy()[good] - 1) // 3
    return np.bincount(items, minlength=len(utility)) / users


def test_items_of_larger_utility_are_more_likely_to_be_relevant() -> None:
    """Without noise, those of largest utility are."""
    utility = np.random.default_rng(1).standard_normal(40)
    share = relevant_items(1e9 * utility, 7, 2)
    assert set(np.flatnonzero(share == 1)) == set(np.argsort(-utility)[:7])
    utility = np.linspace(2, -2, 9)
    share = relevant_items(utility, 3, 4000)
    # The order by utility is Bayes-optimal: 4000 draws separate neighbours that differ by 0.5.
    assert (np.diff(share) < 0).all()
    assert share.sum() == pytest.approx(3)
    loud = relevant_items(utility / 4, 3, 4000)
    assert loud.max() - loud.min() < 0.7 * (share.max() - share.min())


def test_the_step_writes_the_data_set_with_its_parameters(tmp_path: Path) -> None:
    out = tmp_path / "x.parquet"
    planted = '{"spread": 1, "items": 500, "mean_relevant": 20}'
    main(["generate", "synthetic-wide", "--size", "30", "--seed", "2", "--planted", planted, "--out", str(out)])
    table = read_table(out, "interactions")
    assert len(np.unique(table.column("topic").to_numpy())) == 30
    stated = json.loads(read_metadata(out, "interactions")["rankbound.synthetic"])
    assert stated["planted"] == PlantedKeys(spread=1, items=500, mean_relevant=20).model_dump()
    # A name is no parameter.
    generate("synthetic-other", tmp_path / "y.parquet", 2, "30", PlantedKeys(spread=1, items=500, mean_relevant=20))
    assert table.equals(read_table(tmp_path / "y.parquet", "interactions"))


@pytest.mark.parametrize(("dataset", "size", "planted", "message"), problems("generated data"))
def test_other_names_and_sizes_fail(tmp_path: Path, dataset: str, size: str, planted: Any, message: str) -> None:
    keys = None if planted is None else PlantedKeys.model_validate(planted)
    with pytest.raises(ConfigError, match=message):
        generate(dataset, tmp_path / "x", 0, size, keys)


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"rank": 3}', "rank is 3: expected a multiple of 2"), ('{"sprad": 1}', "sprad"), ('{"spread": -1}', "spread")],
)
def test_wrong_parameters_are_refused(tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture) -> None:
    status = main(["generate", "synthetic-wide", "--size", "20", "--planted", text, "--out", str(tmp_path / "x")])
    assert status
    assert message in capsys.readouterr().err


# The real data sets, where a mirror holds their archives

needs_mirror = pytest.mark.skipif(
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
    judged_files.convert(RawFiles(SOURCES["mq2008"], [raw]), folder / "lists.parquet")
    return folder / "lists.parquet"


@pytest.fixture(scope="module")
def ratings(folder: Path) -> Path:
    raw = fetched(SOURCES["movielens"], folder / "ml-latest-small.zip")
    ratings_files.convert(RawFiles(SOURCES["movielens"], [raw]), folder / "ratings.parquet")
    return folder / "ratings.parquet"


def shapes(splits: list[Split]) -> set[tuple[int, int]]:
    return {pair for one in splits for pair in zip(one.sizes.tolist(), one.positives.tolist(), strict=True)}


@needs_mirror
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
    assert read_features(lists).shape == (sum(expected["rows"]), known_sets()["mq2008"].features)


@needs_mirror
@pytest.mark.parametrize("threshold", [1, 2])
def test_mq2008_instances_have_the_published_shapes(lists: Path, folder: Path, threshold: int) -> None:
    split_lists(lists, folder / "splits.parquet", "mq2008")
    out = folder / f"label{threshold}.parquet"
    sample_lists(lists, folder / "splits.parquet", out, dataset="mq2008", threshold=threshold)
    instances = read_instances(out)
    assert len(instances.pairs()) == EXPECTED["mq2008"]["distinct_n_and_p"][str(threshold)]
    queries = EXPECTED["mq2008"]["queries"]
    for fold in instances.folds:
        after = [queries[(fold - 1 + step) % 5] for step in range(5)]
        found = [len(instances.split(fold, split)) for split in ("train", "validation", "test")]
        assert found == [sum(after[:3]), after[3], after[4]]


@needs_mirror
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


@needs_mirror
def test_citeulike_has_the_splits_of_its_files(folder: Path) -> None:
    """2,465 users with at least 25 articles, of which each of three splits tests on a fifth."""
    described, interactions, folds = known_sets()["citeulike-a"], folder / "articles.parquet", folder / "splits.parquet"
    raw = fetched(SOURCES["citeulike-a"], folder / "citeulike-a-sigir21.zip")
    ratings_files.convert(RawFiles(SOURCES["citeulike-a"], [raw]), interactions)
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
