"""Raw files made for a test: their pictures, and their sources, told the sums of what the test put into them."""

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from rankbound.errors import DataError
from rankbound_study.config.sections.description import FolderKeys, known_sets
from rankbound_study.data import judged_files, ratings
from rankbound_study.data.archives import find_member, list_members, open_member, read_members
from rankbound_study.data.faces import FOLDER
from rankbound_study.data.sources import SOURCES, RawFiles, RawSource, folder_members, sum_of

_SIGNATURE = b"Rar!\x1a\x07\x00"
_ARCHIVE, _FILE, _END = 0x73, 0x74, 0x7B
_LONG_BLOCK, _SKIP_IF_UNKNOWN = 0x8000, 0x4000
_DOS_TIME_2010 = (2010 - 1980) << 25 | 1 << 21 | 1 << 16
_UNIX, _VERSION, _STORED = 3, 29, 0x30
REGULAR, LINK = 0o100644, 0o120777


def pack(path: Path, members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED, mode: int = 0) -> Path:
    """Pack `members` into a zip, the same bytes every time; `mode` gives another Unix mode than a file's to all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr, info.compress_type = 3, mode << 16, method
            archive.writestr(info, data)
    return path


def make_rar(path: Path, members: Mapping[str, bytes], modes: Mapping[str, int] | None = None) -> Path:
    """Write stored members into a RAR 2.9/3.x ("RAR4") archive; `modes` has other Unix modes than a regular file's."""
    with path.open("wb") as file:
        file.write(_SIGNATURE + _header(_ARCHIVE, 0, b"\0" * 6))
        for name, data in members.items():
            mode = (modes or {}).get(name, REGULAR)
            file.write(_header(_FILE, _LONG_BLOCK, _member(name.replace("/", "\\").encode("ascii"), data, mode)))
            file.write(data)
        file.write(_header(_END, _SKIP_IF_UNKNOWN, b""))
    return path


def _member(name: bytes, data: bytes, mode: int) -> bytes:
    size, checksum = len(data), zlib.crc32(data)
    fixed = (size, size, _UNIX, checksum, _DOS_TIME_2010, _VERSION, _STORED, len(name), mode)
    return struct.pack("<IIBIIBBHI", *fixed) + name


def _header(kind: int, flags: int, body: bytes) -> bytes:
    raw = struct.pack("<BHH", kind, flags, 7 + len(body)) + body
    return struct.pack("<H", zlib.crc32(raw) & 0xFFFF) + raw


def raw_file(name: str, path: Path) -> RawFiles:
    """The file at `path` as that of the source `name`, whatever it holds."""
    return RawFiles(source_of(name, path), [path])


def convert_as(name: str, path: Path, out: Path) -> None:
    """Convert the archive at `path` as that of the known data set `name`, whatever it holds."""
    convert = {"ratings": ratings.convert, "letor": judged_files.convert}[known_sets()[name].format]
    convert(raw_file(name, path), out)


def changed(source: RawSource, **keys: Any) -> RawSource:
    """The source with other keys of its description; those of `content` are named by themselves."""
    own = {key: keys.pop(key) for key in ("algorithm", "line_ends", "members", "file") if key in keys}
    if own:
        keys["content"] = source.content.model_copy(update=own)
    return RawSource(source.name, source.described.model_copy(update=keys))


def source_of(name: str, path: Path) -> RawSource:
    """The source of that name with the sums of this file's content; members that the archive lacks are left out."""
    source = SOURCES[name]
    if source.content.file:
        return changed(source, file=hashlib.sha256(path.read_bytes()).hexdigest())
    members = list_members(path)
    if (folder := source.described.folder) is not None:
        contents = read_members(path, [one.name for one in folder_members(members, folder.path, path)])
        return changed(source, folder=folder_of({Path(name).name: content for name, content in contents}))
    sums = {}
    for wanted in source.content.members:
        try:
            with open_member(path, find_member(members, wanted, path)) as stream:
                sums[wanted] = source.checksum(stream)
        except DataError:
            continue
    return changed(source, members=sums)


def folder_of(files: dict[str, bytes], **more: int) -> FolderKeys:
    """All-Age-Faces' folder with the sums of these files."""
    names = sorted(files)
    sums = sum_of(f"{hashlib.sha256(files[name]).hexdigest()}  {name}" for name in names)
    editions = {str(sum(map(len, files.values()))): sums}
    known = {"path": FOLDER, "count": len(names), "names": sum_of(names), "editions": editions}
    return FolderKeys.model_validate(known | more)


def encode_image(pixels: np.ndarray, quality: int = 95) -> bytes:
    """Encode `(3, height, width)` pixels 0 .. 255 as JPEG."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)), "RGB").save(stream, "JPEG", quality=quality)
    return stream.getvalue()
