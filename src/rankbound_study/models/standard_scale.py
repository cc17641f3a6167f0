"""Standardise features in the first layer of a network."""

from torch import Tensor, nn

from rankbound.training.models import Scaling


class StandardScale(nn.Module):
    r"""Features $(x - m) / d$ with the means $m$ and deviations $d$ of training items; constant ones become 0.

    Both are buffers, so saved weights include them.
    """

    shift: Tensor
    factor: Tensor

    def __init__(self, shift: Tensor, factor: Tensor) -> None:
        super().__init__()
        self.register_buffer("shift", shift)
        self.register_buffer("factor", factor)

    @classmethod
    def of_features(cls, features: Tensor) -> "StandardScale":
        """Return the scale of the training part's `features` `(n, d)`; pass no others."""
        fitted = Scaling.fitted("standard", features)
        return cls(fitted.shift, fitted.factor)

    def forward(self, features: Tensor) -> Tensor:
        """Return scaled `features` `(n, d)`, of the same shape."""
        return (features - self.shift) * self.factor
