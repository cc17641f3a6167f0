"""Recommended lists, metrics over all items, popularity and item neighbours, each against its definition in full.

Measures of such lists are those of plain Python over all orders of ties.
"""

import contextlib
import math
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import rankbound as rb
from rankbound import recommendations
from rankbound.training import models
from rankbound.training.recipe import build_factors
from tests.library.conftest import Program
from tests.library.pages import follow, programs
from tests.library.planted_ratings import frame, orders_of, ratings
from tests.library.refusals import refusals

METRICS = ["nDCG@10", "nDCG(gain=linear)@3", "Recall@5", "P@5", "AP", "RR", "Hit@3", "PairAccuracy", "RBP(p=0.8)"]
OF_RUNS = ["SetP", "Bpref", "Judged@10", "infAP"]
QUICK: dict[str, Any] = {"factors": 4, "epochs": 2, "learning_rate": 0.05, "device": "cpu", "unknown": "mean"}
FACTORIZATIONS = ("matrix-factorization", "neural-mf")
COUNTED = ("popularity", "item-knn", "ease")
PLANTED = ratings(users=30, items=24)
TRAIN = PLANTED.lists(PLANTED.known)
TEST = PLANTED.lists(PLANTED.tested)


def ranker_of(model: str, **recipe: Any) -> rb.Ranker:
    return rb.train_ranker(TRAIN, model=model, **(QUICK | recipe))


@pytest.fixture(params=[*FACTORIZATIONS, *COUNTED])
def ranker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> rb.Ranker:
    """A ranker whose scores are computed in blocks of a few topics."""
    monkeypatch.setattr(models, "SCORES_AT_ONCE", 24 * 7)
    return ranker_of(request.param, **({"loss": "RankNet"} if request.param in FACTORIZATIONS else {}))


def every(ranker: rb.Ranker, topics: list[str]) -> pl.DataFrame:
    """All items of all topics with their scores, by `score_lists`."""
    items = sorted({*TRAIN.items})
    pairs = pl.DataFrame({"topic": topics}).join(pl.DataFrame({"item": items}), how="cross")
    lists = rb.read_lists(pairs.with_columns(relevance=0), features=[])
    return pairs.with_columns(score=ranker.score_lists(lists).scores)


def pairs_of(lists: rb.Qrels) -> set[tuple[str, str]]:
    return set(frame(lists).select("topic", "item").rows())  # type: ignore[arg-type]


# Lists
@pytest.mark.parametrize("k", [1, 3, 24, 100])
@pytest.mark.parametrize("excluded", [(), (TRAIN,), (TRAIN, TEST)], ids=len)
def test_the_best_items_of_all_are_recommended(ranker: rb.Ranker, k: int, excluded: tuple[rb.Qrels, ...]) -> None:
    topics = ["u3", "new", "u0", *(f"u{place}" for place in range(10, 25))]
    left_out = {pair for lists in excluded for pair in pairs_of(lists)}
    run = ranker.recommend(topics, k, exclude=excluded)
    assert run.topics == topics
    expected = every(ranker, topics)
    for place, topic in enumerate(topics):
        own = slice(*run.offsets[[place, place + 1]])
        rows = [row for row in expected.filter(topic=topic).rows() if row[:2] not in left_out]
        by_name = {item: score for _, item, score in rows}
        assert set(run.items[own]) <= {*by_name}
        np.testing.assert_allclose(run.scores[own], [by_name[item] for item in run.items[own]], rtol=1e-5, atol=1e-6)
        assert len(run.items[own]) == min(k, len(rows))
        best = sorted(run.scores[own].tolist(), reverse=True)
        assert run.scores[own].tolist() == best
        np.testing.assert_allclose(best, sorted(by_name.values(), reverse=True)[:k], rtol=1e-5, atol=1e-6)
        ties = list(zip(-run.scores[own], run.items[own], strict=True))
        assert ties == sorted(ties)


def test_ties_at_the_last_place_are_in_the_order_of_names() -> None:
    generator = torch.Generator().manual_seed(0)
    for k in (0, 1, 4, 9):
        scores = torch.randint(4, (50, 9), generator=generator).float()
        expected = [sorted(range(9), key=lambda at, row=row: (-row[at], at))[:k] for row in scores.tolist()]
        assert models.first_of(scores, k).tolist() == expected


def test_topics_may_be_lists_or_all() -> None:
    ranker = ranker_of("popularity")
    assert ranker.recommend(TEST, 2).topics == list(TEST.topics)
    assert ranker.recommend(k=2).topics == sorted(TRAIN.topics)
    assert len(ranker.recommend([], 2).items) == 0
    unknown = rb.Qrels(topics=["u0"], items=["?"], relevance=[1], offsets=[0, 1])
    assert len(ranker.recommend(["u0"], exclude=unknown).items) > 0


# Metrics
@pytest.mark.parametrize("excluded", [(), (TRAIN,)], ids=len)
def test_metrics_over_all_items_are_those_of_the_table_of_pairs(ranker: rb.Ranker, excluded: Any) -> None:
    """To the last digit; of runs, too, with items and topics that the ranker does not know."""
    found = rb.evaluate_catalogue(ranker, TEST, METRICS, exclude=excluded)
    left_out = {pair for lists in excluded for pair in pairs_of(lists)}
    run = ranker.recommend(TEST, 100, exclude=excluded)
    pairs = pl.DataFrame({"topic": np.repeat(run.topics, np.diff(run.offsets)), "item": run.items, "score": run.scores})
    assert left_out.isdisjoint(pairs.select("topic", "item").rows())
    judged = pairs.join(frame(TEST), on=["topic", "item"], how="left", maintain_order="left").fill_null(0)
    if not excluded:
        whole = rb.evaluate(METRICS, judged["score"], judged["relevance"], run.offsets)
        for name, values in whole.items():
            np.testing.assert_array_equal(found.values[name], values.numpy(), err_msg=name)
    more = pl.concat(
        [
            frame(TEST),
            pl.DataFrame(
                {"topic": ["new", "u1", "u1", "u2"], "item": ["i1", "a", "b", "c"], "relevance": [1, 1, 2, 0]}
            ),
        ]
    )
    test = rb.read_lists(more.sample(fraction=1, shuffle=True, seed=1), features=[])
    for metrics in (METRICS[:7], OF_RUNS):
        found = rb.evaluate_catalogue(ranker, test, metrics, exclude=excluded)
        whole = rb.evaluate_run(ranker.recommend(test, 100, exclude=excluded), test, metrics)
        assert found.topics == whole.topics == list(test.topics)
        for name, values in whole.values.items():
            # Where items are tied beside missing ones, the sum over them has another order.
            np.testing.assert_allclose(found.values[name], values, rtol=1e-14, err_msg=name)


def test_an_excluded_relevant_item_is_not_retrieved() -> None:
    ranker = ranker_of("popularity")
    both = rb.evaluate_catalogue(ranker, TRAIN, ["Recall@24", "AP"], exclude=TRAIN)
    assert np.nanmax([both.values["Recall@24"], both.values["AP"]]) == 0


# Models
def relevant_pairs() -> tuple[list[str], list[str], Any]:
    """Topics and items in the order of their names, and which pairs are relevant."""
    topics, items = sorted(TRAIN.topics), sorted({*TRAIN.items})
    relevant = np.zeros((len(topics), len(items)))
    for topic, item, label in frame(TRAIN).rows():
        relevant[topics.index(topic), items.index(item)] = label > 0
    return topics, items, relevant


def test_popularity_counts_and_neighbours_add_up_cosines() -> None:
    topics, items, relevant = relevant_pairs()
    for k in (1, 5, 100):
        common, counts = relevant.T @ relevant, relevant.sum(0).clip(min=1)
        cosine = (common / np.sqrt(counts[:, None] * counts)).astype(np.float32)
        np.fill_diagonal(cosine, -1)
        expected = np.zeros_like(relevant)
        for item in range(len(items)):
            nearest = sorted(range(len(items)), key=lambda other, item=item: (-cosine[item, other], other))[:k]
            for other in nearest:
                if other != item:
                    expected[:, other] += relevant[:, item] * cosine[item, other]
        ranker = ranker_of("item-knn", neighbours=k)
        scores = every(ranker, topics)["score"].to_numpy().reshape(len(topics), -1)
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
        means = every(ranker, ["new"])["score"].to_numpy()
        np.testing.assert_allclose(means, expected.mean(0), rtol=1e-5, atol=1e-6)
        cold = pl.DataFrame({"topic": ["u0", "u0"], "item": ["?", "i1"], "relevance": [0, 0]})
        score = ranker.score_lists(rb.read_lists(cold)).scores[0]
        assert score == pytest.approx(expected[topics.index("u0")].mean(), rel=1e-5)
    assert every(ranker_of("popularity"), topics)["score"].to_list() == [*relevant.sum(0).tolist()] * len(topics)


def test_ease_is_the_ridge_regression_of_each_item_on_all_others() -> None:
    """Without the closed form: the normal equations of each item by itself, with its own column left out."""
    topics, items, relevant = relevant_pairs()
    for ridge in (0.5, 100.0):
        expected = np.zeros_like(relevant)
        for place in range(len(items)):
            others = np.delete(relevant, place, 1)
            weights = np.linalg.solve(others.T @ others + ridge * np.eye(len(items) - 1), others.T @ relevant[:, place])
            expected[:, place] = others @ weights
        ranker = ranker_of("ease", ridge=ridge)
        found = every(ranker, topics)["score"].to_numpy().reshape(len(topics), -1)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        mean = every(ranker, ["new"])["score"].to_numpy()
        np.testing.assert_allclose(mean, expected.mean(0), rtol=1e-4, atol=1e-5)


def test_neural_factorisation_is_a_product_and_a_network() -> None:
    model = build_factors(rb.Recipe(model="neural-mf", factors=3, hidden=(5,), activation="tanh"), 4, 6)
    model.item_bias.data.normal_()
    given = dict(model.state_dict())
    topic, item = 2, 5
    found = model.of_topics(torch.tensor([0, topic, -1]))
    for place, factors, inputs in (
        (1, given["topics"][topic], given["topic_inputs"][topic]),
        (2, given["topics"].mean(0), given["topic_inputs"].mean(0)),
    ):
        pair = torch.cat([inputs, given["item_inputs"][item]])
        hidden = torch.tanh(given["network.layers.0.weight"] @ pair + given["network.layers.0.bias"])
        network = given["network.layers.2.weight"] @ hidden + given["network.layers.2.bias"]
        expected = factors @ given["items"][item] + network + given["item_bias"][item]
        torch.testing.assert_close(found[place, item], expected.squeeze())


@pytest.mark.parametrize("model", COUNTED)
def test_validation_lists_are_evaluated(model: str) -> None:
    ranker = rb.train_ranker(TRAIN, TEST, model=model)
    values = rb.evaluate_run(ranker.score_lists(TEST), TEST, "nDCG@10")
    assert ranker.record["validation"] == pytest.approx(values.means()["nDCG@10"])


NONE = torch.zeros(0, dtype=torch.int64)
LINEAR = replace(TRAIN, features=np.zeros((len(TRAIN.items), 1), np.float32), feature_names=["f"])
WITHOUT_RELEVANT = replace(TRAIN, relevance=np.zeros(len(TRAIN.items)))


test_what_is_refused = refusals(
    [
        (lambda one: one.recommend(["u1", "x", "y"], unknown="refuse"), r"'x' \(and 1 other topic\), which"),
        (lambda one: one.recommend(["u1", "u1"]), "topics: found 'u1' twice"),
        (lambda one: one.recommend("u1"), r"topics: found the text 'u1', expected a sequence .* \['u1'\]"),
        (lambda one: one.recommend(["u1"], 0), "k: found 0, expected a number of items from 1"),
        (lambda one: one.recommend(["u1"], unknown="skip"), "unknown: found skip"),
        (lambda one: rb.evaluate_catalogue(one, TEST, "alpha_nDCG@3"), "a metric of intents"),
        (lambda one: rb.evaluate_catalogue(one, TEST, "AP", undefined="one"), "undefined: found one"),
        (lambda one: rb.train_ranker(LINEAR, epochs=1).recommend(["u1"]), "ranker: found a linear model of features"),
        (lambda one: rb.train_ranker(TRAIN, TRAIN, model="popularity"), "is in the training and in the validation"),
        (lambda one: rb.train_ranker(WITHOUT_RELEVANT, model="item-knn"), r"all \d+ relevance labels are 0"),
        (lambda one: rb.Recipe(model="item-knn", neighbours=0), "neighbours: found 0"),
        (lambda one: rb.Recipe(model="ease", ridge=0), "ridge: found 0"),
        (lambda one: models.fit_ease(NONE, NONE, 1, 20_001, 1.0), "found 20001 items, but model ease has a weight"),
    ],
    lambda attempt: attempt(ranker_of("popularity")),
)
PAGE = "recommender.md"


def test_the_page_runs_as_it_stands(tmp_path: Path, program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    """Its table is what its program prints, its own code is short, and its lists are new to their users."""
    _, *others = programs(PAGE)
    assert sum(len(text.strip().splitlines()) for text in others) <= 30
    with contextlib.chdir(tmp_path):
        names = follow(PAGE, program, capsys, close=0.03)
        lists, split = rb.read_run("recommended.csv"), names["split"]
    assert np.diff(lists.offsets).tolist() == [20] * 250
    assert pairs_of(split.training).isdisjoint(zip(np.repeat(lists.topics, 20).tolist(), lists.items, strict=True))


# Measures of recommended lists
ITEMS = list("abcdef")
VECTORS = np.random.default_rng(0).normal(size=(6, 3))
TRAINING = {"u": {"a": 1, "b": 1, "c": 0}, "v": {"a": 1, "c": 1}, "w": {"a": 2, "d": 1, "e": 1, "f": 1, "b": 1}}
LATER = {"u": {"b": 1, "d": 1, "e": 0}, "v": {"a": 1, "f": 2}, "w": {"c": 1}}
EXPECTED = {"u": {"a": 2.0, "b": 1.0}, "w": {"f": 1.0}}
RUNS: list[dict[str, dict[str, float]]] = [
    {"u": {"a": 3.0, "b": 2.0, "d": 1.0}, "v": {"f": 1.0, "c": 0.5}},
    {"u": {"d": 1.0, "b": 1.0, "a": 1.0, "e": 1.0}, "w": {"c": 5.0, "f": 2.0, "a": 2.0}, "v": {"c": 1.0}},
    {"v": {"a": 0.0, "f": 0.0}, "w": {"b": 1.0, "d": 1.0, "c": 2.0, "e": 0.0}},
]


def shown(lists: dict[str, list[str]], k: int) -> list[str]:
    return [item for order in lists.values() for item in order[:k]]


def information(user: str, own: list[str]) -> float:
    counts = {item: sum(lists.get(item, 0) > 0 for lists in TRAINING.values()) for item in own}
    return math.fsum(-math.log2(count / len(TRAINING)) for count in counts.values()) / len(own)


def unlike(user: str, own: list[str]) -> float:
    rows = [VECTORS[ITEMS.index(item)] for item in own]
    cosines = [u @ v / np.linalg.norm(u) / np.linalg.norm(v) for u, v in combinations(rows, 2)]
    return 1 - math.fsum(cosines) / len(cosines) if cosines else math.nan


def surprising(user: str, own: list[str]) -> float:
    return sum(LATER[user].get(item, 0) > 0 and item not in EXPECTED.get(user, {}) for item in own) / len(own)


OF_TOPICS: dict[str, Any] = {
    "novelty": (lambda run, k: recommendations.novelty(run, TRAINING, k=k), information),
    "diversity": (lambda run, k: recommendations.diversity(run, ITEMS, VECTORS, k=k), unlike),
    "serendipity": (lambda run, k: recommendations.serendipity(run, LATER, EXPECTED, k=k), surprising),
}


@pytest.mark.parametrize("k", [1, 2, 3, 10])
@pytest.mark.parametrize("run", RUNS)
def test_values_are_means_over_all_orders_of_ties(run: dict[str, dict[str, float]], k: int) -> None:
    every = list(orders_of(run))
    covered = np.mean([len(set(shown(one, k))) / len(ITEMS) for one in every])
    assert recommendations.coverage(run, ITEMS, k=k) == pytest.approx(covered)
    turned = {user: dict(reversed(scores.items())) for user, scores in run.items()}
    for measure, own in OF_TOPICS.values():
        expected = [np.mean([own(user, one[user][:k]) for one in every]) for user in run]
        np.testing.assert_allclose([measure(run, k), measure(turned, k)], [expected] * 2, rtol=1e-12, atol=1e-14)
    counts = [sum(shown(one, k).count(item) for one in every) / len(every) for item in ITEMS]
    differences = sum(abs(x - y) for x, y in product(counts, counts))
    gini = differences / (2 * len(ITEMS) * sum(counts))
    assert recommendations.gini(run, ITEMS, k=k) == pytest.approx(gini)


def test_measures_of_few_items() -> None:
    everything = {f"u{place}": {item: 1.0} for place, item in enumerate(ITEMS)}
    assert recommendations.coverage(everything, ITEMS, k=1) == 1
    assert recommendations.gini(everything, ITEMS, k=1) == pytest.approx(0, abs=1e-12)
    assert recommendations.gini({"u": {"a": 1.0}}, ITEMS, k=1) == pytest.approx(5 / 6)
    empty = rb.Run(topics=["u"], items=[], scores=np.zeros(0), offsets=[0, 0])
    assert recommendations.coverage(empty, ITEMS, k=3) == 0
    assert math.isnan(recommendations.gini(empty, ITEMS, k=3))
    for measure, _ in OF_TOPICS.values():
        assert np.isnan(measure(empty, 3)).all()
    # An item beyond rank k may be unknown.
    assert recommendations.coverage({"u": {"a": 2.0, "z": 1.0}}, ITEMS, k=1) == pytest.approx(1 / 6)


RUN = {"u": {"a": 2.0, "z": 1.0}}
test_measures_that_are_refused = refusals(
    [
        (lambda: recommendations.coverage(RUN, ITEMS, k=0), "k: found 0, expected a number of items from 1"),
        (lambda: recommendations.coverage(RUN, ITEMS, k=2), "recommended item 'z' of topic 'u'"),
        (lambda: recommendations.gini(RUN, [], k=2), "items: found none, expected the names"),
        (lambda: recommendations.gini(RUN, ["a", "z", "a"], k=2), "items: found 'a' twice, expected each once"),
        (lambda: recommendations.novelty(RUN, TRAINING, k=2), "recommended item 'z' of topic 'u'"),
        (lambda: recommendations.novelty({"u": {"a": math.nan}}, TRAINING, k=2), "scores: found nan in topic u"),
        (lambda: recommendations.diversity(RUN, ITEMS, VECTORS[:3], k=1), "one row for each of 6 items"),
        (lambda: recommendations.diversity(RUN, ITEMS, 0 * VECTORS, k=1), "for item 'a', expected finite numbers"),
    ],
    lambda call: call(),
)
