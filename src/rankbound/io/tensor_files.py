"""The only functions that write and read the safetensors files that the steps hand on: sealed, whole or not at all."""

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
    """Write tensors by name, and a note on where they come from."""
    write_sealed(tensors, path, {KEY: f"{UNSEALED} {note}".strip()})


def write_sealed(tensors: Mapping[str, Tensor], path: str | os.PathLike[str], metadata: dict[str, str]) -> None:
    """Write tensors by name; `metadata` has one key, whose text holds `UNSEALED`.

    One key, since safetensors writes several in an order that changes from file to file. And its bytes are written
    here, since `save_file` puts a file of its own in the place of the one it is given, and with that the lock goes that
    tells another writer of the same path to leave it alone.
    """
    with atomic_path(path) as temporary:
        temporary.write_bytes(save(dict(tensors), metadata))
        seal(temporary)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, on the CPU; DataError if it is missing, damaged, or something else."""
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
