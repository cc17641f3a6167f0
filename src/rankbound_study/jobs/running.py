"""How long steps run: on a device, with sums in a fixed order, and with finished pieces kept until all are done."""

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from rankbound.io.atomic import is_at, lock


def device_of(name: str) -> torch.device:
    """Return a device by its name; `auto` is a GPU if there is one."""
    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)


def use_fixed_algorithms() -> None:
    """Use deterministic algorithms in this process where they exist; warn where they do not.

    On a CPU they always exist, for a given number of threads. On a GPU a few operations have none (cumulative sums of
    fractions, for example); PyTorch warns of those that occur. cuBLAS also needs the environment variable
    CUBLAS_WORKSPACE_CONFIG, which the workflow sets. Convolutions on a GPU would otherwise round their factors to 10
    bits.
    """
    # The same setting as use_deterministic_algorithms, which takes over a second to load torch's compiler.
    torch.set_deterministic_debug_mode("warn")
    # This would also fill fresh memory with NaN, at a cost; nothing here reads memory before writing it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


@contextmanager
def subnormals_as_zero() -> Iterator[None]:
    """Set numbers below the smallest normal one to zero, where the processor can.

    Trainings whose scores are far apart would spend half of their time on such numbers.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class Shards:
    """The shards of the job that writes `out`: pieces of which a killed job loses only the current one.

    They are in a folder beside the output, under a digest of everything that determines their content: a rerun with
    other options, data or code never uses stale ones. Inside a `with` block, no other process works on that output. A
    second process waits until the first has ended, in whatever way. This is common: when snakemake is killed, its
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
        path = self._root / "lock"
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
