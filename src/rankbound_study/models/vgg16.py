"""VGG16 up to its second fully connected layer: 4096 features of a picture (Li and Wu section 4.2).

Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition" (2015), configuration D.
The parameters have the names of torchvision's published weights: `features.0.weight` .. `classifier.6.bias`.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and number of convolutions before each of the five poolings."""

WIDTH = 4096
N_CLASSES = 1000
POOLED = 7
"""Side of the map that enters the first fully connected layer, for any picture size."""

INPUT_SIDE = 224
"""Side of the pictures that the published weights were trained on."""

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's red, green and blue in 0 .. 1: the weights expect pictures scaled by them."""

_KERNEL, _CHANNELS = 3, 3
_FIRST, _LAST = "classifier.0", "classifier.6"


class VGG16(nn.Module):
    """The features of pictures: the output of the second fully connected layer, after its ReLU ("fc7").

    The paper says "4096 features extracted by the pretrained VGG", which fits two layers; this is the second, the last
    before the 1000 classes, as is usual. Dropout, used only in training, and the weights of the classes are omitted.

    Args:
        stages: channels and number of convolutions before each pooling.
        width: of both fully connected layers.
    """

    def __init__(self, stages: Sequence[tuple[int, int]] = STAGES, width: int = WIDTH) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = _CHANNELS
        for channels, count in stages:
            for _ in range(count):
                layers += [nn.Conv2d(before, channels, _KERNEL, padding=1), nn.ReLU()]
                before = channels
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        # Named by their positions among torchvision's layers, with ReLU and dropout in between.
        linear = {"0": nn.Linear(before * POOLED**2, width), "3": nn.Linear(width, width)}
        self.classifier = nn.ModuleDict(linear)
        self.smallest_side = 2 ** len(stages)

    @classmethod
    def of_weights(cls, weights: Mapping[str, Tensor]) -> "VGG16":
        """Return the network of `weights`, in evaluation mode, sharing their memory; ValueError if they do not fit.

        Widths are inferred from the weights, so small stand-ins work; `check_published` requires the real ones.
        """
        with torch.device("meta"):
            model = cls(_stages_of(weights), _width_of(weights))
        expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        _check_shapes(weights, expected)
        model.load_state_dict({name: weights[name] for name in expected}, assign=True)
        return model.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Return features `(n, width)` of `images` `(n, 3, h, w)`, scaled by MEAN and DEVIATION, sides from 32 on."""
        if images.dim() != 4 or images.shape[1] != _CHANNELS or min(images.shape[2:]) < self.smallest_side:
            raise ValueError(
                f"images: found shape {tuple(images.shape)}, expected (n, {_CHANNELS}, h, w) with sides from "
                f"{self.smallest_side}"
            )
        maps = functional.adaptive_avg_pool2d(self.features(images), POOLED)
        first = functional.relu(self.classifier["0"](maps.flatten(1)))
        return functional.relu(self.classifier["3"](first))


def check_published(weights: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless `weights` have exactly the names and shapes of torchvision's VGG16, classes included."""
    with torch.device("meta"):
        expected = {name: tuple(tensor.shape) for name, tensor in VGG16().state_dict().items()}
    expected |= {f"{_LAST}.weight": (N_CLASSES, WIDTH), f"{_LAST}.bias": (N_CLASSES,)}
    _check_shapes(weights, expected)
    unknown = sorted(set(weights) - set(expected))
    if unknown:
        raise ValueError(f"weights: found {unknown[0]!r}, which VGG16 does not have")


def imagenet_images(pixels: Tensor, side: int = INPUT_SIDE) -> Tensor:
    """Return pictures `(n, 3, h, w)` of bytes as the published weights expect them: enlarged to `side`, scaled."""
    images = pixels.to(torch.float32) / 255
    if images.shape[2:] != (side, side):
        images = functional.interpolate(images, (side, side), mode="bilinear", antialias=True)
    mean, deviation = (images.new_tensor(values)[:, None, None] for values in (MEAN, DEVIATION))
    return (images - mean) / deviation


def _check_shapes(weights: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]]) -> None:
    for name, shape in expected.items():
        if name not in weights:
            raise ValueError(f"weights: {name!r} is missing, expected a tensor of shape {shape}")
        if tuple(weights[name].shape) != shape or weights[name].dtype != torch.float32:
            raise ValueError(
                f"weights: {name!r} is {weights[name].dtype} of shape {tuple(weights[name].shape)}, "
                f"expected torch.float32 of shape {shape}"
            )


def _stages_of(weights: Mapping[str, Tensor]) -> list[tuple[int, int]]:
    """Return stages as in STAGES, with the channels of the first convolution of each in `weights`."""
    stages, place = [], 0
    for channels, count in STAGES:
        name = f"features.{place}.weight"
        stages.append((len(weights[name]) if name in weights and weights[name].dim() else channels, count))
        place += 2 * count + 1
    return stages


def _width_of(weights: Mapping[str, Tensor]) -> int:
    bias = weights.get(f"{_FIRST}.bias")
    return WIDTH if bias is None or bias.dim() != 1 else len(bias)
