"""Finished pieces of a job, kept until the whole is done, so that a killed job loses only the piece it was at.

Shards lie in a folder beside the job's output, under a digest of everything that decides their content: a rerun with
other options, data or code never picks up stale ones.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path


class Shards:
    """The shards of the job that writes `out`."""

    def __init__(self, out: str | os.PathLike[str], options: str, inputs: Iterable[str | os.PathLike[str]]) -> None:
        self._root = Path(f"{os.fspath(out)}.shards")
        self.folder = self._root / _digest(options, inputs)

    def path(self, name: str) -> Path:
        """Where the shard `name` lies, or will lie."""
        return self.folder / name

    def has_all(self, names: Sequence[str]) -> bool:
        """Whether all of these shards are finished."""
        return all(self.path(name).exists() for name in names)

    def remove(self) -> None:
        """Forget all shards of this output, of any digest: it is finished."""
        shutil.rmtree(self._root, ignore_errors=True)


def _digest(options: str, inputs: Iterable[str | os.PathLike[str]]) -> str:
    digest = hashlib.sha256(options.encode())
    for path in inputs:
        with Path(path).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
