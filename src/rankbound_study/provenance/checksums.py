"""Checksums of files, which files of a results folder are results, and which files a check of one may read.

These are those of the folder itself and of its study's data folder. A manifest or a link may name any other file. Those
are never opened: a device may never end, and a file of the reader's own is nobody's input.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from rankbound.errors import DataError
from rankbound.texts import printable

RECORDS = "provenance"
MANIFEST = "provenance.json"
SIGNATURE = "provenance.json.sig"
PAPER = "paper/"
"""Files made from the manifest, which it therefore cannot list."""

SHARDS = ".shards"
"""Ending of a folder with the finished folds of a training that was ended."""

OF_GIT = (".gitignore", ".gitkeep")
"""Hidden files that git and DVC need."""

BENCHMARKS = "benchmarks"
"""Folder of what benchmarks measured; older versions kept times of steps there, too."""

OWN_FOLDERS = ("distributions", "figures", "licensed", "paper", "runs", "tables")
"""Folders of a study's own results."""


@dataclass(frozen=True)
class Checksum:
    """A file's content: SHA-256 in hexadecimal, and its length."""

    sha256: str
    bytes: int

    @classmethod
    def of(cls, path: Path) -> "Checksum":
        """Read the file (about a second per gigabyte) and return its checksum; DataError if it is no regular file."""
        with open_regular(path) as file:
            digest = hashlib.file_digest(file, "sha256")
            return cls(digest.hexdigest(), file.tell())

    def fits(self, path: Path) -> bool:
        """Return whether the file has this content; it is read only if its length matches."""
        return path.stat().st_size == self.bytes and Checksum.of(path) == self


def open_regular(path: Path) -> BufferedReader | BytesIO:
    """Open a file for reading; DataError if it is a folder, a device or a pipe, which may never end."""
    if path.exists() and not path.is_file():
        raise DataError(f"{printable(str(path))}: found a folder, a device or a pipe, expected a file: remove it")
    # Files of the kernel have the length 0, and some of them wait for content.
    return path.open("rb") if path.stat().st_size else BytesIO()


def result_files(results: Path) -> Iterator[str]:
    """Yield the files of a results folder, in a fixed order, relative to it, with slashes.

    Omitted are files that are not results: provenance and its signature, benchmarks, hidden files,
    leftovers of killed steps, and nested folders that are results folders themselves. A link to a folder is one file:
    it is not followed.
    """
    for path, is_hidden in _entries(results):
        if not (is_hidden or path in (MANIFEST, SIGNATURE) or path.startswith((f"{RECORDS}/", f"{BENCHMARKS}/"))):
            yield path


def hidden_files(results: Path) -> Iterator[str]:
    """Yield what `result_files` omits and no step's record or cost is: hidden files and folders, unfinished trainings.

    The files of `OF_GIT` are none of them.
    """
    return (path for path, is_hidden in _entries(results) if is_hidden and PurePosixPath(path).name not in OF_GIT)


def _entries(results: Path) -> Iterator[tuple[str, bool]]:
    """Yield every file and every hidden folder in a fixed order, and whether it is hidden or an unfinished training."""
    for folder, names, files in os.walk(results):
        here = Path(folder)
        hidden = {name for name in (*names, *files) if name.startswith(".")}
        hidden |= {name for name in names if name.endswith(SHARDS)}
        for name in sorted({*files, *hidden, *(name for name in names if (here / name).is_symlink())}):
            yield (here / name).relative_to(results).as_posix(), name in hidden
        names[:] = sorted(name for name in names if name not in hidden and not _is_other_study(here / name, results))


def _is_other_study(folder: Path, results: Path) -> bool:
    """Return whether a nested folder is a results folder itself; those of a study's own results never are."""
    is_own = folder.relative_to(results).parts[0] in OWN_FOLDERS
    return not is_own and ((folder / MANIFEST).exists() or (folder / RECORDS).is_dir())


@dataclass(frozen=True)
class Places:
    """A results folder and its data folder, if its place is known."""

    results: Path
    data: Path | None = None

    @classmethod
    def of(cls, results: Path, config: Mapping[str, Any], *, trusted: bool) -> "Places":
        """Return the folders of a configuration.

        One that comes with the results is not `trusted`: its data folder counts only if both are below one folder.
        """
        folders = config.get("pathvars") or {}
        data, own = Path(folders.get("data", "data")), Path(folders.get("results", "results"))
        if data.is_absolute() or own.is_absolute() or ".." in (*data.parts, *own.parts):
            return cls(results, data if trusted else None)
        here = results.absolute()
        root = Path(*here.parts[: len(here.parts) - len(own.parts)])
        return cls(results, root / data if root / own == here else None)

    def file(self, path: str) -> Path | None:
        """Return a file by its path relative to the results; None if it is missing, no regular file, or elsewhere."""
        try:
            real = Path(os.path.realpath(os.path.normpath(self.results.absolute() / path)))
            folders = (os.path.realpath(folder) for folder in (self.results, self.data) if folder is not None)
            inside = any(real.is_relative_to(folder) for folder in folders)
            return real if inside and real.is_file() else None
        except (OSError, ValueError):
            # Names that no file system has: too long, with a null byte.
            return None

    def why_absent(self, path: str) -> str:
        """Return why there is no such file."""
        is_there = os.path.lexists(self.results / path)
        return "not read: no regular file, or outside of the results and data folders" if is_there else "not here"
