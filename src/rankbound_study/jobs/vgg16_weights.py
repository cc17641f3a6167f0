"""VGG16's published weights as safetensors; the only place that opens a file of pickled tensors."""

import warnings
from pathlib import Path

import torch
from torch import Tensor

from rankbound.errors import DataError, SourceError
from rankbound.io.models import read_tensors, write_tensors
from rankbound.texts import derive_seed
from rankbound_study.config.comparisons import VGG16_FILE
from rankbound_study.data.sources import RawFile
from rankbound_study.models.vgg16 import VGG16, check_published

SYNTHETIC = "synthetic-vgg16"
_SMALL_STAGES = ((4, 2), (8, 2), (8, 3), (16, 3), (16, 3))
_SMALL_WIDTH = 64

WHAT_IS_MISSING = (
    "The features of VGG16 (table 3, figure 5 of the study) need its published weights: run "
    f"`python -m rankbound_study download vgg16 --out data/raw/{VGG16_FILE}`, which says what to do by hand where it "
    "cannot download, and then `python -m rankbound_study weights vgg16`"
)


def convert_weights(raw: RawFile, out: Path) -> None:
    """Write the weights of torchvision's `vgg16-397923af.pth` to the safetensors file `out`.

    The publisher ships a pickle, which can run any code when it is read. So its SHA-256 is compared first (by
    `RawFile`); then torch's restricted reader (`weights_only=True`) builds only tensors and plain containers, and
    refuses everything else. The result, after a check of names and shapes, is written in a format that holds only
    numbers; nothing reads the pickle again.

    Raises DataError for content that is not VGG16's.
    """
    weights = read_pickled_tensors(Path(raw.path))
    try:
        check_published(weights)
    except ValueError as error:
        raise DataError(f"{raw.path}: {error}") from error
    write_tensors(weights, out, raw.source.checksum)


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


def generate_weights(out: Path, seed: int) -> None:
    """Write random weights of a much narrower VGG16, labelled synthetic, for demonstrations and tests."""
    generator = torch.Generator().manual_seed(derive_seed("synthetic", SYNTHETIC, seed))
    weights = VGG16(_SMALL_STAGES, _SMALL_WIDTH).state_dict()
    for tensor in weights.values():
        inputs = tensor[0].numel()
        tensor.normal_(0, (2 / inputs) ** 0.5 if tensor.dim() > 1 else 0.01, generator=generator)
    write_tensors(weights, out, SYNTHETIC)
