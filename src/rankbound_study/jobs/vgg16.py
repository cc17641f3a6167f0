"""VGG16 up to its second fully connected layer: 4096 features of a picture (Li and Wu section 4.2).

Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition" (2015), configuration D.
The parameters have the names of torchvision's published weights: `features.0.weight` .. `classifier.6.bias`.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from rankbound.errors import ConfigError, DataError, SourceError
from rankbound.io.models import read_tensors, write_tensors
from rankbound.texts import derive_seed
from rankbound_study.data.contracts import open_writer, origin, strings_to_arrow, to_arrow
from rankbound_study.data.images import read_faces, read_pixels
from rankbound_study.data.sources import RawFiles, find_source
from rankbound_study.jobs.running import device_of, use_fixed_algorithms
from rankbound_study.vocabulary import VGG16_FILE

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and number of convolutions before each of the five poolings."""

WIDTH = 4096
N_CLASSES = 1000
POOLED = 7  # side of the map that enters the first fully connected layer, for any picture size
INPUT_SIDE = 224  # side of the pictures that the published weights were trained on

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's red, green and blue in 0 .. 1: the weights expect pictures scaled by them."""

SYNTHETIC = "synthetic-vgg16"
CHUNK = 256  # number of pictures in a row group of their features

WHAT_IS_MISSING = (
    "The features of VGG16 (table 3, figure 5 of the study) need its published weights: run "
    f"`python -m rankbound_study download vgg16 --out data/raw/{VGG16_FILE}`, which says what to do by hand where it "
    "cannot download, and then `python -m rankbound_study weights vgg16`"
)
_SMALL_STAGES, _SMALL_WIDTH = ((4, 2), (8, 2), (8, 3), (16, 3), (16, 3)), 64
_KERNEL, _CHANNELS, _BATCH = 3, 3, 16


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
        stages, place = [], 0
        for channels, count in STAGES:
            first = weights.get(f"features.{place}.weight", torch.empty(()))
            stages.append((len(first) if first.dim() else channels, count))
            place += 2 * count + 1
        bias = weights.get("classifier.0.bias", torch.empty(()))
        with torch.device("meta"):
            model = cls(stages, len(bias) if bias.dim() == 1 else WIDTH)
        expected = model.state_dict()
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
        classes = {"classifier.6.weight": torch.empty(N_CLASSES, WIDTH), "classifier.6.bias": torch.empty(N_CLASSES)}
        expected = VGG16().state_dict() | classes
    _check_shapes(weights, expected)
    if unknown := sorted(set(weights) - set(expected)):
        raise ValueError(f"weights: found {unknown[0]!r}, which VGG16 does not have")


def _check_shapes(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    for name, like in expected.items():
        if name not in weights:
            raise ValueError(f"weights: {name!r} is missing, expected a tensor of shape {tuple(like.shape)}")
        if (found := weights[name]).shape != like.shape or found.dtype != like.dtype:
            raise ValueError(
                f"weights: {name!r} is {found.dtype} of shape {tuple(found.shape)}, expected {like.dtype} of shape "
                f"{tuple(like.shape)}"
            )


def imagenet_images(pixels: Tensor, side: int = INPUT_SIDE) -> Tensor:
    """Return pictures `(n, 3, h, w)` of bytes as the published weights expect them: enlarged to `side`, scaled."""
    images = pixels.to(torch.float32) / 255
    if images.shape[2:] != (side, side):
        images = functional.interpolate(images, (side, side), mode="bilinear", antialias=True)
    mean, deviation = (images.new_tensor(values)[:, None, None] for values in (MEAN, DEVIATION))
    return (images - mean) / deviation


def weights(source: str, raw: Path | None, out: Path, seed: int) -> None:
    """Run the step `weights`: convert the published weights, or generate a stand-in."""
    if source == SYNTHETIC:
        generate_weights(out, seed)
    elif raw is None:
        raise ConfigError("vgg16 needs --raw: the file that `python -m rankbound_study download vgg16` saved")
    else:
        convert_weights(RawFiles(find_source("vgg16"), [raw]), out)


def generate_weights(out: Path, seed: int) -> None:
    """Write random weights of a much narrower VGG16, labelled synthetic, for demonstrations and tests."""
    generator = torch.Generator().manual_seed(derive_seed("synthetic", SYNTHETIC, seed))
    weights = VGG16(_SMALL_STAGES, _SMALL_WIDTH).state_dict()
    for tensor in weights.values():
        inputs = tensor[0].numel()
        tensor.normal_(0, (2 / inputs) ** 0.5 if tensor.dim() > 1 else 0.01, generator=generator)
    write_tensors(weights, out, SYNTHETIC)


def convert_weights(raw: RawFiles, out: Path) -> None:
    """Write the weights of torchvision's `vgg16-397923af.pth` to the safetensors file `out`.

    The publisher ships a pickle, which can run any code when it is read. So its SHA-256 is compared first (by
    `RawFiles`); then torch's restricted reader (`weights_only=True`) builds only tensors and plain containers, and
    refuses everything else. The result, after a check of names and shapes, is written in a format that holds only
    numbers; nothing reads the pickle again.

    Raises DataError for content that is not VGG16's.
    """
    weights = read_pickled_tensors(Path(raw.path))
    try:
        check_published(weights)
    except ValueError as error:
        raise DataError(f"{raw.path}: {error}") from error
    write_tensors(weights, out, raw.source.content.file or "")


def read_pickled_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a state dictionary saved by torch, by name; DataError if the file holds anything else."""
    try:
        with warnings.catch_warnings():
            # Torch warns of other pickle protocols; they are read or refused either way.
            warnings.simplefilter("ignore")
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # A damaged pickle may even fail an assertion of torch's: any error means that the file is unreadable.
        reason = str(error).partition("\n")[0][:200]
        raise DataError(f"{path}: not a readable file of tensors ({reason or type(error).__name__})") from error
    if not isinstance(content, dict) or not all(isinstance(tensor, Tensor) for tensor in content.values()):
        raise DataError(f"{path}: expected a dictionary of tensors by name, found {type(content).__name__}")
    return {str(name): tensor.detach().contiguous() for name, tensor in content.items()}


def read_weights(path: Path) -> VGG16:
    """Return the network of a file by `convert_weights` or `generate_weights`; DataError names what does not fit."""
    if not path.exists():
        raise SourceError(f"{path}: there is no such file. {WHAT_IS_MISSING}")
    try:
        return VGG16.of_weights(read_tensors(path))
    except ValueError as error:
        raise DataError(f"{path}: not the weights of VGG16 ({error}); delete it and make it again") from error


def features(images: Path, weights: Path, out: Path, side: int = INPUT_SIDE, device: str = "auto") -> None:
    """Run the step `features`: write those of all faces, one row group per chunk, with sums in a fixed order.

    Pictures are enlarged to `side`: the published weights expect 224; the paper does not state its size.
    """
    use_fixed_algorithms()
    where = device_of(device)
    model, faces = read_weights(weights).to(where), read_faces(images)
    pixels = read_pixels(images).reshape(len(faces), *faces.shape)
    with (
        open_writer(out, "image-features", origin(faces.metadata)) as write,
        tqdm(total=len(faces), unit="image", desc="features", disable=None) as progress,
    ):
        for start in range(0, len(faces), CHUNK):
            chunk = slice(start, start + CHUNK)
            # A copy: torch warns of read-only memory.
            seen = torch.from_numpy(pixels[chunk].copy())
            with torch.inference_mode():
                batches = (imagenet_images(batch.to(where), side) for batch in torch.split(seen, _BATCH))
                found = torch.cat([model(batch).cpu() for batch in batches]).numpy()
            values = pa.FixedSizeListArray.from_arrays(to_arrow(found.reshape(-1)), found.shape[1])
            write(pa.table({"face": strings_to_arrow(faces.names[chunk]), "features": values}))
            progress.update(len(seen))
