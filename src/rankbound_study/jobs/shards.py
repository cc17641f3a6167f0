"""Finished pieces of a job, kept until the whole is done; a killed job loses only its current piece.

Shards are in a folder beside the job's output, under a digest of everything that determines their content: a rerun with
other options, data or code never uses stale ones.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from rankbound.io.atomic import is_at, lock

_LOCK = "lock"


class Shards:
    """The shards of the job that writes `out`; inside a `with` block, no other process works on that output.

    A second process waits until the first has ended, in whatever way. This is common: when snakemake is killed, its
    steps continue and meet those of the next run.
    """

    def __init__(self, out: str | os.PathLike[str], options: str, inputs: Iterable[str | os.PathLike[str]]) -> None:
        self._out = os.fspath(out)
        self._root, self._handle = Path(f"{self._out}.shards"), -1
        digest = hashlib.sha256(options.encode())
        for path in inputs:
            with Path(path).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        self.folder = self._root / digest.hexdigest()[:16]

    def __enter__(self) -> "Shards":
        path = self._root / _LOCK
        while not (self._handle >= 0 and is_at(self._handle, path)):
            self._close()
            self._root.mkdir(parents=True, exist_ok=True)
            try:
                self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:
                continue  # The process before us has just finished, and removed the folder.
            if not lock(self._handle, wait=False):
                print(f"{self._out}: another process is making it; waiting until it ends", file=sys.stderr, flush=True)
                lock(self._handle, wait=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def path(self, name: str) -> Path:
        """Return the path of the shard `name`, finished or not."""
        return self.folder / name

    def remove(self) -> None:
        """Remove all shards of this output, of any digest, when it is finished."""
        shutil.rmtree(self._root, ignore_errors=True)

    def _close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1
