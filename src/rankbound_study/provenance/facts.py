"""What this process is: the package's code, the libraries that it loaded, the machine under it."""

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import rankbound
import rankbound_study
from rankbound._version import __version__

PACKAGES = tuple(Path(file).resolve().parent for file in (rankbound.__file__, rankbound_study.__file__))
WORKFLOW = (":/Snakefile", ":/workflow")

COMPUTING = {
    "torch": "torch",
    "numpy": "numpy",
    "scipy": "scipy",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "lightgbm": "lightgbm",
    "sklearn": "scikit-learn",
    "safetensors": "safetensors",
    "PIL": "pillow",
    "libarchive": "libarchive-c",
    "matplotlib": "matplotlib",
    "typst": "typst",
}
"""Libraries that have a say in results: the module's name, and its distribution's."""

SWITCHES = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "MKL_CBWR",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "PYTHONHASHSEED",
)
"""Environment variables that choose instructions, threads or algorithms."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """The package that ran.

    Attributes:
        version: of the package.
        commit: of the git checkout that the package lies in; None outside of one.
        modified: files of the package and the workflow that differ from that commit.
        sha256: of the package's files, names and contents: the same code has the same one, with or without git.
    """

    version: str
    commit: str | None
    modified: tuple[str, ...]
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a step ran on.

    Attributes:
        name: its name in the network, which tells a cluster's nodes apart.
        system: operating system and C library.
        processor: its model.
        instructions: the vector instructions that torch chose; empty if it was not loaded.
        cores: of the machine.
        usable_cores: those that the process was allowed to use.
        memory_gib: of the machine.
        gpus: those that the step used.
    """

    name: str
    system: str
    processor: str
    instructions: str
    cores: int
    usable_cores: int
    memory_gib: float
    gpus: tuple[str, ...]


def code() -> Code:
    """The package that is running."""
    commit, modified = _checkout(*PACKAGES)
    return Code(version=__version__, commit=commit, modified=modified, sha256=_digest(PACKAGES))


def versions() -> dict[str, str]:
    """Python, and those libraries of `COMPUTING` that are loaded."""
    found = {"python": platform.python_version(), "rankbound": __version__}
    for module, name in COMPUTING.items():
        if module in sys.modules:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = str(getattr(sys.modules[module], "__version__", "unknown"))
    return found


def machine() -> Machine:
    """This machine, as far as the system says."""
    torch = sys.modules.get("torch")
    return Machine(
        name=platform.node(),
        system=f"{platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}".rstrip(", "),
        processor=_processor(),
        instructions=str(torch.backends.cpu.get_cpu_capability()) if torch else "",
        cores=os.cpu_count() or 1,
        usable_cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=_memory(),
        gpus=_gpus(torch),
    )


def switches() -> dict[str, str]:
    """Those of `SWITCHES` that are set."""
    return {name: os.environ[name] for name in SWITCHES if name in os.environ}


def peak_memory() -> float | None:
    """The most memory that this process had, in MiB; None where the system does not say."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def _checkout(library: Path, study: Path) -> tuple[str | None, tuple[str, ...]]:
    """The commit that the two packages' files belong to, and what was modified since.

    A checkout around a virtual environment knows nothing of the packages in it: theirs is not its commit.
    """
    if not _git(library, "ls-files", "--error-unmatch", "_version.py"):
        return None, ()
    commit = _git(library, "rev-parse", "HEAD").strip()
    lines = _git(library, "status", "--porcelain", "--", ".", str(study), *WORKFLOW).splitlines()
    return commit or None, tuple(sorted(line[3:] for line in lines))


def _git(folder: Path, *arguments: str) -> str:
    """What git prints; nothing where it fails or is not there."""
    # Without optional locks, steps that run side by side never wait for each other.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        result = subprocess.run(
            ["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout if result.returncode == 0 else ""


def _digest(packages: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for folder in packages:
        for path in sorted(path for suffix in ("*.py", "*.csv") for path in folder.rglob(suffix)):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(folder.parent).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8", errors="replace").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> float:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return 0.0


def _gpus(torch: Any) -> tuple[str, ...]:
    if torch is None or not torch.cuda.is_initialized():
        return ()
    return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
