"""A linear model of features: one weight each, and a bias."""

import torch
from torch import Tensor, nn


class Linear(nn.Module):
    """Scores $w \\cdot x + b$; `weight` `(n_features,)` and `bias` `()` start at 0.

    Where there are more features than examples, the start decides what the weights are that no example can tell
    anything of: from 0, they stay 0, and the picture of the weights shows what was learnt and no noise.
    """

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_features))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, features: Tensor) -> Tensor:
        """Scores `(n,)` of items with `features` `(n, n_features)`."""
        return features @ self.weight + self.bias
