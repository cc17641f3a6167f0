"""Penalised regressions against their optimality conditions."""

import pytest
import torch

from rankbound_study.models.penalised_linear import lasso_path, ridge_path


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


def test_no_features_that_matter_give_the_mean() -> None:
    labels = torch.tensor([1.0, 2.0, 6.0])
    for path in (ridge_path, lasso_path):
        features = torch.eye(3) * 1e-3 + 5
        weight, bias = next(iter(path(features.clone(), labels, (1e3,))))
        assert float((features @ weight + bias - 3).abs().max()) < 0.01


def test_features_without_variance_give_the_mean() -> None:
    for shape in ((4, 2), (2, 4)):
        labels = torch.arange(float(shape[0]))
        for weight, bias in ridge_path(torch.full(shape, 7.0), labels, (1e-3, 1.0)):
            assert weight.tolist() == [0.0] * shape[1]
            assert float(bias) == float(labels.mean())
