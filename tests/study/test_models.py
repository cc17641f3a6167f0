"""Models: shapes, reproducible starts, penalised regressions, trees that say the same every time; and the controls."""

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pytest
import torch

import rankbound as rb
from rankbound.lists import Lists
from rankbound.training.models import INITIAL_RANGE, MLP, Factorization
from rankbound.training.trainer import Part
from rankbound_study.jobs.controls_job import popularity_scores
from rankbound_study.jobs.fit_by_steps import (
    FOREST,
    TableRows,
    TreeEnsemble,
    growth,
    lasso_path,
    pooled_rows,
    ridge_path,
)
from rankbound_study.jobs.models import Linear, StandardScale


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_factorisation_multiplies_factors_and_starts_in_the_printed_range() -> None:
    model = Factorization(3, 5, factors=4, generator=generator())
    topics, items = torch.tensor([0, 2, 2]), torch.tensor([4, 0, 4])
    expected = [model.topics[t] @ model.items[i] for t, i in zip(topics, items, strict=True)]
    torch.testing.assert_close(model(topics, items), torch.stack(expected))
    for factors in model.parameters():
        assert factors.abs().max() <= INITIAL_RANGE
        assert factors.abs().max() > INITIAL_RANGE / 2


def test_network_is_layer_by_layer_arithmetic() -> None:
    model = MLP(2, hidden=(3,), activation="tanh", generator=generator())
    features = torch.tensor([[1.0, -2.0], [0.5, 0.0]])
    first, _, last = model.layers
    expected = torch.tanh(features @ first.weight.T + first.bias) @ last.weight.T + last.bias
    torch.testing.assert_close(model(features), expected.squeeze(1))
    with pytest.raises(ValueError, match=r"activation: found 'gelu', expected one of relu"):
        MLP(2, activation="gelu")


@pytest.mark.parametrize("build", [lambda g: Factorization(4, 6, 2, generator=g), lambda g: MLP(3, (2,), generator=g)])
def test_same_generator_same_start_other_seed_other_start(build: Callable[..., Any]) -> None:
    first, same, other = (list(build(generator(seed)).parameters()) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, same, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_popularity_counts_relevant_training_items() -> None:
    training_items, training_relevance = torch.tensor([0, 1, 1, 1, 2]), torch.tensor([1, 1, 0, 1, 1])
    assert popularity_scores(torch.tensor([3, 0, 1]), training_items, training_relevance).tolist() == [0, 1, 2]


def test_a_linear_model_learns_nothing_where_no_example_has_a_feature() -> None:
    """More features than examples: its weights stay a combination of the examples, from zero on."""
    features = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0]])
    model = Linear(3)
    assert torch.equal(model(features), torch.zeros(2))
    for _ in range(3):
        model.zero_grad()
        (model(features) - torch.tensor([1.0, -1.0])).square().sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
    weight = model.weight.detach()
    assert float(weight[2]) == 0
    assert float(weight[0]) != 0


def test_scaled_features_have_mean_0_and_deviation_1_on_the_items_they_were_fitted_to() -> None:
    features = torch.tensor([[1.0, 5.0, 1e6], [2.0, 5.0, 1e6 + 1], [6.0, 5.0, 1e6 + 2]])
    scale = StandardScale(features)
    scaled = scale(features)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.tensor([1.0, 0.0, 1.0]), atol=1e-5, rtol=0)
    again = StandardScale(torch.zeros(2, 3))
    again.load_state_dict(scale.state_dict())
    assert torch.equal(again(features), scaled)


# Penalised regressions against their optimality conditions


def problem(n: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    features = torch.randn(n, d, generator=generator) + 3
    return features, features[:, 0] - 2 * features[:, 1] + 0.1 * torch.randn(n, generator=generator)


@pytest.mark.parametrize(("n", "d"), [(40, 6), (6, 40), (12, 12)])
def test_ridge_weights_have_no_gradient_left(n: int, d: int) -> None:
    features, labels = problem(n, d)
    for penalty, (weight, bias) in zip((1.0, 0.01), ridge_path(features.clone(), labels, (1.0, 0.01)), strict=True):
        exact, targets = features.double(), labels.double()
        weight, bias = weight.double().requires_grad_(), bias.double().requires_grad_()
        centred = exact - exact.mean(0)
        scale = penalty * centred.square().sum()
        ((exact @ weight + bias - targets).square().sum() + scale * weight.square().sum()).backward()
        size = (centred.T @ targets).abs().max()
        assert float(weight.grad.abs().max() / size) < 1e-4  # type: ignore[union-attr]
        assert float(bias.grad.abs() / n) < 1e-4  # type: ignore[union-attr]


def test_the_strongest_lasso_penalty_keeps_nothing_and_weaker_ones_meet_the_conditions() -> None:
    features, labels = problem(50, 8)
    penalties = (1.0, 0.3, 0.05)
    centred, targets = features - features.mean(0), labels - labels.mean()
    largest = (centred.T @ targets).abs().max() / len(labels)
    kept = []
    for penalty, (weight, bias) in zip(penalties, lasso_path(features.clone(), labels, penalties), strict=True):
        kept.append(int((weight != 0).sum()))
        correlation = centred.T @ (targets - centred @ weight) / len(labels)
        active = weight != 0
        limit = penalty * largest
        torch.testing.assert_close(correlation[active], limit * weight[active].sign(), atol=2e-2, rtol=0)
        assert bool((correlation.abs() <= limit + 2e-2).all())
        torch.testing.assert_close(bias, labels.mean() - features.mean(0) @ weight, atol=1e-4, rtol=1e-4)
    assert kept[0] == 0
    assert kept == sorted(kept)
    assert {0, 1} <= set(torch.nonzero(weight)[:, 0].tolist())


@pytest.mark.parametrize("path", [ridge_path, lasso_path])
def test_no_features_that_matter_give_the_mean(path: Callable[..., Any]) -> None:
    """Features without variance have no weight at all."""
    labels, features = torch.tensor([1.0, 2.0, 6.0]), torch.eye(3) * 1e-3 + 5
    weight, bias = next(iter(path(features.clone(), labels, (1e3,))))
    assert float((features @ weight + bias - 3).abs().max()) < 0.01
    for shape in ((4, 2), (2, 4)) if path is ridge_path else ():
        labels = torch.arange(float(shape[0]))
        for weight, bias in path(torch.full(shape, 7.0), labels, (1e-3, 1.0)):
            assert weight.tolist() == [0.0] * shape[1]
            assert float(bias) == float(labels.mean())


# Trees: what they say while they grow is what they say at the end, and the same every time

ROUNDS, SMALL = 6, {"leaves": 5, "min_rows": 2}
WATCHED = torch.arange(70, 120)


def table(n: int = 120, d: int = 4, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    features = torch.randint(0, 256, (n, d), generator=generator).to(dtype)
    signal = features[:, 0].to(torch.float64) / 255 + 0.2 * torch.rand(n, generator=generator)
    return features, (signal > 0.6).to(torch.float64)


def grown(kind: str = "boosted-trees", loss: str = "squared", **changes: Any) -> TreeEnsemble:
    features, labels = table(dtype=changes.pop("dtype", torch.float32))
    lists = Lists(torch.arange(0, 81, 20)) if loss in ("LambdaRank", "RankNet") else None
    rows = TableRows(torch.arange(80), labels[:80], None, lists)
    trees = TreeEnsemble(growth(kind, SMALL | changes, 3), rb.loss(loss), features, rows, WATCHED)
    for _ in range(ROUNDS):
        trees.grow()
    return trees


BOOSTED = ("squared", "logistic", "LambdaRank", "RankNet")
"""LightGBM's own objectives, the third of lists, and one that is boosted by its gradient and Hessian."""


@pytest.mark.parametrize(("kind", "loss"), [*(("boosted-trees", loss) for loss in BOOSTED), (FOREST, "squared")])
def test_scores_heard_while_growing_are_those_of_the_grown_trees(kind: str, loss: str) -> None:
    trees = grown(kind, loss)
    watched, (_, labels) = trees.scores(WATCHED, ROUNDS), table()
    torch.testing.assert_close(trees.watched_scores(), watched, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(trees.training_scores(), trees.scores(torch.arange(80), 6), atol=1e-5, rtol=1e-4)
    assert watched[labels[70:] > 0].mean() > watched[labels[70:] == 0].mean() + 0.1
    fixed = {"deterministic": True, "force_row_wise": True, "num_threads": 1, "seed": 5}
    assert fixed.items() <= growth(kind, SMALL, 5).items()


def test_a_forests_scores_are_means_of_labels() -> None:
    scores = grown(FOREST).scores(torch.arange(120), ROUNDS)
    assert -1e-6 <= float(scores.min()) < 0.5 < float(scores.max()) <= 1 + 1e-6
    with pytest.raises(ValueError, match="loss: found logistic for a forest, expected squared"):
        grown(FOREST, "logistic")


def test_the_same_trees_every_time_and_for_bytes_too_which_are_read_again() -> None:
    first, second, pixels = grown(), grown(), grown(dtype=torch.uint8)
    assert torch.equal(first.tensors(6)["lightgbm"], second.tensors(6)["lightgbm"])
    assert torch.equal(first.tensors(6)["lightgbm"], pixels.tensors(6)["lightgbm"])
    assert len(first.tensors(2)["lightgbm"]) < len(first.tensors(6)["lightgbm"])
    booster = lightgbm.Booster(model_str=bytes(first.tensors(4)["lightgbm"].tolist()).decode())
    expected = first.scores(torch.arange(120), 4).numpy()
    np.testing.assert_allclose(booster.predict(table()[0].numpy()), expected, rtol=1e-6)


def test_pooled_rows_stand_for_all_occurrences() -> None:
    """The gradient of the logistic loss with respect to each item's score is that of all its occurrences."""
    items, grades = torch.tensor([4, 7, 4, 2, 4, 7]), torch.tensor([1, 0, 0, 2, 1, 0])
    part = Part(["a", "b"], torch.tensor([0, 1]), items, grades, Lists(torch.tensor([0, 3, 6])))
    rows = pooled_rows(part, least=1)
    assert rows.items.tolist() == [2, 4, 7]
    assert rows.weights is not None
    scores = torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits
    entropy(scores[items], (grades >= 1).to(torch.float64), reduction="sum").backward()
    expected = scores.grad
    scores.grad = None
    entropy(scores[rows.items], rows.labels, weight=rows.weights, reduction="sum").backward()
    torch.testing.assert_close(scores.grad, expected)
    assert rows.items[rows.spread(part)].tolist() == items.tolist()
    assert pooled_rows(part, least=None).labels.tolist() == pytest.approx([2, 2 / 3, 0])


def test_normalisation_by_query_is_lambdaranks_own_and_the_default() -> None:
    """Without it trees are others; it changes no objective but LightGBM's own lambdarank."""
    scores = {}
    for loss in ("LambdaRank", "RankNet"):
        for normalised in (None, True, False):
            trees = grown(loss=loss, **({} if normalised is None else {"lambdarank_norm": normalised}))
            scores[loss, normalised] = trees.training_scores()
    for loss, differs in (("LambdaRank", True), ("RankNet", False)):
        assert torch.equal(scores[loss, None], scores[loss, True])
        assert torch.equal(scores[loss, True], scores[loss, False]) != differs
