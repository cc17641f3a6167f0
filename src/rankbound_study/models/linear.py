"""A linear model: one weight per feature, and a bias."""

import torch
from torch import Tensor, nn


class Linear(nn.Module):
    """Scores $w \\cdot x + b$; `weight` `(n_features,)` and `bias` `()` are initialised with 0.

    With more features than examples, the data do not determine all directions of the weights; those keep their initial
    value. From 0, an image of the weights shows only what was learnt.
    """

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_features, dtype=torch.float32))
        self.bias = nn.Parameter(torch.zeros((), dtype=torch.float32))

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores `(n,)` of items with `features` `(n, n_features)`."""
        return features @ self.weight + self.bias
