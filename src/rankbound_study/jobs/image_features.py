"""Extract features of pictures with a pretrained network, chunk by chunk, into parquet."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from tqdm import tqdm

from rankbound_study.data.contracts import open_writer, origin, read_table, strings_to_arrow, to_arrow, write_table
from rankbound_study.data.images import Faces, read_faces, read_pixels
from rankbound_study.jobs.shards import Shards
from rankbound_study.jobs.vgg16_weights import read_weights
from rankbound_study.models.vgg16 import INPUT_SIDE, VGG16, imagenet_images

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
