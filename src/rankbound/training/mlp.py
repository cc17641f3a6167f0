"""A multilayer perceptron that scores items by their features."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}


class MLP(nn.Module):
    """Fully connected layers `n_features - hidden - 1` with biases; 46-46-1 has 2,209 parameters (thesis sec. 4.1.1).

    Args:
        n_features: width of the input.
        hidden: widths of the hidden layers.
        activation: `relu`, `sigmoid` or `tanh`, after each hidden layer. The thesis does not state it.
        generator: generator of the initial weights, uniform within plus or minus 1/sqrt(width of the layer's input).

    Raises:
        ValueError: unknown activation.
    """

    def __init__(
        self,
        n_features: int,
        hidden: Sequence[int] = (46,),
        activation: str = "relu",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation: found {activation!r}, expected one of {', '.join(ACTIVATIONS)}")
        layers: list[nn.Module] = []
        for width_in, width_out in pairwise((n_features, *hidden, 1)):
            layers += [_linear(width_in, width_out, generator), ACTIVATIONS[activation]()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores `(n,)` of items with `features` `(n, n_features)`."""
        scores: Tensor = self.layers(features)
        return scores.squeeze(1)


def _linear(width_in: int, width_out: int, generator: torch.Generator | None) -> nn.Linear:
    # Without PyTorch's own initial weights, whose draws would change its global generator.
    layer = nn.Linear(width_in, width_out, device="meta", dtype=torch.float32)
    layer = layer.to_empty(device=torch.get_default_device())
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-(width_in**-0.5), width_in**-0.5, generator=generator)
    return layer
