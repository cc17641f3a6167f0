"""Raw files made for a test: their pictures, and their sources, told the sums of what the test put into them."""

import hashlib
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from rankbound.errors import DataError
from rankbound_study.config.sections.known_sets import known_set
from rankbound_study.data import judged_files, ratings
from rankbound_study.data.archives import find_member, list_members, read_members
from rankbound_study.data.sources import (
    SOURCES,
    Folder,
    RawFile,
    RawSource,
    file_name,
    folder_members,
    member_checksum,
    sum_of,
)


def raw_file(name: str, path: Path) -> RawFile:
    """The file at `path` as that of the source `name`, whatever it holds."""
    return RawFile(source_of(name, path), path)


def convert_as(name: str, path: Path, out: Path) -> None:
    """Convert the archive at `path` as that of the known data set `name`, whatever it holds."""
    convert = {"ratings": ratings.convert, "letor": judged_files.convert}[known_set(name).format]
    convert(raw_file(name, path), known_set(name), out)


def source_of(name: str, path: Path) -> RawSource:
    """The source of that name with the sums of this file's content; members that the archive lacks are left out."""
    source = SOURCES[name]
    if source.checksum:
        return replace(source, checksum=hashlib.sha256(path.read_bytes()).hexdigest())
    if source.folder is not None:
        return replace(source, folder=_folder_of(source, source.folder, path))
    members = list_members(path, source.limits)
    sums = {}
    for wanted in source.members:
        try:
            found = find_member(members, wanted, path)
        except DataError:
            continue
        sums[wanted] = member_checksum(path, found, source)
    return replace(source, members=sums)


def _folder_of(source: RawSource, folder: Folder, path: Path) -> Folder:
    members = folder_members(list_members(path, source.limits), folder.path, path)
    contents = read_members(path, [member.name for member in members], source.limits)
    lines = [f"{hashlib.sha256(content).hexdigest()}  {file_name(name)}" for name, content in contents]
    names = sum_of(file_name(member.name) for member in members)
    size = sum(member.size for member in members)
    return replace(folder, count=len(members), names=names, editions={size: sum_of(lines)}, unknown_from=None)


def encode_image(pixels: np.ndarray, quality: int = 95) -> bytes:
    """Encode `(3, height, width)` pixels 0 .. 255 as JPEG."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)), "RGB").save(stream, "JPEG", quality=quality)
    return stream.getvalue()
