"""Write and read sealed safetensors files, atomically."""

import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound.io.seals import KEY, UNSEALED, check_seal, seal


def write_tensors(tensors: Mapping[str, Tensor], path: Path, note: str = "") -> None:
    """Write named tensors, with a note on their origin."""
    write_sealed(tensors, path, {KEY: f"{UNSEALED} {note}".strip()})


def write_sealed(tensors: Mapping[str, Tensor], path: str | os.PathLike[str], metadata: dict[str, str]) -> None:
    """Write named tensors; `metadata` has one key, whose text contains `UNSEALED`.

    safetensors writes several keys in varying order, so there is only one. The bytes are written here because
    `save_file` replaces the temporary file, which would release its lock.
    """
    with atomic_path(path) as temporary:
        temporary.write_bytes(save(dict(tensors), metadata))
        seal(temporary)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file, on the CPU; DataError if it is missing, damaged, or of another format."""
    check_seal(path)
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; run the step that makes it first") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(
            f"{path}: not a readable safetensors file ({error}); it may be cut off or damaged: delete it and run the "
            "step that makes it again"
        ) from error
