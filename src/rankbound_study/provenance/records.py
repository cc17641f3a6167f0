"""The record of one step: its inputs, outputs, code and machine, as one JSON file.

The command line records a step while it runs if RANKBOUND_PROVENANCE names a folder. The files of the packages, modules
and data, are noted with their checksums when they are opened, so an edit while a step runs does not change what the
step says it ran.
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import source_from_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import rankbound
import rankbound_study
from rankbound._version import __version__
from rankbound.io.atomic import write_text, written
from rankbound_study.provenance.checksums import RECORDS, Checksum

HIDDEN = ("run", "subcommand", "mirror")
"""Arguments that do not affect the result: where archives are, since their checksums are compared."""

PACKAGES = tuple(Path(file).resolve().parent for file in (rankbound.__file__, rankbound_study.__file__))
WORKFLOW = (":/Snakefile", ":/workflow")

COMPUTING = {
    **{name: name for name in ("torch", "numpy", "numba", "scipy", "polars", "pyarrow", "lightgbm", "safetensors")},
    **{name: name for name in ("matplotlib", "typst")},
    "sklearn": "scikit-learn",
    "PIL": "pillow",
    "libarchive": "libarchive-c",
}
"""Modules of libraries that affect results -> their distributions."""

SWITCHES = (
    *("ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "MKL_CBWR", "MKL_NUM_THREADS", "NUMBA_CPU_FEATURES"),
    *("NUMBA_CPU_NAME", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "PYTHONHASHSEED"),
    "RANKBOUND_FAST",
)
"""Environment variables that choose instructions, threads or algorithms."""

UNREADABLE = "unreadable"

_FOLDERS = {
    f"{folder}{os.sep}": len(str(folder.parent)) + 1
    for module in (rankbound, rankbound_study)
    for file in (Path(module.__file__ or ""),)
    for folder in (file.absolute().parent, file.resolve().parent)
}
"""The packages' folders, as they are named and as they are, and where the name of a file in them begins."""

_noted: dict[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Code:
    """The code of a step.

    Attributes:
        version: of the package.
        commit: of the git checkout that contains the packages; None outside of one.
        modified: files of the packages and the workflow that differ from that commit.
        sha256: of the listing of the packages' files that the step loaded (`listing`): equal for the same code,
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


@dataclass(frozen=True, kw_only=True)
class Record:
    """A step that succeeded. Paths are relative to the results folder, with slashes.

    Attributes:
        schema: the version of this description.
        name: of the record's file in the folder of records, without suffix: the step's first output.
        subcommand: of `python -m rankbound_study`.
        arguments: its arguments except files; JSON options as their content.
        seeds: all seeds among the arguments.
        inputs: the files that it read.
        outputs: the files that it made.
        code: the code that ran.
        versions: of the loaded libraries.
        switches: environment variables that choose instructions, threads or algorithms.
        machine: where it ran.
        started: time in UTC, ISO 8601.
        seconds: duration.
        cpu_seconds: processor time of its process, from the start of Python on; 0 in records of older versions.
        peak_mib: peak memory, if the system reports it.
    """

    schema: Literal["rankbound.step/1"] = "rankbound.step/1"
    name: str
    subcommand: str
    arguments: Mapping[str, Any]
    seeds: tuple[int, ...]
    inputs: Mapping[str, Checksum]
    outputs: Mapping[str, Checksum]
    code: Code
    versions: Mapping[str, str]
    switches: Mapping[str, str]
    machine: Machine
    started: str
    seconds: float
    peak_mib: float | None
    cpu_seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.ended.tzinfo is None:
            raise ValueError("a time without a time zone")

    @property
    def ended(self) -> datetime:
        """The time when the step ended."""
        return datetime.fromisoformat(self.started) + timedelta(seconds=self.seconds)

    def to_json(self) -> str:
        """Return the record as one line."""
        return json.dumps(asdict(self), sort_keys=True)


def code_file(results: Path, sha256: str) -> Path:
    """Return the place of the list of the files that steps loaded: what `sha256sum --check` reads beside them."""
    return results / RECORDS / "code" / f"{sha256}.sha256"


def read_code(results: Path, sha256: str) -> dict[str, str]:
    """Return the checksums of the files that steps loaded, by their paths; empty if they are not known."""
    try:
        text = code_file(results, sha256).read_text("utf-8")
        files = {path: checksum for checksum, path in (line.split("  ", 1) for line in text.splitlines())}
    except (OSError, ValueError):
        return {}
    return files if digest(files) == sha256 else {}


@cache
def watch() -> None:
    """Note every file of the packages from now on, and those of the modules that are loaded already."""
    sys.addaudithook(_note)
    for module in list(sys.modules.values()):
        _note("open", (getattr(module, "__file__", None),))


def loaded_files() -> dict[str, str]:
    """Return the SHA-256 of each file by its path below the folder of the packages, with slashes."""
    return dict(sorted(_noted.items()))


def listing(files: Mapping[str, str]) -> str:
    """Return the files as `sha256sum` lists them."""
    return "".join(f"{checksum}  {path}\n" for path, checksum in sorted(files.items()))


def digest(files: Mapping[str, str]) -> str:
    """Return the SHA-256 of the listing, which names the code that ran."""
    return hashlib.sha256(listing(files).encode()).hexdigest()


@contextmanager
def recorded(
    arguments: argparse.Namespace, folder: Path, also_read: Mapping[str, list[Path]] = MappingProxyType({})
) -> Iterator[None]:
    """Leave a record of the block's step under `folder`, which is in the results folder.

    Every step has a separate file, named after its first output. A step that fails, or writes no files, leaves none.
    """
    out = getattr(arguments, "out", None)
    target = out[0] if isinstance(out, list) and out else out
    if target is None and hasattr(arguments, "out_dir"):
        first = arguments.names[0] if hasattr(arguments, "names") else arguments.name
        target = arguments.out_dir / f"{first}.csv"
    if not isinstance(target, Path):
        yield
        return
    watch()
    results = folder.parent
    name = _place(target, results)
    started, ran, began = datetime.now(UTC).isoformat(timespec="microseconds"), code(), time.monotonic()
    with written() as files:
        yield
    loaded = loaded_files()
    ran = replace(ran, sha256=digest(loaded))
    outputs = [file for file in dict.fromkeys([*files, target]) if file.is_file()]
    values = {name: value for name, value in (vars(arguments) | dict(also_read)).items() if name not in HIDDEN}
    plain = {name: _plain(value) for name, value in values.items() if not _paths(value)}
    record = Record(
        name=name,
        subcommand=arguments.subcommand,
        arguments={name: value for name, value in plain.items() if value not in (None, [], {})},
        seeds=tuple(sorted(set(_seeds(plain)))),
        inputs=_checksums([path for path in chain(*map(_paths, values.values())) if path not in outputs], results),
        outputs=_checksums(outputs, results),
        code=ran,
        versions=versions(),
        switches={name: os.environ[name] for name in SWITCHES if name in os.environ},
        machine=machine(),
        started=started,
        seconds=round(time.monotonic() - began, 6),
        cpu_seconds=round(time.process_time(), 6),
        peak_mib=peak_memory(),
    )
    if not (listed := code_file(results, ran.sha256)).exists():
        write_text(listed, listing(loaded))
    write_text(folder / f"{name}.json", f"{record.to_json()}\n")


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
    for module, name in COMPUTING.items():
        if module in sys.modules:
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


def peak_memory() -> float | None:
    """Return the peak memory of this process in MiB; None if the system does not report it."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not isinstance(path := arguments[0], str):
        return
    # What Python compiled is that of its source: it compares their times.
    with suppress(ValueError, OSError):
        path = source_from_cache(path) if path.endswith(".pyc") else path
        begin = next((begin for folder, begin in _FOLDERS.items() if path.startswith(folder)), None)
        if begin is None or "__pycache__" in path or not Path(path).is_file():
            return
        name = path[begin:].replace(os.sep, "/")
        if name not in _noted:
            # Before the file is read, which opens it.
            _noted[name] = UNREADABLE
            _noted[name] = Checksum.of(Path(path)).sha256


def _place(target: Path, results: Path) -> str:
    """Return the place of a file's record: that of the file in the results folder, or in the working folder.

    A file elsewhere has the name of its folder before its own.
    """
    for base in (results, Path()):
        relative = Path(os.path.relpath(target, base))
        if ".." not in relative.parts and not relative.is_absolute():
            return relative.as_posix()
    return Path(target.parent.name, target.name).as_posix()


def _checksums(paths: list[Path], results: Path) -> dict[str, Checksum]:
    files = [path for path in dict.fromkeys(paths) if path.is_file()]
    return {Path(os.path.relpath(path, results)).as_posix(): Checksum.of(path) for path in files}


def _paths(value: Any) -> list[Path]:
    values = value if isinstance(value, list | tuple) else [value]
    return [path for path in values if isinstance(path, Path)]


def _plain(value: Any) -> Any:
    """Return an argument as JSON; options are JSON already."""
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError):
            return json.loads(value)
    return value if isinstance(value, str | int | float | bool | list | None) else str(value)


def _seeds(value: Any) -> Iterator[int]:
    """Yield the values under `seed` and `seeds`, at any depth."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            listed = inner if isinstance(inner, list) else [inner]
            if key in ("seed", "seeds"):
                yield from (seed for seed in listed if isinstance(seed, int) and not isinstance(seed, bool))
            else:
                yield from _seeds(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _seeds(inner)


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
