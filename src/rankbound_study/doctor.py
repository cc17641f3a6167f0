"""Look at an installation: what a study of this configuration needs here, what is there, and how to get the rest.

The step `doctor` runs before anything is installed, too: functions import what they need.
Packages are compared with those that pyproject.toml requires, by the versions in their metadata. Of raw files nothing
is fetched or read but the first bytes of an archive: the step that reads one checks it.
"""

import os
import platform
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rankbound.texts import printable, quantity

if TYPE_CHECKING:
    from rankbound_study.config.study import Study

READY, NOTE, MISSING = "ready", "note", "missing"
"""In order; something worth knowing, which stops nothing; something without which a step fails."""

ROOT = Path(__file__).resolve().parents[2]
"""The clone of the repository."""

REMEDY = "run `make setup`, or pip install -c envs/cpu.txt -e '.[study]'"

_WIDTH, _INDENT, _MARKS = 110, 15, {MISSING: "! ", NOTE: "- "}


@dataclass(frozen=True)
class Finding:
    """One thing: its level (`READY`, `NOTE`, `MISSING`), the section that shows it, and one sentence.

    The sentence of what is missing ends with what to do about it.
    """

    section: str
    text: str
    level: str = READY


def doctor(files: list[Path]) -> int:
    """Say what is installed, what is there, what is missing, and how to get it; return the exit status."""
    findings = list(_findings(files))
    print("\n".join(lines(findings)))
    missing = sum(finding.level == MISSING for finding in findings)
    named = " ".join(map(str, files))
    print(f"\n{quantity(missing, 'thing')} missing" if missing else f"\nready for the study of {named}")
    return 1 if missing else 0


def _findings(files: Sequence[Path]) -> Iterator[Finding]:
    """Yield what was found; what needs packages that are missing is left out."""
    found = list(packages())
    yield from found
    if any(finding.level == MISSING for finding in found):
        return
    import torch

    from rankbound.errors import ConfigError
    from rankbound_study.config.check import check_config, merged
    from rankbound_study.config.study import Study

    names = [*map(torch.cuda.get_device_name, range(torch.cuda.device_count()))]
    names += ["Apple GPU (mps)"] if torch.backends.mps.is_available() else []
    yield Finding("accelerators", ", ".join(names) or f"none that torch {torch.__version__} can use")
    try:
        study = Study(check_config(merged(files), files))
    except ConfigError as error:
        named, problems = " ".join(map(str, files)), " ".join(str(error).split())
        yield Finding("config", f"{problems}: see python -m rankbound_study check-config {named}", MISSING)
        return
    yield from data_sets(study)


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings, section by section, each with its mark; names from files break no line."""
    for section, group in groupby(findings, key=lambda finding: finding.section):
        for place, finding in enumerate(group):
            mark = _MARKS.get(finding.level, "  ")
            first, rest = f"{'' if place else section:<{_INDENT - len(mark)}}{mark}", " " * _INDENT
            yield from wrap(
                printable(finding.text),
                _WIDTH,
                initial_indent=first,
                subsequent_indent=rest,
                break_on_hyphens=False,
                break_long_words=False,  # a path can be copied in one piece
            )


def packages() -> Iterator[Finding]:
    """Yield what is installed, and what is missing or too old."""
    python = platform.python_version()
    if find_spec("packaging") is None:
        # It reads the versions of all others.
        text = (
            f"the packages of the study are not installed for Python {python}: {REMEDY}; it takes some minutes and 3 "
            "GB of disk, and `make demo` and `make paper` begin with it. Then `make doctor` also says what data, "
            "programs and GPUs there are"
        )
        yield Finding("packages", text, MISSING)
        return
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    if not SpecifierSet(project["requires-python"]).contains(python, prereleases=True):
        text = f"this is Python {python}, expected {project['requires-python']}: make PYTHON=/path/to/python3 setup"
        yield Finding("packages", text, MISSING)
    extras = project["optional-dependencies"]
    waiting, found, lacking = [*project["dependencies"], *extras["study"]], dict[str, str](), list[str]()
    while waiting:
        requirement = Requirement(waiting.pop(0))
        if requirement.name == project["name"]:
            # Its own extras are replaced by what they require.
            waiting += [text for name in sorted(requirement.extras) for text in extras[name]]
            continue
        try:
            has = found[requirement.name] = version(requirement.name)
        except PackageNotFoundError:
            lacking.append(str(requirement))
        else:
            lacking += [] if requirement.specifier.contains(has, prereleases=True) else [f"{requirement}, not {has}"]
    if lacking:
        yield Finding("packages", f"not installed: {', '.join(dict.fromkeys(lacking))}: {REMEDY}", MISSING)
    shown = ", ".join(f"{name} {has}" for name, has in found.items())
    yield Finding("packages", f"Python {python}; {shown or 'none of the study'}")


def data_sets(study: "Study") -> Iterator[Finding]:
    """Yield where each data set is or how to get it, what is left out for want of a file, and what was set aside.

    Readers of archives are named here, too, because an archive may need one.
    """
    from rankbound_study.data.archives import readers

    rar_sources = []
    for source in study.converted:
        place, text, level = _raw_file(study, source)
        yield Finding("data", f"{source}: {text}", level)
        # What has to be unpacked by a reader of .rar archives, as far as name and first bytes tell.
        is_rar = place.endswith(".rar")
        if Path(place).is_file():
            with Path(place).open("rb") as file:
                is_rar = file.read(4) == b"Rar!"
        rar_sources += [source] if is_rar else []
    if study.generated:
        yield Finding("data", f"{', '.join(study.generated)}: generated, no file is needed")
    yield from (Finding("data", reason, NOTE) for reason in study.left_out.values())
    for path in sorted(Path(study.config.pathvars.data, "raw").glob("*.rejected*")):
        yield Finding("data", f"{path} failed its check and is never read: remove it", NOTE)
    found = readers()
    if found or not rar_sources:
        yield Finding("tools", f"readers of .rar archives: {', '.join(found) or 'none, and none is needed'}")
        return
    remedy = "install libarchive or unar (Debian: apt install libarchive13), or save the same files as a .zip"
    yield Finding("tools", f"{', '.join(rar_sources)}: no reader of .rar archives: {remedy}", MISSING)


def _raw_file(study: "Study", source: str) -> tuple[str, str, str]:
    """Return where the workflow will get a raw file (path, address, or "" if it is missing), and text and level."""
    from rankbound_study.config.sections.description import own_files

    described = study.described(source)
    if described.path:
        if absent := [file for file in own_files(described) if not Path(file).is_file()]:
            remedy = "put it there, or correct the path in the configuration"
            return "", f"there is no file {absent[0]}: {remedy}", MISSING
        return described.path, described.path, READY
    names = described.archives or ()
    target = Path(study.config.pathvars.data, "raw", study.sources[source].archive or "")
    mirror = os.environ.get("RANKBOUND_MIRROR") or study.config.mirror or ""
    folders = [target.parent, *([Path(mirror)] if mirror and "://" not in mirror else [])]
    for path in (target, *(folder / name for folder in folders for name in names)):
        if path.is_file():
            return str(path), str(path), READY
    if "://" in mirror:
        place = f"{mirror.rstrip('/')}/{names[0]}" if names else mirror
        return place, f"will be asked for at the mirror {mirror}", NOTE
    if described.addresses:
        address = described.addresses[0]
        return address, f"not here; will be downloaded from {urlsplit(address).hostname}", NOTE
    where = f"get {' or '.join(names) or target.name} from {described.homepage or 'its owner'}"
    return "", f"{target} is missing and has no address: {where}, and save it there", MISSING
