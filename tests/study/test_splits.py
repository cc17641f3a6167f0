"""Folds of ratings and of judged lists, and the irrelevant items that each sampling takes."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import chisquare

from rankbound.errors import DataError
from rankbound_study.config.check import merged
from rankbound_study.config.data_sets import (
    EVERY,
    FULL,
    POPULARITY,
    UNIFORM,
    DataSet,
    SampledName,
    Sampling,
    sampled_name,
)
from rankbound_study.config.sections.data import InteractionKeys
from rankbound_study.config.study import Study
from rankbound_study.data.contracts import (
    CONTRACTS,
    FOLDS,
    PARTS_KEY,
    SPLITS,
    judged_table,
    read_metadata,
    read_table,
    write_table,
)
from rankbound_study.data.reader import merge, read_instances
from rankbound_study.data.sampling import (
    Drawing,
    RelevantPairs,
    sample_interactions,
    sampled_instances,
    weighted_draw,
)
from rankbound_study.data.splits import split_lists, split_ratings, split_relevant
from rankbound_study.report.methods import left_out_blocks, methods_section
from tests.library.refusals import problems

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


def test_five_parts_take_turns_and_files_of_folds_may_share_test_topics(tmp_path: Path) -> None:
    found = split(tmp_path, parts(1, 1, 1, 1, 1))
    assert {fold: (found[fold, "train"], found[fold, "validation"], found[fold, "test"]) for fold in (1, 2, 5)} == {
        1: ([0, 1, 2], [3], [4]),
        2: ([1, 2, 3], [4], [0]),
        5: ([0, 1, 4], [2], [3]),
    }
    places = {"a": [[0, 2]], "b": [[2, 3]], "c": [[3, 4]], "d": [[1, 2], [3, 4]], "e": [[0, 1]]}
    folds = [{"train": [train], "validation": ["b"], "test": [test]} for train, test in ("ac", "ed")]
    found = split(tmp_path, places, folds=folds)
    assert [[found[fold, name] for name in ("train", "validation", "test")] for fold in (1, 2)] == [
        [[0, 1], [2], [3]],
        [[0], [2], [1, 3]],
    ]


@given(sizes=st.lists(st.integers(1, 4), min_size=3, max_size=7))
def test_lists_are_tested_and_validated_on_once(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    found = split(tmp_path_factory.getbasetemp(), parts(*sizes))
    every = list(range(sum(sizes)))
    for wanted, times in {"test": 1, "validation": 1, "train": len(sizes) - 2}.items():
        rows = Counter(row for (_, name), rows in found.items() if name == wanted for row in rows)
        assert rows == dict.fromkeys(every, times)
    for fold in range(1, len(sizes) + 1):
        assert sorted(row for (of, _), rows in found.items() if of == fold for row in rows) == every


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


@pytest.mark.parametrize(("sizes", "options", "topics", "message"), problems("splits of lists"))
def test_contradictions_are_refused(tmp_path: Path, sizes: Any, options: Any, topics: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        split(tmp_path, sizes and parts(*sizes), list(topics), **options)
    assert not (tmp_path / "splits.parquet").exists()


# Lists of ratings: which irrelevant items each sampling takes, how often, and how its data sets are called

ROOT = Path(__file__).resolve().parents[2]
USERS, ITEMS, RELEVANT, LOW = 6, 120, 25, 7
DRAWING = Drawing("toy", 2, 0.1, 0)
WAYS = [
    *(replace(DRAWING, sampling=one, nsr=2 if one.draws else None) for one in EVERY),
    replace(DRAWING, nsr=(1, 2)),
    replace(DRAWING, nsr=0),
]


def rated_by(sizes: Sequence[int], items: int, low: int = 0) -> RelevantPairs:
    """Users with so many relevant and `low` other rated items; items with small numbers have most ratings."""
    random, weights = np.random.default_rng(5), 1 / (1 + np.arange(items))
    chosen = [random.choice(items, size + low, replace=False, p=weights / weights.sum()) for size in sizes]
    topic = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    relevant = np.concatenate([np.sort(one[:size]) for one, size in zip(chosen, sizes, strict=True)])
    every = np.repeat(np.arange(len(sizes)), [len(one) for one in chosen]).astype(np.int32)
    rated = every, np.concatenate(chosen)
    return RelevantPairs(topic, relevant, split_relevant(topic, "toy", 0), items, rated=rated)


PAIRS = rated_by([RELEVANT] * USERS, ITEMS, LOW)
Lists = dict[tuple[int, str], dict[str, tuple[set[int], set[int]]]]


def lists_of(drawing: Drawing = DRAWING, pairs: RelevantPairs = PAIRS) -> Lists:
    """Relevant and other items by fold and user, and by split; parts come in order, items ascend."""
    found: Lists = {}
    parts = list(sampled_instances(pairs, drawing))
    assert [(fold, split) for fold, split, _ in parts] == [(f, s) for f in range(1, FOLDS + 1) for s in SPLITS]
    for fold, split, table in parts:
        for row in table.to_pylist():
            items, relevance = np.array(row["items"]), np.array(row["relevance"])
            assert (np.diff(items) > 0).all()
            both = (set(items[relevance == 1].tolist()), set(items[relevance == 0].tolist()))
            found.setdefault((fold, row["topic"]), {})[split] = both
    return found


def relevant_to(user: str, pairs: RelevantPairs = PAIRS) -> set[int]:
    return set(pairs.item[int(user) == pairs.topic].tolist())


@given(
    st.lists(st.integers(5, 40), min_size=1, max_size=5),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.1, 0.3]),
    st.integers(0, 3),
)
def test_folds_use_positives_once_and_disjoint_negatives(sizes: list[int], nsr: int, share: float, seed: int) -> None:
    pairs = rated_by(sizes, 200)
    found = lists_of(Drawing("toy", nsr, share, seed), pairs)
    assert list(found) == [(fold, str(user)) for fold in range(1, FOLDS + 1) for user in range(len(sizes))]
    for (fold, user), splits in found.items():
        own = pairs.topic == int(user)
        empty = set[int](), set[int]()
        train, validation, test = (splits.get(split, empty) for split in SPLITS)
        assert test[0] == set(pairs.item[own & (pairs.fold == fold)].tolist())
        assert train[0] | validation[0] == relevant_to(user, pairs) - test[0]
        others = len(train[0] | validation[0])
        assert len(validation[0]) == (max(1, round(share * others)) if share else 0)
        assert all(len(negatives) == nsr * len(positives) for positives, negatives in (train, validation, test))
        every = [item for both in (train, validation, test) for items in both for item in items]
        assert len(every) == len(set(every))


@pytest.mark.parametrize("drawing", WAYS, ids=str)
def test_a_sampling_draws_the_same_by_its_seed_and_leaves_relevant_items_as_they_are(drawing: Drawing) -> None:
    usual, made = lists_of(), lists_of(drawing)
    assert lists_of(drawing) == made
    for change in ({"seed": 1}, {"dataset": "other"}):
        other = lists_of(replace(drawing, **change))  # type: ignore[arg-type]
        assert other != made
        drawn = [[splits[split][1] for splits in lists.values() for split in SPLITS] for lists in (made, other)]
        assert drawn[0] != drawn[1] or not drawing.sampling.draws
    assert list(made) == list(usual)
    for (fold, user), splits in made.items():
        for split, (relevant, others) in splits.items():
            assert relevant == usual[fold, user][split][0]
            assert not others & relevant_to(user)


def test_candidates_are_as_likely_in_folds_that_differ_for_users_alike() -> None:
    pairs, counts = rated_by([25], 100), np.zeros(100)
    for seed in range(60):
        for splits in lists_of(replace(DRAWING, nsr=1, seed=seed), pairs).values():
            for _, negatives in splits.values():
                counts[list(negatives)] += 1
    candidates = np.delete(counts, pairs.item)
    assert counts[pairs.item].sum() == 0
    # Each of 75 candidates is drawn 300 times with probability 1/3: 100 expected, standard deviation 8.2.
    assert candidates.min() > 60
    assert candidates.max() < 140
    found = lists_of()
    first, second = (set().union(*(found[fold, "3"][split][1] for split in SPLITS)) for fold in (1, 2))
    assert first != second
    only = PAIRS.topic == 3
    alone = RelevantPairs(PAIRS.topic[only], PAIRS.item[only], PAIRS.fold[only], PAIRS.item_count)
    assert lists_of(pairs=alone) == {key: value for key, value in found.items() if key[1] == "3"}


@pytest.mark.parametrize("drawing", WAYS, ids=str)
def test_irrelevant_items_are_drawn_once_or_the_own_or_all(drawing: Drawing) -> None:
    for (_, user), splits in lists_of(drawing).items():
        relevant, others = ([splits[split][kind] for split in SPLITS] for kind in (0, 1))
        candidates = set(range(ITEMS)) - relevant_to(user)
        if drawing.nsr == 0:
            topics, items = PAIRS.rated
            assert set().union(*others) == set(items[topics == int(user)].tolist()) - relevant_to(user)
            # In proportion to 18 or so, 2 and 5 relevant items.
            assert (len(others[0]), sum(map(len, others))) == (5, LOW)
            continue
        whole = [one == FULL for one in (drawing.sampling.train, drawing.sampling.train, drawing.sampling.test)]
        assert all(one == candidates for one, is_whole in zip(others, whole, strict=True) if is_whole)
        drawn = [
            len(one) / len(own) for one, own, is_whole in zip(others, relevant, whole, strict=True) if not is_whole
        ]
        assert set(drawn) <= ({1, 2} if drawing.nsr == (1, 2) else {2})
        disjoint = [one for one, is_whole in zip(others, whole, strict=True) if not is_whole]
        assert all(not one & other for one, other in combinations(disjoint, 2))


def test_training_lists_do_not_depend_on_tests_and_users_keep_one_mixed_ratio() -> None:
    """So a training is compared on two kinds of test lists."""
    for train in (UNIFORM, POPULARITY):
        usual = lists_of(replace(DRAWING, sampling=Sampling(train, train)))
        for test in (UNIFORM, POPULARITY, FULL):
            made = lists_of(replace(DRAWING, sampling=Sampling(train, test)))
            assert all(made[key][split] == usual[key][split] for key in usual for split in ("train", "validation"))
    pure = {ratio: lists_of(replace(DRAWING, nsr=ratio)) for ratio in (1, 2)}
    ratios: dict[str, set[int]] = {}
    for (fold, user), splits in lists_of(replace(DRAWING, nsr=(1, 2))).items():
        ratios.setdefault(user, set()).add(next(one for one in pure if splits == pure[one][fold, user]))
    assert all(len(found) == 1 for found in ratios.values())
    assert set().union(*ratios.values()) == {1, 2}


def test_popular_draws_follow_the_successive_scheme_and_parts_are_alike() -> None:
    """The probability of each set is a sum over its orders of draws, each proportional to the remaining weights."""
    weights, random, draws = np.array([1, 2, 3, 6]), np.random.default_rng(3), 6000
    sets = list(combinations(range(4), 2))
    counts = dict.fromkeys(sets, 0)
    for _ in range(draws):
        counts[tuple(weighted_draw(random, weights, 2).tolist())] += 1
    expected = [
        sum(weights[a] / 12 * weights[b] / (12 - weights[a]) for a, b in permutations(one)) * draws for one in sets
    ]
    assert sum(expected) == pytest.approx(draws)
    assert chisquare(list(counts.values()), expected).pvalue > 0.01
    assert weighted_draw(random, weights, 4).tolist() == [0, 1, 2, 3]
    # The first items drawn are the most popular: the parts share them out at random.
    drawing = replace(DRAWING, nsr=1, sampling=Sampling(POPULARITY, POPULARITY))
    found: dict[str, list[float]] = {"train": [], "test": []}
    for seed in range(60):
        for splits in lists_of(replace(drawing, seed=seed)).values():
            for split, values in found.items():
                values += PAIRS.popularity[list(splits[split][1])].tolist()
    error = np.sqrt(sum(np.var(values) / len(values) for values in found.values()))
    assert abs(np.mean(found["train"]) - np.mean(found["test"])) < 4 * error


MANY = np.repeat(np.arange(30_000), 25).astype(np.int32)
CATALOGUES = RelevantPairs(MANY, np.zeros(len(MANY), np.int64), np.ones(len(MANY), np.int8), 100_000)


@pytest.mark.parametrize(
    ("pairs", "drawing", "message"),
    [
        (
            rated_by([25, 60], 179), DRAWING,
            r"toy: user 1 has 60 relevant items and needs 120 negatives at NSR 2, but only 119 of the 179",
        ),
        (
            PAIRS, replace(DRAWING, validation_share=0.99),
            r"user 0 has 20 training positives in fold 1, and validation would take 20",
        ),
        (
            CATALOGUES, replace(DRAWING, nsr=None, sampling=Sampling(FULL, FULL)),
            r"30,000 users would have 3,000,000,000 items .* sample negatives",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_names_user_and_numbers(pairs: RelevantPairs, drawing: Drawing, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(sampled_instances(pairs, drawing))
    assert lists_of(pairs=rated_by([25, 60], 180))


# Files


@pytest.fixture
def rated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratings of 6 users, the first with one rating below 4, the last with none, and their folds."""
    monkeypatch.chdir(tmp_path)
    place = np.tile(np.arange(RELEVANT + LOW), USERS)
    kept = place < RELEVANT + np.array([1, *[LOW] * (USERS - 2), 0])[PAIRS.rated[0]]
    topic, item, relevant = PAIRS.rated[0][kept], PAIRS.rated[1][kept], place[kept] < RELEVANT
    columns = {"topic": topic, "item": item, "rating": np.where(relevant, 5, 2), "timestamp": np.zeros(len(topic))}
    table = pa.table(columns).cast(pa.schema(list(CONTRACTS["interactions"].columns.items())))
    write_table(table.sort_by([("topic", "ascending"), ("item", "ascending")]), "ratings.parquet", "interactions")
    split_ratings("ratings.parquet", "folds.parquet", "toy", threshold=4, min_relevant=25, seed=0)


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
def test_lists_without_own_negatives_are_left_out_counted_and_reported() -> None:
    left_out = sampled(replace(DRAWING, nsr=0))
    splits = read_instances("out.parquet").splits.values()
    assert all((split.positives < split.sizes).all() for split in splits)
    assert left_out == {"users": 1, "lists": 5 * 3 * (USERS - 1) - sum(map(len, splits))}
    assert left_out["lists"] > 0
    assert json.loads(read_metadata("out.parquet", "instances")["rankbound.left_out"]) == left_out
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


def test_the_report_reads_the_instances_that_may_leave_users_out() -> None:
    config = merged([ROOT / "config.yaml"]) | {"experiment": []}
    assert Study(config).own_negatives() == []
    config["interactions"]["movielens"]["nsr"] = [0, 1]
    assert Study(config).own_negatives() == ["<data>/instances/movielens-nsr0.parquet"]


@pytest.mark.usefixtures("rated")
def test_only_training_lists_of_whole_catalogues_have_score_distributions() -> None:
    sampled(replace(DRAWING, nsr=None, sampling=Sampling(FULL, FULL)))
    instances = read_instances("out.parquet")
    lists = [split for (_, name), split in instances.splits.items() if name == "train"]
    for fold in instances.folds:
        train, validation = (instances.split(fold, split) for split in ("train", "validation"))
        lists.append(merge(train, validation))
        assert (lists[-1].sizes == train.sizes + validation.positives).all()
    pairs = {pair for one in lists for pair in zip(one.sizes.tolist(), one.positives.tolist(), strict=True)}
    assert instances.pairs() == pairs


# Names

SECTION = {"threshold": 4, "min_relevant": 25, "validation_share": 0.1, "seed": 0}


def test_names_are_taken_apart_as_joined_and_every_data_set_has_its_title() -> None:
    for sampling in EVERY:
        for nsr in ((1, 3), 2) if sampling.draws else (None,):
            name, ratio = sampled_name("my-set", sampling, nsr)
            assert SampledName.of(name) == ("my-set", sampling, nsr if isinstance(nsr, tuple) else ())
            assert ratio == (nsr if isinstance(nsr, int) else None)
            assert DataSet(name, ratio).sampled
    assert not DataSet("mq2008-label1", None).sampled
    assert InteractionKeys(**SECTION, nsr=[0, 1], sampling=["uniform", "popularity"])
    with pytest.raises(ValidationError, match=r"has 0, at which nothing is drawn, so it needs uniform in sampling"):
        InteractionKeys(**SECTION, nsr=[0, 1], sampling=["popularity"])
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
