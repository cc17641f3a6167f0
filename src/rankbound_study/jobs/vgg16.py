"""VGG16: its published weights as safetensors, and the features of pictures that it finds, chunk by chunk."""

import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor
from tqdm import tqdm

from rankbound.errors import ConfigError, DataError, SourceError
from rankbound.io.models import read_tensors, write_tensors
from rankbound.texts import derive_seed
from rankbound_study.config.comparisons import VGG16_FILE
from rankbound_study.data.contracts import open_writer, origin, read_table, strings_to_arrow, to_arrow, write_table
from rankbound_study.data.images import Faces, read_faces, read_pixels
from rankbound_study.data.sources import RawFile, find_source
from rankbound_study.jobs.determinism import use_fixed_algorithms
from rankbound_study.jobs.shards import Shards
from rankbound_study.models.vgg16 import INPUT_SIDE, VGG16, check_published, imagenet_images

SYNTHETIC = "synthetic-vgg16"
_SMALL_STAGES = ((4, 2), (8, 2), (8, 3), (16, 3), (16, 3))
_SMALL_WIDTH = 64

WHAT_IS_MISSING = (
    "The features of VGG16 (table 3, figure 5 of the study) need its published weights: run "
    f"`python -m rankbound_study download vgg16 --out data/raw/{VGG16_FILE}`, which says what to do by hand where it "
    "cannot download, and then `python -m rankbound_study weights vgg16`"
)


def weights(source: str, raw: Path | None, out: Path, seed: int) -> None:
    """Run the step `weights`: convert the published weights, or generate a stand-in."""
    if source == SYNTHETIC:
        generate_weights(out, seed)
    elif raw is None:
        raise ConfigError("vgg16 needs --raw: the file that `python -m rankbound_study download vgg16` saved")
    else:
        convert_weights(RawFile(find_source("vgg16"), raw), out)


def features(images: Path, weights: Path, out: Path, side: int, device: str, code: str) -> None:
    """Run the step `features`, with sums in a fixed order."""
    use_fixed_algorithms()
    extract_features(images, weights, out, side=side, device=device, code=code)


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


def generate_weights(out: Path, seed: int) -> None:
    """Write random weights of a much narrower VGG16, labelled synthetic, for demonstrations and tests."""
    generator = torch.Generator().manual_seed(derive_seed("synthetic", SYNTHETIC, seed))
    weights = VGG16(_SMALL_STAGES, _SMALL_WIDTH).state_dict()
    for tensor in weights.values():
        inputs = tensor[0].numel()
        tensor.normal_(0, (2 / inputs) ** 0.5 if tensor.dim() > 1 else 0.01, generator=generator)
    write_tensors(weights, out, SYNTHETIC)


CHUNK = 256
"""Number of pictures of a shard: the largest loss if a run is killed."""

_BATCH = 16


def extract_features(
    images: Path, weights: Path, out: Path, *, side: int = INPUT_SIDE, device: str = "auto", code: str = ""
) -> None:
    """Write the features of all faces of `images` to `out`, one row group per chunk, resuming from finished chunks.

    Chunks that an interrupted run made with the same `code` (its digest) are reused. Pictures are enlarged to `side`:
    the published weights expect 224; the paper does not state its size.
    """
    where = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    model = read_weights(weights).to(where)
    faces = read_faces(images)
    with Shards(out, f"{CHUNK} {side} {code}", [images, weights]) as shards:
        _extract_all(model, images, faces, shards, side, where)
        with open_writer(out, "image-features", origin(faces.metadata)) as write:
            for start in range(0, len(faces), CHUNK):
                write(read_table(shards.path(_name(start)), "image-features"))
        shards.remove()


def _extract_all(model: VGG16, images: Path, faces: Faces, shards: Shards, side: int, device: torch.device) -> None:
    starts = range(0, len(faces), CHUNK)
    waiting = [start for start in starts if not shards.path(_name(start)).exists()]
    if waiting:
        pixels = read_pixels(images).reshape(len(faces), *faces.shape)
        with tqdm(total=len(waiting) * CHUNK, unit="image", desc="features", disable=None) as progress:
            for start in waiting:
                table = _features(model, faces, pixels, slice(start, start + CHUNK), side, device)
                write_table(table, shards.path(_name(start)), "image-features")
                progress.update(CHUNK)


def _features(
    model: VGG16, faces: Faces, pixels: npt.NDArray[np.uint8], chunk: slice, side: int, device: torch.device
) -> pa.Table:
    # A copy: torch warns of read-only memory.
    images = torch.from_numpy(pixels[chunk].copy())
    with torch.inference_mode():
        batches = [model(imagenet_images(batch.to(device), side)).cpu() for batch in torch.split(images, _BATCH)]
    features = torch.cat(batches).numpy()
    values = pa.FixedSizeListArray.from_arrays(to_arrow(features.reshape(-1)), features.shape[1])
    return pa.table({"face": strings_to_arrow(faces.names[chunk]), "features": values})


def _name(start: int) -> str:
    return f"chunk-{start:06}.parquet"
