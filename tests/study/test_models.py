"""Models: shapes, sizes as published, reproducible starts; and the controls."""

import pytest
import torch

from rankbound.training.models import INITIAL_RANGE, MLP, Factorization
from rankbound_study.models.controls import oracle_scores, popularity_scores, random_scores
from rankbound_study.models.layers import Linear, StandardScale


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


def test_network_of_the_thesis_has_2209_parameters() -> None:
    assert sum(parameter.numel() for parameter in MLP(46, hidden=(46,)).parameters()) == 2209


@pytest.mark.parametrize("build", [lambda g: Factorization(4, 6, 2, generator=g), lambda g: MLP(3, (2,), generator=g)])
def test_same_generator_same_start_other_seed_other_start(build) -> None:  # type: ignore[no-untyped-def]
    first, same, other = (list(build(generator(seed)).parameters()) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, same, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_network_refuses_an_unknown_activation_by_name() -> None:
    with pytest.raises(ValueError, match=r"activation: found 'gelu', expected one of relu"):
        MLP(2, activation="gelu")


def test_controls_know_nothing_counts_or_everything() -> None:
    items, relevance = torch.tensor([3, 0, 1]), torch.tensor([1, 0, 1])
    training_items, training_relevance = torch.tensor([0, 1, 1, 1, 2]), torch.tensor([1, 1, 0, 1, 1])
    assert random_scores(items).tolist() == [0, 0, 0]
    assert oracle_scores(relevance).tolist() == [1, 0, 1]
    assert popularity_scores(items, training_items, training_relevance).tolist() == [0, 1, 2]


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
    scale = StandardScale.of_features(features)
    scaled = scale(features)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.tensor([1.0, 0.0, 1.0]), atol=1e-5, rtol=0)
    again = StandardScale(torch.zeros(3), torch.ones(3))
    again.load_state_dict(scale.state_dict())
    assert torch.equal(again(features), scaled)
