"""Matrix factorisation of one's own ratings: what it learns, what it knows, and what it refuses."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import rankbound as rb
from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists
from rankbound.lists import Lists
from rankbound.training import pairs, trainer
from rankbound.training.models import MLP, Factorization, score_pairs
from rankbound.training.trainer import WORTH_THREADS, Part, threads_for
from tests.library.conftest import Program
from tests.library.planted_ratings import frame, lists_of, ratings

QUICK: dict[str, Any] = {"model": "matrix-factorization", "factors": 4, "epochs": 3, "device": "cpu"}
PLANTED = ratings()


def small() -> JudgedLists:
    return ratings(users=12, items=10).lists(ratings(users=12, items=10).known)


def scores_of(run: rb.Run) -> dict[tuple[str, str], float]:
    topics = np.repeat(np.array(run.topics), np.diff(run.offsets))
    return dict(zip(zip(topics.tolist(), list(run.items), strict=True), run.scores.tolist(), strict=True))


def bytes_of(ranker: rb.Ranker, path: Path) -> bytes:
    ranker.save(path)
    return path.read_bytes()


# What is learned
@pytest.mark.parametrize(
    "recipe",
    [
        {"loss": "ListNet"},
        {"loss": "RankNet", "bias": "none"},
        {"loss": "CLiMF"},
        {"loss": "TFMAP"},
        {"loss": "LambdaRank"},
        {"loss": "DCG@10"},
        {"loss": "softmax", "model": "neural-mf", "hidden": (8,)},
    ],
    ids=str,
)
def test_the_methods_of_the_page_learn_what_is_planted(recipe: dict[str, Any]) -> None:
    """ListRank-MF, CLiMF, TFMAP, LambdaMF, Top-N-Rank and neural factorisation: better than chance, over all items."""
    settings = {**QUICK, "epochs": 8, "learning_rate": 0.05, "negatives": 4, "unknown": "mean", **recipe}
    relevant, tested = PLANTED.lists(PLANTED.known & (PLANTED.relevant > 0)), PLANTED.lists(PLANTED.tested)
    ranker = rb.train_ranker(relevant, **settings)
    found = rb.evaluate_catalogue(ranker, tested, "AP", exclude=relevant).means()["AP"]
    random = rb.train_ranker(relevant, **settings | {"learning_rate": 1e-12, "epochs": 1})
    assert found > 1.15 * rb.evaluate_catalogue(random, tested, "AP", exclude=relevant).means()["AP"]


def test_scores_are_products_and_biases_with_the_kernel_and_without_and_means_for_unknown_names() -> None:
    """Also of topics and items that occur repeatedly; others are refused by the kernel."""
    random, found = torch.Generator().manual_seed(0), []
    topics, items, upstream = (torch.randint(n, (200,), generator=random) for n in (7, 30, 9))
    for kernel in (False, True):
        model = Factorization(7, 30, 19, 0.5, torch.Generator().manual_seed(1), bias="item", by_kernel=kernel)
        model.item_bias.data.copy_(torch.arange(30.0))  # type: ignore[union-attr, operator]
        p, q, b = model.parameters()
        scores = model(topics, items)
        torch.testing.assert_close(scores, (p[topics] * q[items]).sum(1) + b[items])
        scores.backward(upstream.float())
        found.append([each.grad for each in (p, q, b)])
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)
    means = score_pairs(model, torch.tensor([-1, 1, -1, 1]), torch.tensor([2, -1, -1, 2]))
    p, q, b = (torch.cat([each.detach(), each.detach().mean(0, keepdim=True)]) for each in (p, q, b))
    products = torch.stack([p[-1] @ q[2], p[1] @ q[-1], p[-1] @ q[-1], p[1] @ q[2]])
    torch.testing.assert_close(means, products + b[[2, -1, -1, 2]])
    for topic, item in ((7, 0), (-1, 0), (0, 30), (0, -1)):
        with pytest.raises(IndexError, match="7 topics and 30 items"):
            Factorization(7, 30, by_kernel=True)(torch.tensor([0, topic]), torch.tensor([1, item]))


# What repeats
RECIPES: tuple[dict[str, Any], ...] = ({"unknown": "mean"}, {"negatives": 2}, {"bias": "none", "validation_share": 0.0})


@pytest.mark.parametrize("recipe", RECIPES)
def test_seeds_and_files_give_the_same_ranker_back_whatever_the_order_of_rows(tmp_path: Path, recipe: Any) -> None:
    """Scores are found by name."""
    lists, path = small(), tmp_path / "m.safetensors"
    lists = replace(lists, topics=["", "é", "日本", "u\n1", *map(str, range(8))][: len(lists)])
    table, shuffled = frame(lists), frame(lists).sample(fraction=1, shuffle=True, seed=3)
    rankers = [
        rb.train_ranker(rb.read_lists(rows), **QUICK, **recipe, seed=seed)
        for rows, seed in ((table, 2), (table, 1), (shuffled, 1), (table, 1))
    ]
    other, *same = (bytes_of(ranker, path) for ranker in rankers)
    assert len({*same}) == 1
    assert other != same[0]
    ranker, loaded = rankers[-1], rb.load(path)
    assert scores_of(loaded.score_lists(rb.read_lists(shuffled))) == scores_of(ranker.score_lists(lists))
    assert loaded.vocabulary.topics.to_list() == sorted(lists.topics)


# Held-out items, folds and negatives
def pairs_of(sizes: list[int], seed: int = 0) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(seed)
    topics = np.repeat(np.arange(len(sizes)), sizes)
    items = np.concatenate([random.permutation(40)[:size] for size in sizes])
    return topics, items, random.integers(0, 3, len(topics))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
def test_every_topic_and_label_gives_its_share_and_everything_stays_known(share: float) -> None:
    topics, items, relevance = pairs_of([1, 2, 5, 20, 39, 40])
    held = pairs.held_out_within(topics, items, relevance, share, seed=0)
    for index in (topics, items):
        assert set(index[~held]) == set(index)
    for topic in range(6):
        own = topics == topic
        assert (held & own).sum() <= np.ceil(share * own.sum())
        for label in range(3):
            of_label = own & (relevance == label)
            assert (held & of_label).sum() <= np.ceil(share * of_label.sum() + 1e-9) + (share > 0)
    if share == 0.2:
        assert held[topics >= 3].mean() > 0.12


@pytest.mark.parametrize("folds", [2, 5])
def test_folds_share_every_topic_and_label(folds: int) -> None:
    topics, _, relevance = pairs_of([1, 3, 20, 39, 40])
    fold = pairs.folds_within(topics, relevance, folds, seed=0)
    assert set(fold) == set(range(folds))
    for topic in range(5):
        for label in (None, 0, 1, 2):
            own = (topics == topic) & (True if label is None else relevance == label)
            counts = np.bincount(fold[own], minlength=folds)
            assert counts.max() - counts.min() <= 1
    assert not np.array_equal(fold, pairs.folds_within(topics, relevance, folds, seed=1))


@pytest.mark.parametrize("per_relevant", [1, 3, 50])
def test_negatives_are_items_that_the_topic_lacks(per_relevant: int) -> None:
    lists = small()
    drawn = pairs.with_negatives(lists, per_relevant, seed=0)
    assert drawn.topics == lists.topics
    catalogue = set(lists.items)
    for place, (old, new) in enumerate(zip(pairwise(lists.offsets), pairwise(drawn.offsets), strict=True)):
        own, more = list(lists.items[slice(*old)]), list(drawn.items[slice(*new)])
        assert more[: len(own)] == own
        negatives = more[len(own) :]
        relevant = int((lists.relevance[slice(*old)] > 0).sum())
        assert len(negatives) == len(set(negatives)) == min(per_relevant * relevant, len(catalogue) - len(own)), place
        assert set(negatives) <= catalogue - set(own)
        assert not drawn.relevance[slice(*new)][len(own) :].any()
    assert list(lists.items) == list(small().items)


@pytest.mark.parametrize("dense", [0.0, 1.0])
def test_negatives_are_uniform(dense: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By both ways: 4,000 topics draw one of five items each; the fewest and most differ by chance."""
    monkeypatch.setattr("rankbound.training.pairs.DENSE", dense)
    topics = 4000
    items, sizes, n = [*["a"] * topics, *"bcdef"], [*[1] * topics, 5], topics + 5
    lists = lists_of(sizes, np.ones(n, int), np.empty((n, 0)), (), items=items)
    drawn = frame(pairs.with_negatives(lists, 1, seed=0)).filter(pl.col("relevance") == 0)
    counts = drawn.filter(pl.col("topic") != f"q{topics}")["item"].value_counts()["count"]
    assert len(counts) == 5
    assert counts.sum() == topics
    assert abs(counts - topics / 5).max() < 5 * (topics * 0.16) ** 0.5


def part_of(lists: JudgedLists) -> tuple[Part, pairs.Vocabulary]:
    vocabulary = pairs.Vocabulary.of_lists(lists)
    topics, items, order = pairs.sorted_pairs(lists, vocabulary)
    columns = map(torch.from_numpy, (np.unique(topics), items, lists.relevance[order]))
    limits = Lists.of_sizes(torch.from_numpy(np.bincount(topics)))
    return Part(vocabulary.topics.to_list(), *columns, limits), vocabulary


@pytest.mark.parametrize(("how", "negatives"), [("uniform", 1), ("popularity", 3), ("in-batch", 2)])
def test_negatives_of_an_epoch_are_new_items_that_the_topic_lacks(how: str, negatives: int) -> None:
    """Those of a batch are relevant items of its other topics; a topic that has all of them gets none."""
    part, vocabulary = part_of(small())
    recipe = rb.Recipe(model="matrix-factorization", negatives=negatives, negative_sampling=how, batch_size=5)
    drawn, n_items = list[list[int]](), len(vocabulary.items)
    draws = pairs.epoch_negatives(part, n_items, recipe)
    own = [set(part.items[slice(*limits)].tolist()) for limits in pairwise(part.lists.offsets.tolist())]
    relevant = [set(items[labels > 0].tolist()) for items, labels in split(part)]
    for _ in range(3):
        epoch = next(draws)
        drawn.append(epoch.items.tolist())
        assert sorted(epoch.names) == part.names
        if how != "in-batch":
            assert epoch.names == part.names
        for place, (items, labels) in enumerate(split(epoch)):
            at = part.names.index(epoch.names[place])
            assert int(epoch.topics[place]) == at
            kept, size = items.tolist()[: len(own[at])], len(own[at])
            assert set(kept) == own[at]
            assert labels[:size].tolist() == list(split(part))[at][1].tolist()
            assert not labels[size:].any()
            new = set(items.tolist()[size:])
            assert new.isdisjoint(own[at])
            names = epoch.names[place // 5 * 5 : place // 5 * 5 + 5] if how == "in-batch" else part.names
            there = set().union(*(relevant[part.names.index(name)] for name in names))
            there = set(range(n_items)) if how == "uniform" else there
            assert new <= there
            expected = negatives * len(relevant[at]) if there - own[at] else 0
            # One of 32 tries finds a rest of a tenth in all but 3 percent of cases.
            assert 0.8 * expected <= len(items) - size <= expected
    assert len({*map(tuple, drawn)}) == 3


def split(part: Part) -> list[tuple[torch.Tensor, torch.Tensor]]:
    sizes = part.lists.sizes.tolist()
    return list(zip(torch.split(part.items, sizes), torch.split(part.relevance, sizes), strict=True))


@pytest.mark.parametrize("how", ["uniform", "popularity", "in-batch"])
def test_negatives_of_an_epoch_are_as_frequent_as_they_should_be(how: str) -> None:
    """Item b is relevant to three times as many topics as c; a topic of its own has a, which all others draw from."""
    names = [*["b"] * 300, *["c"] * 100, *["a"] * 2000]
    lists = lists_of([1] * 2400, np.ones(2400, int), np.empty((2400, 0)), (), items=names)
    part, vocabulary = part_of(lists)
    recipe = rb.Recipe(model="matrix-factorization", negatives=2, negative_sampling=how, batch_size=2400)
    epoch = next(pairs.epoch_negatives(part, len(vocabulary.items), recipe))
    of_a = [items[1:] for items, _ in split(epoch) if int(items[0]) == 0]
    share = float((torch.cat(of_a) == 1).double().mean())
    assert share == pytest.approx(0.5 if how == "uniform" else 0.75, abs=0.04)


@pytest.mark.parametrize("how", ["uniform", "popularity", "in-batch", "once"])
def test_all_ways_of_negatives_train_repeatedly_and_validate(how: str, tmp_path: Path) -> None:
    lists = PLANTED.lists(PLANTED.known & (PLANTED.relevant > 0))
    later = PLANTED.lists(PLANTED.tested & (PLANTED.relevant > 0))
    recipe = {**QUICK, "negatives": 3, "negative_sampling": how, "loss": "BPR", "unknown": "mean"}
    first, again = (rb.train_ranker(rows, **recipe) for rows in (lists, rb.read_lists(frame(lists)[::-1])))
    assert bytes_of(first, tmp_path / "a") == bytes_of(again, tmp_path / "b")
    assert rb.loss("bpr").text == rb.loss(first.recipe.loss).text == "RankNet"
    assert 0 < first.record["validation"] < 1
    if how == "once":
        refuse(lambda: rb.train_ranker(lists, later, **recipe), "negatives=3 drawn once beside validation lists")
    else:
        with_later = rb.train_ranker(lists, later, **recipe)
        assert 0 < with_later.record["validation"] < 1
    tested = rb.cross_validate(lists, 2, **recipe)
    assert {*tested.judged.relevance.tolist()} == {0, 1}
    assert len(tested.judged.items) == len(pairs.with_negatives(lists, 3, 0).items)
    assert tested.evaluate("PairAccuracy").means()["PairAccuracy"] > 0.51


def test_more_negatives_than_items_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    refuse(
        lambda: rb.train_ranker(small(), **QUICK, negatives=10**6),
        "negatives: found 1000000 for each relevant item, but the training lists have 10 items",
    )
    refuse(lambda: rb.Recipe(negative_sampling="all"), "negative_sampling: found 'all', expected one of uniform, pop")
    rb.train_ranker(small(), **QUICK, negatives=2).save(path)
    assert rb.load(path).recipe.negative_sampling == "uniform"


def test_small_steps_take_one_thread_and_the_number_of_threads_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = torch.get_num_threads(), list[int]()

    def predict(*arguments: Any) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return own(*arguments)

    own = trainer.predict
    monkeypatch.setattr(trainer, "predict", predict)
    try:
        torch.set_num_threads(2)
        rb.train_ranker(small(), **QUICK, on_epoch=lambda epoch: seen.append(-torch.get_num_threads()))
        assert (set(seen), torch.get_num_threads()) == ({1, -2}, 2)
        network = MLP(10, (8,))
        for n_items, threads in ((10, 1), (WORTH_THREADS // 88, 1), (WORTH_THREADS // 88 + 1, 2)):
            # 10 x 8 weights, and 8 of the second layer.
            with threads_for([network, Factorization(1000, 1000)], n_items):
                assert torch.get_num_threads() == threads
            assert torch.get_num_threads() == 2
        with pytest.raises(KeyError), threads_for([network], 1):
            raise KeyError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# What is refused
def refuse(attempt: Callable[[], Any], message: str) -> None:
    with pytest.raises((DataError, ValueError), match=message):
        attempt()


def test_unknown_names_are_refused_or_scored_by_the_mean() -> None:
    lists = small()
    ranker = rb.train_ranker(lists, **QUICK)
    table = frame(lists)
    more = pl.DataFrame({"topic": ["u0", "new"], "item": ["fresh", lists.items[0]], "relevance": [1, 0]})
    refuse(lambda: ranker.score_lists(rb.read_lists(more)), r"found topic 'new', which the ranker was not trained on")
    refuse(lambda: ranker.score_lists(rb.read_lists(more[:1])), "found item 'fresh' of topic 'u0', which")
    refuse(lambda: ranker.score_lists(rb.read_lists(more[:1]), unknown="mean"), "none of the 1 items is one that")
    refuse(lambda: ranker.score_lists(lists, unknown="zero"), "unknown: found zero, expected one of refuse, mean")
    scored = scores_of(ranker.score_lists(rb.read_lists(more), unknown="mean"))
    means = {name: values.mean(0) for name, values in ranker.model.state_dict().items()}
    own = ranker.model.state_dict()["topics"][sorted(lists.topics).index("u0")]
    assert scored["u0", "fresh"] == pytest.approx(float(own @ means["items"] + means["item_bias"]), abs=1e-6)
    both = rb.read_lists(pl.concat([table, more], how="vertical_relaxed"))
    known = scores_of(ranker.score_lists(lists))
    for pair, score in scores_of(ranker.score_lists(both, unknown="mean")).items():
        assert score == pytest.approx(known.get(pair, score), abs=1e-6)
    fresh = rb.read_lists(frame(both).join(table, on=["topic", "item"], how="anti"))
    by_recipe = rb.train_ranker(lists, fresh, **QUICK, unknown="mean")
    assert by_recipe.record["validation_topics"] == 2
    by_recipe.score_lists(both)
    refuse(lambda: rb.train_ranker(lists, fresh, **QUICK), "validation lists: found topic 'new'")
    refuse(lambda: rb.train_ranker(lists, lists, **QUICK), r"item '.*' of topic 'u\d+' is in the training and in the")


def test_tables_without_anything_to_learn_are_refused() -> None:
    lists = small()
    ones, zeros = (replace(lists, relevance=np.full(len(lists.items), label)) for label in (1, 0))
    refuse(lambda: rb.train_ranker(ones, **QUICK), r"all \d+ relevance labels are 1, .*draw some by negatives=3")
    refuse(lambda: rb.train_ranker(zeros, **QUICK), "relevance labels are 0, .*: expected relevant items, with labels")
    refuse(lambda: rb.train_ranker(zeros, **QUICK, negatives=2), "relevance labels are 0")
    rb.train_ranker(ones, **QUICK, negatives=2)
    apart = replace(lists, items=[f"d{row}" for row in range(len(lists.items))])
    refuse(lambda: rb.train_ranker(apart, **QUICK), "no item is in two topics, .* --item NAME")
    refuse(lambda: rb.train_ranker(lists), "there are no features, which model linear reads: .*matrix-factorization")
    refuse(lambda: rb.train_ranker(lists, negatives=2), "negatives: found 2 beside the model linear")
    single = rb.read_lists(pl.DataFrame({"topic": ["a", "b", "c"], "item": ["x", "x", "y"], "relevance": [1, 0, 1]}))
    refuse(lambda: rb.train_ranker(single, **QUICK), "each of the 3 training topics has one item")
    ranker, nothing = rb.train_ranker(lists, **QUICK), PLANTED.lists(np.zeros_like(PLANTED.known))
    refuse(lambda: rb.train_ranker(nothing, **QUICK), "there are no items")
    assert len(ranker.score_lists(nothing).scores) == 0
    refuse(
        lambda: ranker.score(np.zeros((2, 2))),
        r"a matrix-factorization reads topics and items: call score_lists\(lists\)",
    )


# The command line
def test_train_and_score_a_table_of_ratings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Program) -> None:
    monkeypatch.chdir(tmp_path)
    lists = small()
    # Columns of text and of numbers that are not read, an empty cell among them.
    table = frame(lists).with_columns(title=pl.lit("a"), time=pl.Series([None, *range(1, len(lists.items))]))
    table.rename({"topic": "user", "item": "film", "relevance": "rating"}).write_csv("ratings.csv")
    columns = "--topic user --item film --relevance rating"
    flags = "--factors 4 --epochs 3 --device cpu --model matrix-factorization --seed 5 --out m.safetensors"
    shown = program(f"train ratings.csv {columns} {flags}")
    assert f"trained on {len(lists)} topics, " in shown
    assert "matrix-factorization model: epoch" in shown
    ranker = rb.train_ranker(lists, **QUICK, seed=5)
    for out in ("run.txt", "run.csv"):
        program(f"score m.safetensors ratings.csv {columns} --out {out}")
        assert scores_of(rb.read_run(out)) == pytest.approx(scores_of(ranker.score_lists(lists)), abs=1e-9)
    # New lists have no labels.
    Path("new.csv").write_text(f"user,film\n{lists.topics[0]},{lists.items[0]}\nnobody,{lists.items[0]}\n")
    score = f"score m.safetensors new.csv {columns} --out new.txt"
    assert "new.csv: found topic 'nobody', which the ranker was not trained on" in program(score, status=2)
    program(f"{score} --unknown mean")


@pytest.mark.parametrize("features", ["", " 1:0.5 7:2"])
def test_letor_text_of_items_that_recur(tmp_path: Path, program: Program, features: str) -> None:
    """Its features, if any, are not read."""
    lists, text, model, out = small(), tmp_path / "r.txt", tmp_path / "m.safetensors", tmp_path / "run.txt"
    lines = [f"{label:g} qid:{topic[1:]}{features} #docid = {item}\n" for topic, item, label in frame(lists).rows()]
    text.write_text("".join(lines))
    program(f"train {text} --model matrix-factorization --epochs 1 --out {model}")
    program(f"score {model} {text} --out {out}")
    assert len(rb.read_run(out).items) == len(lists.items)
