"""A finished study for others: TREC files of its scores, and an RO-Crate; each a folder that is whole or absent."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rankbound.errors import ConfigError
from rankbound.io.atomic import temporary_beside

_LOCK, _FOLDER = ".lock", ".folder"


@contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder beside `path`, and rename it to `path` if the block ends without an error.

    It is removed on any error; the next writer of the same path removes leftovers of a killed process.

    Raises:
        ConfigError: `path` exists and is not an empty folder.
        OutputError: the folder beside it cannot be written.
    """
    target = Path(path)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise ConfigError(f"{target}: already exists, expected a new folder: remove it, or choose another one")
    # The lock file's owner owns the folder of that name; files without a live owner are removed first.
    with temporary_beside(target, _LOCK) as lock:
        for left in target.parent.iterdir():
            of_target = left.name.startswith(f".{target.stem}.") and left.suffix == _FOLDER
            if of_target and not left.with_suffix(_LOCK).exists():
                shutil.rmtree(left, ignore_errors=True)
        folder = lock.with_suffix(_FOLDER)
        try:
            folder.mkdir()
            yield folder
            if target.exists():
                target.rmdir()
            folder.rename(target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
