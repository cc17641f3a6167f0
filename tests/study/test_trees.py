"""Trees: what they say while they grow is what they say at the end, and the same every time."""

from typing import Any

import lightgbm
import numpy as np
import pytest
import torch

import rankbound as rb
from rankbound.lists import Lists
from rankbound.training.trainer import Part
from rankbound_study.jobs.examples import TableRows, pooled_rows
from rankbound_study.jobs.fit_trees import FOREST, TreeEnsemble, growth

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
