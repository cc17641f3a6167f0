"""Describe the machine of a benchmark, and measure its load."""

import os
import platform
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = (
    "rankbound",
    "torch",
    "numpy",
    "jax",
    "rax",
    "pytorchltr",
    "ranx",
    "ir-measures",
    "pytrec-eval-terrier",
    "scikit-learn",
    "pyarrow",
    "sentence-transformers",
)
BUSY_CORES = 0.2
"""Load by other processes, in cores, above which figures are unusable: threads that synchronise wait for each other."""
_LOOK = 1.0
"""Seconds over which the load is measured."""


def describe(threads: int) -> str:
    """Return processor, threads and versions as one line."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{_processor()}, {threads} threads, {platform.system()}; {python}, {', '.join(_versions())}"


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores_in_use() -> float:
    """Return the number of cores in use by others, measured over a second; 0 if the system does not report it."""
    if not Path("/proc/stat").exists():
        return 0.0
    before = _core_seconds()
    time.sleep(_LOOK)
    (total, idle), (total_before, idle_before) = _core_seconds(), before
    return (os.cpu_count() or 1) * (1 - (idle - idle_before) / max(total - total_before, 1e-9))


def _core_seconds() -> tuple[float, float]:
    """Return the total time and the idle time (including waits for disks) of all cores since boot, in clock ticks."""
    counts = [int(word) for word in Path("/proc/stat").read_text("ascii").splitlines()[0].split()[1:9]]
    return sum(counts), counts[3] + counts[4]


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _versions() -> Iterator[str]:
    for name in _PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
