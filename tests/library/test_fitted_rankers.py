"""Rankers that are fitted without gradients of a loss, each against its definition in full, and as rankers."""

import re
from dataclasses import replace
from itertools import pairwise, product
from math import exp, log
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import torch

import rankbound as rb
from rankbound import rankers
from rankbound.kernels.formulas import Floats
from rankbound.rankers import Columns, Performance, Selection
from rankbound.rankers.ensembles import BINS, fit_adarank, fit_rankboost, potentials, thresholds
from rankbound.rankers.linear import Pairs, Violations, fit_coordinate_ascent, fit_subset_ranking, pass_of_prank, solve
from rankbound.texts import derive_seed
from rankbound.training.recipe import CHOICES, COUNTED, FITTED_MODELS, PAIR_MODELS
from tests.library.conftest import Program
from tests.library.pages import programs
from tests.library.planted_ratings import frame, lists_of, ratings
from tests.library.refusals import problems, refusals
from tests.library.test_ranker import planted, value

SIZES = (4, 1, 9, 0, 17, 6)
NDCG, AP = rb.metric("nDCG"), rb.metric("AP")
UNBOUNDED = rb.bound("none")
RATED = ratings(users=20, items=15)


def columns_of(seed: int = 0, n_features: int = 5, sizes: tuple[int, ...] = SIZES, **given: Any) -> Columns:
    """Lists whose features and labels have ties."""
    random, n = np.random.default_rng(seed), sum(sizes)
    values = random.normal(size=(n_features, n)).astype(np.float32)
    values[0] = values[0].round()
    relevance = random.integers(0, 4, n) * (random.random(n) < 0.6).astype(float)
    shares = random.random(len(sizes)) + 0.1
    made = {
        "values": values,
        "relevance": relevance,
        "offsets": np.append(0, np.cumsum(sizes)),
        "shares": shares / shares.sum(),
    }
    return Columns(**(made | given))


def pairs_of(columns: Columns) -> list[tuple[int, int, int]]:
    """List, better item and worse item of each pair."""
    return [
        (t, i, j)
        for t, (first, last) in enumerate(zip(columns.offsets[:-1], columns.offsets[1:], strict=True))
        for i, j in product(range(first, last), repeat=2)
        if columns.relevance[i] > columns.relevance[j]
    ]


class Rounds(Selection):
    """A selection that remembers what it was offered."""

    def __init__(self, held_out: Columns | None = None) -> None:
        self.losses: list[float] = []
        self.models: list[dict[str, Any]] = []
        super().__init__(held_out, NDCG, lambda *epoch: self.losses.append(epoch[1]))

    def offer(self, epoch: int, loss: float, scores: Floats | None, model: Any) -> None:
        self.models.append(model())
        super().offer(epoch, loss, scores, model)


# Metrics of many scores
METRICS = [
    *("nDCG", "nDCG@3", "nDCG(gain=linear)@5", "DCG", "AP", "AP@4", "AP(rel=2)", "RR", "RR@2", "Hit@3", "Hit(rel=2)@3"),
    *("P@3", "Recall@4", "RBP(p=0.8)", "ERR(max=3)", "PairAccuracy"),
]


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        *product(METRICS, ["none", "min-max", "expectation", "expectation-max"]),
        ("P@3", "distribution"),
        ("RR", "distribution"),
    ],
)
def test_performances_are_those_of_the_metric(text: str, bound: str, each_way: None, monkeypatch: Any) -> None:
    monkeypatch.setattr(rankers, "ITEMS_WORTH_THREADS", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    columns = columns_of(3, sizes=(*SIZES, 700))
    scores, steps = columns.weighted_sum(np.arange(5.0)).round(), np.array([-1.5, 0.0, 2.0])
    performance = Performance(rb.metric(text), rb.bound(bound), columns.relevance, columns.offsets)
    found = performance.of_steps(scores, columns.values[0], steps)
    of = rb.bounded(text, bound)
    for step, values in zip(steps, found, strict=True):
        expected = of(scores + step * columns.values[0], columns.relevance, columns.offsets)
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)
    assert performance.largest >= np.nanmax(np.abs(found)) - 1e-12


def test_scores_and_products_are_of_double_precision(each_way: None) -> None:
    columns, random = columns_of(1, 3, (9_000, 8_000)), np.random.default_rng(0)
    weights, values = random.normal(size=3), random.normal(size=17_000)
    exact = columns.values.astype(np.float64)
    np.testing.assert_allclose(columns.weighted_sum(weights), weights @ exact, rtol=0, atol=1e-13)
    np.testing.assert_allclose(columns.products(values), exact @ values, rtol=0, atol=1e-10)


# Ranking SVM
@pytest.mark.parametrize("pair_weights", ["equal", "list"])
@pytest.mark.parametrize("cost", [0.1, 30.0])
def test_the_svm_is_that_of_explicit_pairs(pair_weights: str, cost: float, each_way: None) -> None:
    svm = pytest.importorskip("sklearn.svm")
    columns = columns_of(7, sizes=(30, 1, 12, 25, 8))
    # Learned well enough that many pairs keep the margin.
    liking = np.array([2, -1, 0.5, 0, 0]) @ columns.values + np.random.default_rng(0).normal(size=76) / 2
    columns = replace(columns, relevance=np.digitize(liking, [0.0, 1.5]).astype(float))
    found = pairs_of(columns)
    lists = np.array([t for t, _, _ in found])
    weights = columns.shares[lists] / (np.bincount(lists)[lists] if pair_weights == "list" else 1)
    signs = np.where(np.arange(len(found)) % 2, 1.0, -1.0)
    differences = np.array([columns.values[:, i].astype(float) - columns.values[:, j] for _, i, j in found])
    peer = svm.LinearSVC(C=cost, loss="squared_hinge", dual=False, fit_intercept=False, tol=1e-10, max_iter=10_000)
    peer.fit(differences * signs[:, None], signs, sample_weight=weights / weights.sum())
    own, objective, steps = solve(columns, Pairs(columns, pair_weights), cost, np.zeros(5), 100)
    np.testing.assert_allclose(own, peer.coef_[0], rtol=1e-6, atol=1e-7)
    margins = np.maximum(0, 1 - differences @ own)
    assert objective == pytest.approx(own @ own / 2 + cost * (weights / weights.sum()) @ margins**2, rel=1e-12)
    assert steps < 30


@pytest.mark.parametrize("seed", range(3))
def test_sums_over_violating_pairs_are_those_of_all_pairs(seed: int, each_way: None) -> None:
    columns = columns_of(seed)
    random, n = np.random.default_rng(seed), len(columns.relevance)
    # Ties, and pairs exactly a margin apart.
    scores, direction = random.integers(-12, 13, n) / 16.0, random.normal(size=n)
    pairs = Pairs(columns, "equal")
    loss, slopes, bend = 0.0, np.zeros(n), np.zeros(n)
    for t, i, j in pairs_of(columns):
        margin = 1 - scores[i] + scores[j]
        if margin > 0:
            loss += pairs.of_list[t] * margin**2
            for item, sign in ((i, 1), (j, -1)):
                slopes[item] -= sign * 2 * pairs.of_list[t] * margin
                bend[item] += sign * 2 * pairs.of_list[t] * (direction[i] - direction[j])
    found = Violations(pairs, torch.from_numpy(columns.offsets), scores)
    assert found.loss == pytest.approx(loss, abs=1e-12)
    np.testing.assert_allclose(found.slopes, slopes, atol=1e-12)
    np.testing.assert_allclose(found.bend(direction), bend, atol=1e-12)


# AdaRank
def test_rounds_of_adarank_by_hand() -> None:
    # The first feature orders two lists rightly (RR 1) and one wrongly (RR 1/2), the second one the other way round.
    values = np.float32([[1, -1, 1, -1, -1, 1], [-2, 2, -2, 2, 2, -2]])
    thirds = np.full(3, 1 / 3)
    columns = Columns(values, np.array([1.0, 0, 1, 0, 1, 0]), np.arange(0, 7, 2), thirds)
    rounds = Rounds()
    fit_adarank(columns, rounds, of=rb.metric("RR"), bound=UNBOUNDED, epochs=3)

    def alpha(phi: float) -> float:
        return 0.5 * log((1 + phi) / (1 - phi))

    near, far = exp(-1), exp(-0.5)
    first = alpha(5 / 6)
    # Then the first one is the best again, .774 to .726, but changes nothing.
    second = alpha((2 * near * 0.5 + far) / (2 * near + far))
    third = alpha((2 * far + near * 0.5) / (2 * far + near))
    expected = [[first, 0], [first, second], [first + third, second]]
    np.testing.assert_allclose([model["weights"] for model in rounds.models], expected, rtol=1e-12)
    np.testing.assert_allclose(rounds.losses, [(2 * near + far) / 3, (2 * far + near) / 3, (2 * near + far) / 3])


@pytest.mark.parametrize("bound", ["none", "min-max", "expectation", "expectation-max"])
@pytest.mark.parametrize("text", ["nDCG", "AP", "RR", "P@2"])
def test_the_performance_is_at_least_the_bound_of_the_theorem_in_every_round(text: str, bound: str) -> None:
    sizes, total = (5, 8, 3, 12, 7, 9), 0
    for seed in range(4):
        columns = columns_of(seed, sizes=sizes, relevance=np.resize([2.0, 0, 0, 1, 0], sum(sizes)))
        performance = Performance(rb.metric(text), rb.bound(bound), columns.relevance, columns.offsets)
        unit, rounds = max(performance.largest, 1.0), Rounds()
        fit_adarank(columns, rounds, of=rb.metric(text), bound=rb.bound(bound), epochs=15)
        shares, weights, values, product_of = columns.shares, np.zeros(5), np.zeros(6), 1.0
        total += len(rounds.models)
        for model in rounds.models:
            (feature,) = np.flatnonzero(model["weights"] != weights)
            alpha, weights = (model["weights"] - weights)[feature], model["weights"]
            own = performance.of(columns.values[feature].astype(float)) / unit
            phi = float(shares @ own)
            if phi > 1 - 1e-9:
                break
            assert alpha == pytest.approx(0.5 * log((1 + phi) / (1 - phi)))
            before, values = values, performance.of(columns.weighted_sum(weights)) / unit
            product_of *= exp(-(values - before - alpha * own).min()) * (1 - phi**2) ** 0.5
            assert values @ columns.shares >= 1 - product_of - 1e-12
            shares = np.exp(-values) * columns.shares
            shares = shares / shares.sum()
    assert total > 15


# RankBoost
def exponentials_of(columns: Columns, scores: Floats, pair_weights: str) -> dict[tuple[int, int], float]:
    """Weight times exponential of each pair."""
    found = pairs_of(columns)
    counts = np.bincount([t for t, _, _ in found], minlength=len(columns.shares))
    weights = [columns.shares[t] / (counts[t] if pair_weights == "list" else 1) for t, _, _ in found]
    return {(i, j): w / sum(weights) * exp(scores[j] - scores[i]) for (_, i, j), w in zip(found, weights, strict=True)}


@pytest.mark.parametrize("pair_weights", ["equal", "list"])
def test_rounds_of_rankboost_are_those_of_all_pairs(pair_weights: str, each_way: None) -> None:
    for seed, highest in ((0, 1.0), (1, 3.0)):
        columns = columns_of(seed)
        columns = replace(columns, relevance=columns.relevance.clip(max=highest))
        rounds, n = Rounds(), len(columns.relevance)
        fit_rankboost(columns, rounds, pair_weights=pair_weights, epochs=12)
        scores, before = np.zeros(n), 1.0
        for number, loss in enumerate(rounds.losses):
            weighted = exponentials_of(columns, scores, pair_weights)
            exceeds = columns.values[:, :, None] > columns.values[:, None, :]
            advantages = sum(w * (exceeds[:, i] * 1.0 - exceeds[:, j]) for (i, j), w in weighted.items()) / before
            largest = float(np.abs(advantages).max())
            scores = scores_of(columns, rounds.models[number])
            found = sum(exponentials_of(columns, scores, pair_weights).values())
            assert loss == pytest.approx(found, rel=1e-6)
            assert loss <= before * (1 - largest**2) ** 0.5 * (1 + 1e-6)
            step = scores - (scores_of(columns, rounds.models[number - 1]) if number else 0)
            assert np.ptp(step) == pytest.approx(0.5 * log((1 + largest) / (1 - largest)), rel=1e-5)
            before = loss
        assert len(rounds.losses) == 12


def scores_of(columns: Columns, model: dict[str, Any]) -> Floats:
    exceeds = columns.values[model["features"]] > model["thresholds"][:, None]
    return model["weights"].astype(float) @ exceeds


def test_potentials_keep_their_range() -> None:
    columns = columns_of()
    pairs, scores = Pairs(columns, "equal"), columns.weighted_sum(np.ones(5))
    for moved in (scores, scores + 5_000):
        weighted = exponentials_of(columns, scores, "equal")
        potential, loss = potentials(pairs, moved)
        expected = np.zeros(len(scores))
        for (i, j), weight in weighted.items():
            expected[i] += weight
            expected[j] -= weight
        np.testing.assert_allclose(potential, expected, atol=1e-11)
        assert loss == pytest.approx(sum(weighted.values()))


def test_thresholds_are_distinct_values_or_quantiles() -> None:
    random = np.random.default_rng(0)
    values = np.stack([random.integers(0, 5, 3_000), random.normal(size=3_000), np.ones(3_000)]).astype(np.float32)
    few, many, none = thresholds(values)
    np.testing.assert_array_equal(few, [0, 1, 2, 3])
    assert len(none) == 0
    assert len(many) == BINS - 1
    shares = np.bincount(np.searchsorted(many, values[1])) / 3_000
    assert shares.max() < 2 / BINS


# Coordinate ascent
@pytest.mark.parametrize(("text", "bound"), [("nDCG", "none"), ("AP", "min-max"), ("RR", "expectation")])
def test_coordinate_ascent_reaches_the_best_of_all_directions_of_two_features(text: str, bound: str) -> None:
    for seed in range(3):
        columns = columns_of(seed, 2, (8, 9, 10, 11) * 10)
        liking = np.array([1, -0.4 * seed]) @ columns.values + np.random.default_rng(seed).normal(size=380)
        relevance = np.digitize(liking, [0.5, 1.5]).astype(float)
        relevance[columns.offsets[:-1]], relevance[columns.offsets[:-1] + 1] = 1, 0
        columns = replace(columns, relevance=relevance)
        performance = Performance(rb.metric(text), rb.bound(bound), columns.relevance, columns.offsets)
        rounds, angles = Rounds(), np.linspace(-np.pi, np.pi, 501)
        fit_coordinate_ascent(columns, rounds, of=rb.metric(text), bound=rb.bound(bound), starts=4, epochs=200, seed=1)
        directions = (columns.weighted_sum(np.array([np.cos(angle), np.sin(angle)])) for angle in angles)
        best = max(float(performance.of(scores) @ columns.shares) for scores in directions)
        reached = float(performance.of(columns.weighted_sum(rounds.model["weights"])) @ columns.shares)
        assert reached >= best - 0.002, (seed, reached, best)
        assert -min(rounds.losses) == pytest.approx(reached)


def test_sweeps_of_a_start_never_lose_and_a_seed_repeats_them() -> None:
    columns, losses = columns_of(2, sizes=(8, 9, 10, 11), relevance=np.resize([0.0, 2, 0, 1, 0], 38)), []
    for seed in (0, 0, 1):
        rounds = Rounds()
        fit_coordinate_ascent(columns, rounds, of=AP, bound=UNBOUNDED, starts=1, epochs=50, seed=seed)
        assert all(later <= before + 1e-12 for before, later in zip(rounds.losses, rounds.losses[1:], strict=False))
        assert len(rounds.losses) < 50
        losses.append(tuple(rounds.losses))
    assert losses[0] == losses[1]


# Subset ranking
@pytest.mark.parametrize("top", [1, 3, 10])
def test_subset_ranking_minimises_what_it_states(top: int) -> None:
    columns = columns_of(3, sizes=(4, 1, 9, 17, 6))
    gains, offsets = 2**columns.relevance - 1, columns.offsets

    def losses(scores: Floats) -> list[float]:
        values = []
        for first, last in pairwise(offsets):
            own, excess = gains[first:last], scores[first:last] - gains[first:last]
            is_top = own >= sorted(own, reverse=True)[: min(top, len(own))][-1]
            values.append(float(np.sum(np.where(is_top, excess**2, excess.clip(min=0) ** 2))))
        return values

    def objective(weights: Floats, constant: float, cost: float = 2.0) -> float:
        scores = columns.weighted_sum(weights) + constant
        return float(0.5 * weights @ weights + cost * columns.shares @ losses(scores))

    rounds = Rounds()
    fit_subset_ranking(columns, rounds, cost=2.0, top=top, epochs=100)
    weights, random = rounds.model["weights"], np.random.default_rng(0)
    constants = np.linspace(-3, 8, 2_201)
    reached = min(objective(weights, constant) for constant in constants)
    assert rounds.losses[-1] == pytest.approx(reached, rel=1e-5)
    for _ in range(20):
        other = weights + random.normal(size=5) * random.choice([1e-3, 1e-1])
        assert min(objective(other, constant) for constant in constants[::20]) >= rounds.losses[-1] - 1e-9


# PRank
def test_steps_of_prank_are_those_of_the_paper(each_way: None) -> None:
    columns = columns_of(1)
    rows, grades = np.ascontiguousarray(columns.values.T), columns.relevance.astype(np.int64)
    weights, thresholds, order = np.zeros(5), np.zeros(3), np.random.default_rng(1).permutation(len(grades))
    totals = pass_of_prank(rows, grades, order, weights, thresholds)
    w, b, distance, count = [0.0] * 5, [0.0] * 3, 0, 0
    for i in order:
        score = sum(a * float(x) for a, x in zip(w, rows[i], strict=True))
        predicted = next((r for r in range(3) if score - b[r] < 0), 3)
        distance += abs(predicted - int(grades[i]))
        signs = [1 if grades[i] > r else -1 for r in range(3)]
        taus = [sign if (score - limit) * sign <= 0 else 0 for sign, limit in zip(signs, b, strict=True)]
        w = [a + sum(taus) * float(x) for a, x in zip(w, rows[i], strict=True)]
        b = [limit - tau for limit, tau in zip(b, taus, strict=True)]
        count += sum(map(abs, taus))
        assert b == sorted(b)
    np.testing.assert_allclose(weights, w, atol=1e-9)
    assert (thresholds.tolist(), totals) == (b, (distance, count))


# Trees
@pytest.mark.parametrize("classification", ["multiclass", "ordinal"])
def test_mcrank_ranks_by_expected_grades(classification: str) -> None:
    lists = planted()
    options = {"model": "mcrank", "classification": classification, "epochs": 20, "validation_share": 0}
    ranker = rb.train_ranker(lists, **options, scale="none")
    expected, grades = np.zeros(480), np.unique(lists.relevance)
    texts = bytes(ranker.model.get_buffer("trees").numpy()).split(b"\0")
    boosters = [lightgbm.Booster(model_str=text.decode()) for text in texts]
    if classification == "multiclass":
        (booster,) = boosters
        for grade, chances in zip(grades, booster.predict(lists.features).T, strict=True):
            expected += grade * chances
    else:
        above = np.stack([np.ones(480), *(one.predict(lists.features) for one in boosters)])
        for place, grade in enumerate(grades):
            next_one = above[place + 1] if place + 1 < len(grades) else 0.0
            expected += grade * (above[place] - next_one)
    np.testing.assert_allclose(ranker.score(lists.features), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", ["mart", "lambdamart", "random-forest"])
def test_trees_are_those_of_lightgbm(model: str) -> None:
    lists = planted()
    ranker = rb.train_ranker(lists, model=model, epochs=10, validation_share=0, scale="none", leaves=7)
    objective = "lambdarank" if model == "lambdamart" else "regression"
    forest = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.632, "feature_fraction_bynode": 1 / 3}
    options = {"objective": objective, "num_leaves": 7, "verbosity": -1, "seed": derive_seed("trees", 0) % 2**31}
    options |= forest if model == "random-forest" else {}
    data = lightgbm.Dataset(lists.features, lists.relevance, group=np.diff(lists.offsets))
    booster = lightgbm.train(options, data, ranker.record["epoch"])
    np.testing.assert_allclose(ranker.score(lists.features), booster.predict(lists.features), rtol=1e-5, atol=1e-6)


def test_bounds_change_boosted_trees() -> None:
    def scores(bound: str) -> Floats:
        options = {"loss": "nDCG", "bound": bound, "epochs": 5, "validation_share": 0}
        return np.asarray(rb.train_ranker(planted(), model="boosted-trees", **options).score(planted().features))

    assert np.abs(scores("none") - scores("min-max")).max() > 0.01


# As rankers
@pytest.mark.parametrize("scale", ["standard", "query"])
@pytest.mark.parametrize(
    ("model", "least"),
    [
        *(("linear", 0.9), ("mlp", 0.9)),
        *(("ranksvm", 0.98), ("coordinate-ascent", 0.98), ("subset-ranking", 0.98), ("prank", 0.98)),
        *(("mart", 0.97), ("lambdamart", 0.96), ("mcrank", 0.96), ("boosted-trees", 0.96), ("rankboost", 0.95)),
        *(("random-forest", 0.93), ("adarank", 0.84)),
    ],
)
def test_what_is_planted_is_learned(model: str, least: float, scale: str) -> None:
    epochs, own = list[Any](), {"bound": "min-max"} if "bound" in FITTED_MODELS.get(model, ["bound"]) else {}
    own |= {} if model in FITTED_MODELS else {"learning_rate": 0.05}
    ranker = rb.train_ranker(planted(), model=model, epochs=25, scale=scale, on_epoch=epochs.append, **own)
    assert value(ranker, planted(seed=1)) > least - (0.15 if scale == "query" else 0)
    assert ranker.record["epoch"] in [epoch.number for epoch in epochs]
    best = max(epoch.metrics["validation"]["nDCG@10"] for epoch in epochs)
    assert ranker.record["validation"] == best


def test_the_validation_chooses_the_cost_and_weights_of_lists_count() -> None:
    lists = planted()
    ranker = rb.train_ranker(lists, model="ranksvm")
    chosen = ranker.record["cost"]
    values = {cost: rb.train_ranker(lists, model="ranksvm", cost=cost) for cost in (1e-4, chosen)}
    assert values[chosen].record["validation"] == pytest.approx(ranker.record["validation"], abs=1e-3)
    assert values[1e-4].record["validation"] <= ranker.record["validation"]
    # Lists of weight 0 are left out.
    weights = np.where(np.arange(40) < 25, 1.0, 0.0)
    few = lists_of([12] * 25, lists.relevance[:300], lists.features[:300], lists.feature_names)
    costs = {"ranksvm": {"cost": 1.0}, "subset-ranking": {"cost": 1.0}}
    for model, own in ((model, costs.get(model, {})) for model in FITTED_MODELS):
        options = {"model": model, "scale": "none", "validation_share": 0, "epochs": 4, **own}
        weighted = rb.train_ranker(lists, list_weights=weights, **options)
        alone = rb.train_ranker(few, **options)
        np.testing.assert_allclose(weighted.score(lists.features), alone.score(lists.features), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("model", CHOICES["model"])
def test_every_model_is_trained_by_the_command_line_and_across_folds(
    model: str, tmp_path: Path, program: Program
) -> None:
    lists = RATED.lists(RATED.known) if model in PAIR_MODELS else planted()
    own: dict[str, Any] = {"ranksvm": {"cost": 1}, "attention": {"blocks": 1}}
    is_fitted = model in FITTED_MODELS or model in COUNTED
    options = {"epochs": 4, **({} if is_fitted else {"learning_rate": 0.05}), **own.get(model, {})}
    path, out = tmp_path / "lists.csv", tmp_path / "model.safetensors"
    frame(lists).write_csv(path)
    flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items())
    shown = program(f"train {path} --model {model} {flags} --out {out}")
    loss = "" if is_fitted and "loss" not in FITTED_MODELS.get(model, ()) else "loss nDCG, "
    assert f"\n{loss}{model} model" in shown
    assert model != "ranksvm" or re.search(r"ranksvm model: epoch \d, cost 1\n", shown)
    ranker, loaded = rb.train_ranker(lists, model=model, **options), rb.load(out)
    assert loaded.recipe == ranker.recipe
    np.testing.assert_array_equal(loaded.score_lists(lists).scores, ranker.score_lists(lists).scores)
    tested = rb.cross_validate(lists, 2, model=model, **options)
    assert len(tested.run.items) == len(lists.items)
    assert tested.evaluate("nDCG").means()["nDCG"] > 0.5


test_what_has_no_meaning_is_refused = refusals(
    [
        *problems("fitted rankers"),
        ({"model": "adarank", "hidden": (3,)}, r"hidden: found \(3,\) beside the model adarank"),
        ({"model": "prank", "list_weights": np.arange(1, 41.0)}, "list_weights: found different ones beside"),
        ({"model": "rankboost", "weights": np.ones(480)}, "weights: found weights of items beside the model rankboost"),
    ],
    lambda recipe: rb.train_ranker(planted(), **recipe),
)


def test_the_page_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = programs("models.md")
    exec(program, {})
    printed = capsys.readouterr().out
    assert all(f"{model} " in printed for model in ("linear", *FITTED_MODELS))
