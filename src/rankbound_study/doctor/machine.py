"""The machine: installed packages, accelerators, the cache of compiled kernels, programs that steps call, memory, disk.

Packages are compared with those that pyproject.toml requires, and with the versions that the tests ran with. None is
imported: their metadata has the versions.
"""

import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.texts import quantity
from rankbound_study.doctor import MISSING, NOTE, Finding

if TYPE_CHECKING:
    from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]
"""The clone of the repository."""

SECTION = "packages"
EXTRA = "study"
REMEDY = "run `make setup`, or pip install -c envs/cpu.txt -e '.[study]'"
SETUP = (
    "; it takes some minutes and 3 GB of disk, and `make demo` and `make paper` begin with it. Then `make doctor` also "
    "says what data, programs, memory and GPUs there are"
)


def packages(root: Path = ROOT) -> Iterator[Finding]:
    """Yield what is installed, what is missing or too old, and which versions are not the tested ones."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    if nothing_installed():
        text = f"the packages of the study are not installed for Python {platform.python_version()}: {REMEDY}{SETUP}"
        yield Finding(SECTION, text, MISSING)
        return
    from packaging.specifiers import SpecifierSet

    python = platform.python_version()
    if not SpecifierSet(project["requires-python"]).contains(python, prereleases=True):
        text = f"this is Python {python}, expected {project['requires-python']}: make PYTHON=/path/to/python3 setup"
        yield Finding(SECTION, text, MISSING)
    absent: list[str] = []
    other: list[str] = []
    installed: dict[str, str] = {}
    for requirement in required(project, EXTRA):
        if (found := installed_version(requirement.name)) is None:
            absent.append(str(requirement))
        elif not requirement.specifier.contains(found, prereleases=True):
            other.append(f"{requirement.name} is {found}, expected {requirement.specifier}")
        else:
            installed[requirement.name] = found
    if absent:
        yield Finding(SECTION, f"not installed: {', '.join(absent)}: {REMEDY}", MISSING)
    if other:
        yield Finding(SECTION, f"{'; '.join(other)}: {REMEDY}", MISSING)
    shown = ", ".join(f"{name} {found}" for name, found in installed.items())
    yield Finding(SECTION, f"Python {python}; {shown or 'none of the study'}")
    if others := _untested(installed, root):
        yield Finding(
            SECTION, f"other versions than the tested ones, which may change the last digits of results: {others}", NOTE
        )


def nothing_installed() -> bool:
    """Return whether even the package is missing that reads the versions of the others."""
    return find_spec("packaging") is None


def required(project: Mapping[str, Any], extra: str) -> "list[Requirement]":
    """Return what a project's table in pyproject.toml requires with an extra; its own extras are replaced by theirs."""
    from packaging.requirements import Requirement

    extras = project["optional-dependencies"]
    waiting, found = [*project["dependencies"], *extras[extra]], {}
    while waiting:
        requirement = Requirement(waiting.pop(0))
        if requirement.name == project["name"]:
            waiting += [text for name in sorted(requirement.extras) for text in extras[name]]
        else:
            found[requirement.name] = requirement
    return list(found.values())


@cache
def installed_version(name: str) -> str | None:
    """Return the version of an installed package; None if there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _untested(installed: Mapping[str, str], root: Path) -> str:
    """Return the packages of other versions than those that the tests ran with, each with that version."""
    texts = [(root / "envs" / name).read_text("utf-8") for name in ("torch.txt", "cpu.txt")]
    pins = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", "\n".join(texts), re.MULTILINE))
    tested = {_plain(name): pin for name, pin in pins.items()}
    # A local version names the build, such as +cpu.
    others = [
        f"{name} {found} ({tested[_plain(name)]})"
        for name, found in installed.items()
        if tested.get(_plain(name), found) not in (found, found.partition("+")[0])
    ]
    return ", ".join(others)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


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
