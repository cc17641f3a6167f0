"""How long steps run: on a device, with sums in a fixed order, and with finished pieces kept until all are done."""

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound.io.atomic import is_at, lock

if TYPE_CHECKING:
    import torch

# Torch takes a second to load: a process that waits for another one's shards does without.


def device_of(name: str) -> "torch.device":
    """Return a device by its name; `auto` is a GPU if there is one."""
    import torch

    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)


def use_fixed_algorithms() -> None:
    """Use deterministic algorithms in this process where they exist; warn where they do not.

    On a CPU they always exist, for a given number of threads. On a GPU a few operations have none (cumulative sums of
    fractions, for example); PyTorch warns of those that occur. cuBLAS also needs the environment variable
    CUBLAS_WORKSPACE_CONFIG, which the workflow sets. Convolutions on a GPU would otherwise round their factors to 10
    bits.
    """
    import torch

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
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def shards_of(out: Path, options: str, inputs: Iterable[Path]) -> Iterator[Path]:
    """Yield the folder for the shards of the job that writes `out`: a killed job loses only the current one.

    It is beside the output, under a digest of everything that determines the shards' content: a rerun with other
    options, data or code never uses stale ones. All of the output's shards are removed if the block ends without an
    error. Inside it, no other process works on that output: a second one waits until the first has ended, in whatever
    way. This is common: when snakemake is killed, its steps continue and meet those of the next run.
    """
    root, handle = Path(f"{out}.shards"), -1
    digest = hashlib.sha256(options.encode())
    for path in inputs:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    try:
        # A process before us that has just finished has removed the folder, and the lock with it.
        while not (handle >= 0 and is_at(handle, root / "lock")):
            if handle >= 0:
                os.close(handle)
                handle = -1
            root.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                handle = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o666)
                if not lock(handle, wait=False):
                    print(f"{out}: another process is making it; waiting until it ends", file=sys.stderr, flush=True)
                    lock(handle, wait=True)
        yield root / digest.hexdigest()[:16]
        shutil.rmtree(root, ignore_errors=True)
    finally:
        if handle >= 0:
            os.close(handle)
