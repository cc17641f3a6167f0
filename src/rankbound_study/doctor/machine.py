"""The machine: accelerators, the cache of compiled kernels, programs that steps call, memory and disk."""

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rankbound.texts import quantity
from rankbound_study.doctor.finding import MISSING, NOTE, Finding

DISK_GIGABYTES = 2.0
"""Free disk below which a note says so: the default study writes 0.6 GB, and DVC's cache as much again."""

OPTIONAL = {
    "git": "records of results name no commit without it",
    "chromium": "tests of the report's page in a browser are skipped without it",
}
"""Programs that nothing needs, and what is lost without them."""

CGROUP = Path("/sys/fs/cgroup/memory.max")


def accelerators() -> Finding:
    """Return which accelerators torch can use; torch is imported only if its build can use one."""
    build = _torch_build()
    if build is None:
        return Finding("accelerators", "unknown: torch is not installed", NOTE)
    can_use = any(build.get(name) for name in ("cuda", "hip")) or sys.platform == "darwin"
    if not can_use and (cards := _cards()):
        text = f"{', '.join(cards)}, which torch {build['__version__']} cannot use: install it by envs/cuda.txt"
        return Finding("accelerators", text, NOTE)
    if not can_use:
        return Finding("accelerators", f"none: torch {build['__version__']} is a build for the CPU")
    import torch

    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    names += ["Apple GPU (mps)"] if torch.backends.mps.is_available() else []
    return Finding("accelerators", ", ".join(names) or f"none that torch {build['__version__']} finds")


def kernels() -> Finding:
    """Return where compiled kernels are kept, or why losses run without them."""
    if os.environ.get("RANKBOUND_FAST") == "0":
        return Finding("kernels", "switched off by RANKBOUND_FAST=0: losses take several times as long", NOTE)
    if find_spec("numba") is None or find_spec("numpy") is None:
        return Finding("kernels", "none without numba: losses take several times as long", NOTE)
    from rankbound.kernels.compiler import cache_folder

    if (folder := cache_folder()) is None:
        text = "none: the cache cannot be written, or others can write to it: set RANKBOUND_CACHE to a folder of yours"
        return Finding("kernels", text, NOTE)
    count = sum(1 for _ in folder.rglob("*.nbi"))
    first = "" if count else "; each is compiled at its first use, in up to ten seconds"
    return Finding("kernels", f"{quantity(count, 'compiled module')} in {folder}{first}")


def tools(rar_sources: Sequence[str]) -> Iterator[Finding]:
    """Yield the programs that steps call; `rar_sources` are the data sets that come as .rar archives."""
    from rankbound_study.data.archives import readers

    found = readers()
    if found or not rar_sources:
        yield Finding("tools", f"readers of .rar archives: {', '.join(found) or 'none, and none is needed'}")
    else:
        remedy = "install libarchive or unar (Debian: apt install libarchive13), or save the same files as a .zip"
        yield Finding("tools", f"{', '.join(rar_sources)}: no reader of .rar archives: {remedy}", MISSING)
    for name, loss in OPTIONAL.items():
        path = shutil.which(name)
        yield Finding("tools", path or f"{name} was not found: {loss}", NOTE if path is None else "ready")


def memory(largest: str, needed_gigabytes: float) -> Finding:
    """Compare the machine's memory with the estimate of the largest step."""
    total, available = _memory()
    needs = f"the largest step, {largest}, takes about {needed_gigabytes:.1f} GB"
    if total is None or available is None:
        return Finding("memory", f"unknown on this system; {needs}", NOTE)
    text = f"{available:.1f} GB available of {total:.1f}; {needs}"
    if total < needed_gigabytes:
        return Finding("memory", f"{text}: take another machine, or leave it out (`compare`, `datasets`)", MISSING)
    return Finding("memory", text, NOTE if available < needed_gigabytes else "ready")


def disk(folders: Sequence[Path]) -> Iterator[Finding]:
    """Yield the free space on each disk that holds one of the folders, which need not exist yet."""
    free: dict[int, tuple[Path, float]] = {}
    for folder in folders:
        there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
        free.setdefault(there.stat().st_dev, (folder, shutil.disk_usage(there).free / 1e9))
    for folder, gigabytes in free.values():
        text = f"{gigabytes:.1f} GB free for {folder}"
        if gigabytes < DISK_GIGABYTES:
            yield Finding("disk", f"{text}; the default study writes 0.6 GB, and DVC's cache as much again", NOTE)
        else:
            yield Finding("disk", text)


def _torch_build() -> dict[str, Any] | None:
    """Return what torch's small file of versions says, without the second that importing torch takes."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    return runpy.run_path(str(Path(spec.origin).with_name("version.py")))


def _cards() -> list[str]:
    """Return the NVIDIA GPUs that the driver lists."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.partition(" (UUID")[0] for line in listed.stdout.splitlines() if line.startswith("GPU ")]


def _memory() -> tuple[float | None, float | None]:
    """Return the gigabytes that a process may use here and those available now; None where the system does not say."""
    path = Path("/proc/meminfo")
    if not path.exists():
        return None, None
    kibibytes = {line.split(":")[0]: int(line.split()[1]) for line in path.read_text("ascii").splitlines()}
    total, available = (kibibytes[name] * 1024 / 1e9 for name in ("MemTotal", "MemAvailable"))
    limit = CGROUP.read_text("ascii").strip() if CGROUP.exists() else "max"
    most = total if limit == "max" else min(total, int(limit) / 1e9)
    return most, min(available, most)
