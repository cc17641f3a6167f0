"""Does everything that states the version agree? `src/rankbound/_version.py` is the place where it is set."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

UNRELEASED = "Unreleased"
CORE, COMMAND_LINE = "core", "statistics"
"""What the fresh environments have: the dependencies alone, and the extra with all that the command line needs."""


def version_of(root: Path) -> str:
    """Return the version of the library in a clone."""
    text = (root / "src/rankbound/_version.py").read_text("utf-8")
    return re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]


def disagreements(root: Path) -> Iterator[str]:
    """Yield what states another version than `_version.py`, or none, each with what to do."""
    version = version_of(root)
    citation = re.findall(r"^version: (.+)$", (root / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    if citation != [version]:
        yield f"CITATION.cff has the version {' '.join(citation) or 'none'}, expected {version}: edit it"
    sections = re.findall(r"^## (\S+)", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if sections[:1] == [UNRELEASED]:
        yield f"CHANGELOG.md begins with {UNRELEASED}: name that section {version}, with the date of the release"
    elif sections[:1] != [version]:
        yield f"CHANGELOG.md begins with {' '.join(sections[:1]) or 'no section'}, expected {version}: describe it"
    listed = subprocess.run(
        ["git", "tag", "--points-at", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    if (tags := listed.stdout.split()) and f"v{version}" not in tags:
        yield f"this commit has the tag {' '.join(tags)}, expected v{version}: tag another commit, or set the version"


def lowest(project: Mapping[str, Mapping[str, list[str]]], extra: str) -> dict[str, str]:
    """Return the lowest versions that pyproject.toml allows of the dependencies and of an extra, by name."""
    extras, waiting, found = project["optional-dependencies"], [*project["dependencies"]], {}
    waiting += extras[extra]
    while waiting:
        text = waiting.pop(0)
        if inner := re.fullmatch(r"rankbound\[(.+)\]", text):
            waiting += [one for name in inner[1].split(",") for one in extras[name]]
        else:
            name, bound = text.split(">=")
            found[name] = bound
    return found
