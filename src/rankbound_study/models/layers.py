"""Layers of networks: a linear model, and scales of features and of pixels."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankbound.training.models import Scaling


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


LARGEST = 255
CHANNELS = 3


class PixelScale(nn.Module):
    r"""Bytes to single precision, channel by channel: $(x / 255 - m_c) / d_c$, of shape `(n, channels * h * w)`.

    The default keeps 0 .. 1 (m = 0, d = 1). `of_pixels` takes means and deviations from the training part's pixels;
    pass no others. They are buffers, so saved weights include them. Put it before a network:
    `nn.Sequential(PixelScale(), MLP(30_000, (1000, 500, 100)))` reads rows of an images file as they are.

    Args:
        widths: number of pixels of each channel, for rows that lack some pixels; equal numbers if not given.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        mean: Sequence[float] = (0.0,) * CHANNELS,
        deviation: Sequence[float] = (1.0,) * CHANNELS,
        widths: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("deviation", torch.tensor(deviation, dtype=torch.float32))
        equal = widths is None or len(set(widths)) == 1
        self._widths = None if equal else torch.tensor(widths)

    @classmethod
    def of_pixels(cls, pixels: Tensor, channels: int = CHANNELS, widths: Sequence[int] | None = None) -> "PixelScale":
        """Return the scale of `pixels` `(n, channels * h * w)`, bytes, over all pictures and places.

        A constant or missing channel keeps the deviation 1. The sums are counts of byte values: exact, in any order.
        """
        means, deviations = [], []
        levels = torch.arange(LARGEST + 1, dtype=torch.float64) / LARGEST
        for part in torch.split(pixels, list(widths or [pixels.shape[1] // channels] * channels), dim=1):
            counts = torch.bincount(part.reshape(-1), minlength=LARGEST + 1).cpu().to(torch.float64)
            share = counts / counts.sum().clamp(min=1)
            mean = (share * levels).sum()
            means.append(float(mean))
            deviations.append(float((share * (levels - mean) ** 2).sum().sqrt()) or 1.0)
        return cls(means, deviations, widths)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return scaled `pixels` `(n, channels * h * w)`, of the same shape, float32."""
        mean, deviation = self.mean, self.deviation
        if self._widths is not None:
            mean, deviation = (each.repeat_interleave(self._widths.to(each.device)) for each in (mean, deviation))
        # In place: every copy of the pictures takes as long as the arithmetic.
        by_channel = pixels.to(torch.float32, copy=True).reshape(len(pixels), len(mean), pixels.shape[1] // len(mean))
        by_channel.div_(LARGEST).sub_(mean[:, None]).div_(deviation[:, None])
        return by_channel.flatten(1)
