"""Facts about this process: the code of the packages, the loaded libraries, the machine."""

import os
import platform
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import rankbound
import rankbound_study
from rankbound._version import __version__
from rankbound_study.provenance.loaded import digest, loaded_files

PACKAGES = tuple(Path(file).resolve().parent for file in (rankbound.__file__, rankbound_study.__file__))
WORKFLOW = (":/Snakefile", ":/workflow")

COMPUTING = (
    *("torch", "numpy", "numba", "scipy", "polars", "pyarrow", "lightgbm", "sklearn", "safetensors", "PIL"),
    *("libarchive", "matplotlib", "typst"),
)
"""Libraries that affect results: the names of their modules."""

DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow", "libarchive": "libarchive-c"}
"""Modules -> the distributions that have other names."""

SWITCHES = (
    *("ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "MKL_CBWR", "MKL_NUM_THREADS", "NUMBA_CPU_FEATURES"),
    *("NUMBA_CPU_NAME", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "PYTHONHASHSEED"),
    "RANKBOUND_FAST",
)
"""Environment variables that choose instructions, threads or algorithms."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """The code of a step.

    Attributes:
        version: of the package.
        commit: of the git checkout that contains the packages; None outside of one.
        modified: files of the packages and the workflow that differ from that commit.
        sha256: of the listing of the packages' files that the step loaded (`loaded.listing`): equal for the same code,
            with or without git.
    """

    version: str
    commit: str | None
    modified: tuple[str, ...]
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine of a step.

    Attributes:
        name: its network name, which identifies a cluster's nodes.
        system: operating system and C library.
        processor: its model.
        instructions: the vector instructions that torch chose; empty if it was not loaded.
        cores: of the machine.
        usable_cores: those available to the process.
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
    """Return the code of the running packages, as far as it is loaded.

    A checkout around a virtual environment does not contain the packages in it, so its commit is not theirs.
    """
    library, study = PACKAGES
    commit, lines = "", list[str]()
    if _git(library, "ls-files", "--error-unmatch", "_version.py"):
        commit = _git(library, "rev-parse", "HEAD").strip()
        lines = _git(library, "status", "--porcelain", "--", ".", str(study), *WORKFLOW).splitlines()
    modified = tuple(sorted(line[3:] for line in lines))
    return Code(version=__version__, commit=commit or None, modified=modified, sha256=digest(loaded_files()))


def versions() -> dict[str, str]:
    """Return the versions of Python and of the loaded libraries of `COMPUTING`."""
    loaded = {"python": platform.python_version(), "rankbound": __version__}
    for module in COMPUTING:
        if module in sys.modules:
            name = DISTRIBUTIONS.get(module, module)
            try:
                loaded[name] = version(name)
            except PackageNotFoundError:
                loaded[name] = str(getattr(sys.modules[module], "__version__", "unknown"))
    return loaded


def machine() -> Machine:
    """Describe this machine, as far as the system reports it."""
    torch = sys.modules.get("torch")
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8", errors="replace").splitlines() if cpuinfo.exists() else []
    processors = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory, gpus = 0.0, ()
    with suppress(AttributeError, ValueError, OSError):
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    if torch is not None and torch.cuda.is_initialized():
        gpus = tuple(map(torch.cuda.get_device_name, range(torch.cuda.device_count())))
    return Machine(
        name=platform.node(),
        system=f"{platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}".rstrip(", "),
        processor=processors[0] if processors else platform.processor() or platform.machine(),
        instructions=str(torch.backends.cpu.get_cpu_capability()) if torch else "",
        cores=os.cpu_count() or 1,
        usable_cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=memory,
        gpus=gpus,
    )


def switches() -> dict[str, str]:
    """Return the variables of `SWITCHES` that are set."""
    return {name: os.environ[name] for name in SWITCHES if name in os.environ}


def peak_memory() -> float | None:
    """Return the peak memory of this process in MiB; None if the system does not report it."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def _git(folder: Path, *arguments: str) -> str:
    """Return git's output, or an empty text if it fails or is missing."""
    # Without optional locks, simultaneous steps never wait for each other.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        result = subprocess.run(
            ["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout if result.returncode == 0 else ""
