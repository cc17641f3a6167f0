"""The raw files of a configuration's data sets: already here, at the mirror, to be downloaded, or missing.

Nothing is fetched, and no content is read but the first bytes of an archive: the step that reads one checks it.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rankbound_study.config.own_files import own_files
from rankbound_study.config.study import Study
from rankbound_study.doctor import MISSING, NOTE, READY, Finding

SECTION = "data"
MIRROR_VARIABLE = "RANKBOUND_MIRROR"
RAR = b"Rar!"


@dataclass(frozen=True)
class RawFile:
    """Where the workflow will get a data set's raw file: a path, an address, or None if it is missing."""

    source: str
    place: str | None
    finding: Finding

    @property
    def is_rar(self) -> bool:
        """Whether it has to be unpacked by a reader of .rar archives, as far as name and first bytes tell."""
        if self.place is None or not Path(self.place).is_file():
            return bool(self.place) and str(self.place).endswith(".rar")
        with Path(self.place).open("rb") as file:
            return file.read(len(RAR)) == RAR


def raw_files(study: Study) -> list[RawFile]:
    """Return the raw file of every data set of the study that is not generated."""
    return [_raw_file(study, source) for source in study.converted]


def data_sets(study: Study, files: Sequence[RawFile]) -> Iterator[Finding]:
    """Yield where each data set is or how to get it, what is left out for want of a file, and what was set aside."""
    yield from (file.finding for file in files)
    if study.generated:
        yield Finding(SECTION, f"{', '.join(study.generated)}: generated, no file is needed")
    yield from (Finding(SECTION, reason, NOTE) for reason in study.left_out.values())
    for path in sorted(_raw_folder(study).glob("*.rejected*")):
        yield Finding(SECTION, f"{path} failed its check and is never read: remove it", NOTE)


def _raw_file(study: Study, source: str) -> RawFile:
    described, section = study.described(source), study.sources[source]
    if described.path:
        absent = [file for file in own_files(described) if not Path(file).is_file()]
        if not absent:
            return _found(source, described.path)
        remedy = "put it there, or correct the path in the configuration"
        return _missing(source, f"there is no file {absent[0]}: {remedy}")
    target, names = _raw_folder(study) / (section.archive or ""), described.archives or ()
    local = [target, *(target.parent / name for name in names)]
    mirror = os.environ.get(MIRROR_VARIABLE) or study.config.mirror
    is_folder = bool(mirror) and "://" not in mirror
    local += [Path(mirror) / name for name in names] if is_folder else []
    if place := next((path for path in local if path.is_file()), None):
        return _found(source, str(place))
    if mirror and not is_folder:
        text = f"{source}: will be asked for at the mirror {mirror}"
        return RawFile(source, f"{mirror.rstrip('/')}/{names[0]}" if names else mirror, Finding(SECTION, text, NOTE))
    if described.addresses:
        address = described.addresses[0]
        text = f"{source}: not here; will be downloaded from {urlsplit(address).hostname}"
        return RawFile(source, address, Finding(SECTION, text, NOTE))
    where = f"get {' or '.join(names) or target.name} from {described.homepage or 'its owner'}"
    return _missing(source, f"{target} is missing and has no address: {where}, and save it there")


def _raw_folder(study: Study) -> Path:
    return Path(study.config.pathvars.data, "raw")


def _found(source: str, place: str) -> RawFile:
    return RawFile(source, place, Finding(SECTION, f"{source}: {place}", READY))


def _missing(source: str, text: str) -> RawFile:
    return RawFile(source, None, Finding(SECTION, f"{source}: {text}", MISSING))
