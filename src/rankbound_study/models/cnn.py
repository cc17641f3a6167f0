"""RankCNN: a network that scores pictures (Li and Wu section 4.2)."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from rankbound.training.mlp import MLP

POOLING = 2


class RankCNN(nn.Module):
    """Convolutions, each with ReLU and 2 x 2 maximum pooling, then fully connected layers down to one score.

    The defaults are the paper's: 3 to 6 and 6 to 16 channels with filters of 17 x 17, layers of 300 and 60. It states
    neither padding nor stride; without padding, at stride 1, a side goes 100, 84, 42, 26, 13, so 16 * 13 * 13 = 2704
    values enter the layer of 300, and there are 862,589 parameters.

    Args:
        side: height and width of the pictures.
        channels: of the picture, and after each convolution.
        kernel: side of the filters.
        hidden: widths of the fully connected hidden layers, ReLU after each.
        generator: the source of the initial weights, uniform in plus or minus 1/sqrt(inputs of a neuron).

    Raises:
        ValueError: pictures too small for the convolutions.
    """

    def __init__(
        self,
        side: int = 100,
        channels: Sequence[int] = (3, 6, 16),
        kernel: int = 17,
        hidden: Sequence[int] = (300, 60),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.side, self.channels = side, channels[0]
        layers: list[nn.Module] = []
        remaining = side
        for before, after in pairwise(channels):
            remaining = (remaining - kernel + 1) // POOLING
            if remaining < 1:
                raise ValueError(f"side: found {side}, too small for {len(channels) - 1} filters of side {kernel}")
            layers += [_convolution(before, after, kernel, generator), nn.ReLU(), nn.MaxPool2d(POOLING)]
        self.convolutions = nn.Sequential(*layers)
        self.n_flat = channels[-1] * remaining**2
        self.scores = MLP(self.n_flat, hidden, generator=generator)

    @property
    def n_features(self) -> int:
        """Return the number of values of a picture: 30,000 for 3 x 100 x 100."""
        return self.channels * self.side**2

    def forward(self, features: Tensor) -> Tensor:
        """Return scores `(n,)` of pictures, flat `(n, n_features)`, by channel and row, or `(n, c, h, w)`."""
        images = features.reshape(-1, self.channels, self.side, self.side)
        scores: Tensor = self.scores(self.convolutions(images).flatten(1))
        return scores


class FrequencyConv2d(nn.Conv2d):
    """A convolution without padding, at stride 1, by the Fourier transform; equals `nn.Conv2d` up to rounding.

    On a CPU, this is ten times as fast as direct sums for filters of 17 x 17, mostly in the backward pass. On a GPU,
    direct sums are used.
    """

    def forward(self, images: Tensor) -> Tensor:
        """Return filtered `images` `(n, channels, h, w)`."""
        if images.device.type != "cpu":
            return super().forward(images)
        height, width = images.shape[-2:]
        below, beside = (size - filtered + 1 for size, filtered in zip((height, width), self.kernel_size, strict=True))
        # One small matrix product per frequency; the positions that would wrap around are those that are cut off.
        values = torch.fft.rfft2(images).flatten(2).permute(2, 0, 1)
        filters = torch.fft.rfft2(self.weight, s=(height, width)).conj().flatten(2).permute(2, 1, 0)
        products = torch.bmm(values, filters).permute(1, 2, 0).reshape(len(images), -1, height, width // 2 + 1)
        whole: Tensor = torch.fft.irfft2(products, s=(height, width))
        assert self.bias is not None
        return whole[..., :below, :beside] + self.bias[:, None, None]


def _convolution(before: int, after: int, kernel: int, generator: torch.Generator | None) -> nn.Conv2d:
    layer = FrequencyConv2d(before, after, kernel)
    reach = (before * kernel**2) ** -0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-reach, reach, generator=generator)
    return layer
