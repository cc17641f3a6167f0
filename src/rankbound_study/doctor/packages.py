"""The installed packages against those that pyproject.toml requires, and against the versions that the tests ran with.

Nothing is imported: the metadata of the installed packages has their versions.
"""

import platform
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound_study.doctor.finding import MISSING, NOTE, Finding

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
