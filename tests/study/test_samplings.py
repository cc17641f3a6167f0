"""Samplings of irrelevant items: what each takes, from where, how often, and how its data sets are called."""

import json
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError
from scipy.stats import chisquare

from rankbound.errors import DataError
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.lines import merged
from rankbound_study.config.samplings import EVERY, FULL, POPULARITY, UNIFORM, SampledName, Sampling, sampled_name
from rankbound_study.config.sections.data import InteractionKeys
from rankbound_study.config.study import Study
from rankbound_study.data.contracts import CONTRACTS, SPLITS
from rankbound_study.data.negatives import Drawing, Ratings, RelevantPairs, sampled_instances, weighted_draw
from rankbound_study.data.reader import merge, read_instances
from rankbound_study.data.sampling import sample_interactions
from rankbound_study.data.splits import RatingSplitting, split_relevant

ROOT = Path(__file__).resolve().parents[2]
USERS, ITEMS, RELEVANT = 6, 120, 25
DRAWING = Drawing("toy", 2, 0.1, 0)
WAYS = [
    *(replace(DRAWING, sampling=one, nsr=2 if one.draws else None) for one in EVERY),
    replace(DRAWING, nsr=(1, 2)),
    replace(DRAWING, nsr=0),
]


def make_pairs() -> RelevantPairs:
    """Users with 25 relevant and 7 other rated items each; items with low numbers have most ratings."""
    random = np.random.default_rng(5)
    weights = 1 / (1 + np.arange(ITEMS))
    topic = np.repeat(np.arange(USERS), RELEVANT + 7).astype(np.int32)
    item = np.concatenate(
        [random.choice(ITEMS, RELEVANT + 7, replace=False, p=weights / weights.sum()) for _ in range(USERS)]
    )
    is_relevant = np.arange(len(item)) % (RELEVANT + 7) < RELEVANT
    own = topic[is_relevant]
    pairs = RelevantPairs(own, item[is_relevant], split_relevant(own, "toy", 0), ITEMS, ratings=Ratings(topic, item))
    order = np.lexsort((pairs.item, pairs.topic))
    return replace(pairs, item=pairs.item[order])


PAIRS = make_pairs()

Lists = dict[tuple[int, str], dict[str, tuple[set[int], set[int]]]]


def lists_of(drawing: Drawing, pairs: RelevantPairs = PAIRS) -> Lists:
    """Relevant and other items by fold and user, and by split."""
    found: Lists = {}
    for fold, split, table in sampled_instances(pairs, drawing):
        for row in table.to_pylist():
            items, relevance = np.array(row["items"]), np.array(row["relevance"])
            assert (np.diff(items) > 0).all()
            both = (set(items[relevance == 1].tolist()), set(items[relevance == 0].tolist()))
            found.setdefault((fold, row["topic"]), {})[split] = both
    return found


def relevant_to(user: str) -> set[int]:
    return set(PAIRS.item[int(user) == PAIRS.topic].tolist())


@pytest.mark.parametrize("drawing", WAYS, ids=str)
def test_relevant_items_are_the_same_in_every_sampling_and_never_negatives(drawing: Drawing) -> None:
    usual, made = lists_of(DRAWING), lists_of(drawing)
    assert list(made) == list(usual)
    for (fold, user), splits in made.items():
        for split, (relevant, others) in splits.items():
            assert relevant == usual[fold, user][split][0]
            assert not others & relevant_to(user)


@pytest.mark.parametrize("drawing", WAYS, ids=str)
def test_the_same_seed_draws_the_same_and_another_seed_other_items(drawing: Drawing) -> None:
    assert lists_of(drawing) == lists_of(drawing)
    assert lists_of(replace(drawing, seed=1)) != lists_of(drawing)


@pytest.mark.parametrize("sampling", [one for one in EVERY if one.draws], ids=str)
def test_drawn_parts_are_disjoint_and_have_their_numbers(sampling: Sampling) -> None:
    for (_, user), splits in lists_of(replace(DRAWING, sampling=sampling)).items():
        drawn = [splits[split] for split in SPLITS if not (split == "test" and sampling.test == FULL)]
        assert all(len(others) == 2 * len(relevant) for relevant, others in drawn)
        assert all(not one[1] & other[1] for one, other in combinations(drawn, 2))
        if sampling.test == FULL:
            assert splits["test"][1] == set(range(ITEMS)) - relevant_to(user)


def test_a_whole_catalogue_is_the_complement_of_the_relevant_items() -> None:
    for (_, user), splits in lists_of(replace(DRAWING, nsr=None, sampling=Sampling(FULL, FULL))).items():
        assert all(others == set(range(ITEMS)) - relevant_to(user) for _, others in splits.values())


def test_training_lists_do_not_depend_on_the_test_lists() -> None:
    """So a training is compared on two kinds of test lists."""
    for train in (UNIFORM, POPULARITY):
        usual = lists_of(replace(DRAWING, sampling=Sampling(train, train)))
        for test in (UNIFORM, POPULARITY, FULL):
            made = lists_of(replace(DRAWING, sampling=Sampling(train, test)))
            assert all(made[key][split] == usual[key][split] for key in usual for split in ("train", "validation"))


def test_a_user_of_mixed_ratios_has_the_lists_of_one_of_them_in_all_folds() -> None:
    pure = {ratio: lists_of(replace(DRAWING, nsr=ratio)) for ratio in (1, 2)}
    mixed = lists_of(replace(DRAWING, nsr=(1, 2)))
    ratios: dict[str, set[int]] = {}
    for (fold, user), splits in mixed.items():
        ratios.setdefault(user, set()).add(next(one for one in pure if splits == pure[one][fold, user]))
    assert all(len(found) == 1 for found in ratios.values())
    assert set().union(*ratios.values()) == {1, 2}


def test_own_negatives_are_the_low_ratings_each_in_one_part() -> None:
    for (_, user), splits in lists_of(replace(DRAWING, nsr=0)).items():
        own = set(PAIRS.ratings.items_of(int(user)).tolist()) - relevant_to(user)
        parts = [splits[split][1] for split in SPLITS]
        assert set().union(*parts) == own
        assert sum(map(len, parts)) == len(own) == 7
        # In proportion to 18 or so, 2 and 5 relevant items.
        assert len(parts[0]) == 5


def test_popular_draws_follow_the_successive_scheme() -> None:
    """The probability of each set is a sum over its orders of draws, each proportional to the remaining weights."""
    weights = np.array([1, 2, 3, 6])
    random = np.random.default_rng(3)
    sets = list(combinations(range(4), 2))
    counts = dict.fromkeys(sets, 0)
    draws = 6000
    for _ in range(draws):
        counts[tuple(weighted_draw(random, weights, 2).tolist())] += 1
    expected = [
        sum(weights[a] / 12 * weights[b] / (12 - weights[a]) for a, b in permutations(one)) * draws for one in sets
    ]
    assert sum(expected) == pytest.approx(draws)
    assert chisquare(list(counts.values()), expected).pvalue > 0.01


def test_single_draws_are_proportional_to_the_ratings() -> None:
    weights = PAIRS.popularity[PAIRS.popularity > 0]
    random = np.random.default_rng(4)
    drawn = np.concatenate([weighted_draw(random, weights, 1) for _ in range(8000)])
    counts = np.bincount(drawn, minlength=len(weights))
    assert chisquare(counts, 8000 * weights / weights.sum()).pvalue > 0.01
    assert chisquare(counts).pvalue < 1e-6


def test_parts_of_popular_draws_are_alike() -> None:
    """The first items drawn are the most popular: the parts share them out at random."""
    drawing = replace(DRAWING, nsr=1, sampling=Sampling(POPULARITY, POPULARITY))
    means: dict[str, list[float]] = {split: [] for split in SPLITS}
    for seed in range(60):
        for splits in lists_of(replace(drawing, seed=seed)).values():
            for split in ("train", "test"):
                means[split] += PAIRS.popularity[list(splits[split][1])].tolist()
    difference = np.mean(means["train"]) - np.mean(means["test"])
    error = np.sqrt(np.var(means["train"]) / len(means["train"]) + np.var(means["test"]) / len(means["test"]))
    assert abs(difference) < 4 * error


def test_all_items_are_drawn_where_as_many_are_needed() -> None:
    assert weighted_draw(np.random.default_rng(0), np.array([3, 1, 2]), 3).tolist() == [0, 1, 2]


def test_whole_catalogues_beyond_a_file_are_refused_before_anything_is_drawn() -> None:
    topic = np.repeat(np.arange(30_000), 25).astype(np.int32)
    pairs = RelevantPairs(topic, np.zeros(len(topic), np.int64), np.ones(len(topic), np.int8), 100_000)
    with pytest.raises(DataError, match=r"30,000 users would have 3,000,000,000 items .* sample negatives"):
        next(sampled_instances(pairs, replace(DRAWING, nsr=None, sampling=Sampling(FULL, FULL))))


# Files


@pytest.fixture
def rated(tmp_path, monkeypatch) -> None:
    """Ratings of 6 users, the first with one rating below 4, the last with none, and their folds."""
    from rankbound_study.data.contracts import write_table
    from rankbound_study.data.splits import split_ratings

    monkeypatch.chdir(tmp_path)
    place = np.tile(np.arange(RELEVANT + 7), USERS)
    own = np.array([1, *[7] * (USERS - 2), 0])[PAIRS.ratings.topic]
    kept = place < RELEVANT + own
    topic, item, relevant = PAIRS.ratings.topic[kept], PAIRS.ratings.item[kept], place[kept] < RELEVANT
    columns = {"topic": topic, "item": item, "rating": np.where(relevant, 5, 2), "timestamp": np.zeros(len(topic))}
    table = pa.table({name: pa.array(columns[name]) for name in columns}).cast(
        pa.schema(list(CONTRACTS["interactions"].columns.items()))
    )
    write_table(table.sort_by([("topic", "ascending"), ("item", "ascending")]), "ratings.parquet", "interactions")
    split_ratings(
        "ratings.parquet", "folds.parquet", RatingSplitting(dataset="toy", threshold=4, min_relevant=25, seed=0)
    )


def sampled(drawing: Drawing) -> dict[str, int]:
    return sample_interactions("ratings.parquet", "folds.parquet", "out.parquet", drawing=drawing, checked={})


@pytest.mark.usefixtures("rated")
@pytest.mark.parametrize("drawing", WAYS, ids=str)
def test_files_have_the_names_of_their_samplings(drawing: Drawing) -> None:
    left_out = sampled(drawing)
    instances = read_instances("out.parquet")
    assert (instances.dataset, instances.nsr) == sampled_name("toy", drawing.sampling, drawing.nsr)
    assert left_out.get("users", 0) == (drawing.nsr == 0)
    assert len(instances.topics) == USERS - (drawing.nsr == 0)


@pytest.mark.usefixtures("rated")
def test_lists_without_own_negatives_are_left_out_and_counted() -> None:
    from rankbound_study.data.contracts import read_metadata

    left_out = sampled(replace(DRAWING, nsr=0))
    instances = read_instances("out.parquet")
    kept = sum(len(split) for split in instances.splits.values())
    assert all((split.positives < split.sizes).all() for split in instances.splits.values())
    assert left_out == {"users": 1, "lists": 5 * 3 * (USERS - 1) - kept}
    assert left_out["lists"] > 0
    assert json.loads(read_metadata("out.parquet", "instances")["rankbound.left_out"]) == left_out


def test_the_report_reads_the_instances_that_may_leave_users_out() -> None:
    config = merged([ROOT / "config.yaml"]) | {"experiment": []}
    assert Study.of(config).own_negatives() == []
    config["interactions"]["movielens"]["nsr"] = [0, 1]
    assert Study.of(config).own_negatives() == ["<data>/instances/movielens-nsr0.parquet"]


@pytest.mark.usefixtures("rated")
def test_the_report_counts_who_is_left_out() -> None:
    from rankbound_study.report.methods_section import left_out_blocks, methods_section

    left_out = sampled(replace(DRAWING, nsr=0))
    (block,) = left_out_blocks([Path("out.parquet")])
    rows = [tuple(cell.text for cell in row) for row in block.rows]
    assert [row[:2] for row in rows] == [
        ("toy own negatives", "1 user"),
        ("toy own negatives", f"{left_out['lists']} lists"),
    ]
    assert "rated no item below the threshold" in rows[0]
    assert methods_section(None, [block]).blocks[0] == block
    sampled(replace(DRAWING, nsr=1))
    assert not list(left_out_blocks([Path("out.parquet")]))


@pytest.mark.usefixtures("rated")
def test_only_training_lists_of_whole_catalogues_have_score_distributions() -> None:
    sampled(replace(DRAWING, nsr=None, sampling=Sampling(FULL, FULL)))
    instances = read_instances("out.parquet")
    train, validation = (instances.split(1, split) for split in ("train", "validation"))
    both = merge(train, validation)
    assert (both.sizes == train.sizes + validation.positives).all()
    lists = [split for (_, name), split in instances.splits.items() if name == "train"]
    lists += [merge(instances.split(fold, "train"), instances.split(fold, "validation")) for fold in instances.folds]
    pairs = {pair for one in lists for pair in zip(one.sizes.tolist(), one.positives.tolist(), strict=True)}
    assert instances.pairs() == pairs


# Names


SECTION = {"threshold": 4, "min_relevant": 25, "validation_share": 0.1, "seed": 0}


def test_names_are_taken_apart_as_they_were_joined() -> None:
    for sampling in EVERY:
        for nsr in ((1, 3), 2) if sampling.draws else (None,):
            name, ratio = sampled_name("my-set", sampling, nsr)
            assert SampledName.of(name) == ("my-set", sampling, nsr if isinstance(nsr, tuple) else ())
            assert ratio == (nsr if isinstance(nsr, int) else None)
            assert DataSet(name, ratio).sampled
    assert not DataSet("mq2008-label1", None).sampled


def test_ratio_0_needs_uniform_draws_beside_it() -> None:
    assert InteractionKeys(**SECTION, nsr=[0, 1], sampling=["uniform", "popularity"])
    with pytest.raises(ValidationError, match=r"has 0, at which nothing is drawn, so it needs uniform in sampling"):
        InteractionKeys(**SECTION, nsr=[0, 1], sampling=["popularity"])


def test_every_data_set_of_a_configuration_has_its_name_and_title() -> None:
    samplings = ["uniform", "popularity", "full", {"train": "uniform", "test": "full"}]
    section = {**SECTION, "nsr": [0, 1, [1, 2, 3]], "sampling": samplings}
    defined = {one.name: one for one in InteractionKeys(**section).instances("movielens")}
    assert {name: one.data_set.label.replace("\N{NO-BREAK SPACE}", " ") for name, one in defined.items()} == {
        "movielens-nsr0": "MovieLens own negatives",
        "movielens-nsr1": "MovieLens NSR 1",
        "movielens-mixed-1-2-3": "MovieLens NSR 1, 2 or 3",
        "movielens-popularity-nsr1": "MovieLens popularity NSR 1",
        "movielens-popularity-mixed-1-2-3": "MovieLens popularity NSR 1, 2 or 3",
        "movielens-full": "MovieLens full catalogue",
        "movielens-uniform-full-nsr1": "MovieLens NSR 1, full test",
        "movielens-uniform-full-mixed-1-2-3": "MovieLens NSR 1, 2 or 3, full test",
    }
    assert defined["movielens-nsr1"].options == {**SECTION, "nsr": 1}
