"""The files of the packages that this process has loaded, modules and data, each with the checksum it had then.

They are noted when they are opened, so an edit while a step runs does not change what the step says it ran.
"""

import hashlib
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

import rankbound
import rankbound_study

UNREADABLE = "unreadable"

_FOLDERS = {
    f"{folder}{os.sep}": len(str(folder.parent)) + 1
    for module in (rankbound, rankbound_study)
    for file in (Path(module.__file__ or ""),)
    for folder in (file.absolute().parent, file.resolve().parent)
}
"""The packages' folders, as they are named and as they are, and where the name of a file in them begins."""

_checksums: dict[str, str] = {}
_watching: list[bool] = []


def watch() -> None:
    """Note every file of the packages from now on, and those of the modules that are loaded already."""
    if not _watching:
        _watching.append(True)
        sys.addaudithook(_note)
        for module in list(sys.modules.values()):
            _note("open", (getattr(module, "__file__", None),))


def loaded_files() -> dict[str, str]:
    """Return the SHA-256 of each file by its path below the folder of the packages, with slashes."""
    return dict(sorted(_checksums.items()))


def file_here(path: str) -> str | None:
    """Return the SHA-256 that a file of the packages has now; None if there is no such file."""
    package, *inner = path.split("/")
    for folder, begin in _FOLDERS.items():
        file = Path(folder, *inner)
        if package == folder[begin:-1] and ".." not in inner and file.is_file():
            return _sha256(file)
    return None


def listing(files: Mapping[str, str]) -> str:
    """Return the files as `sha256sum` lists them."""
    return "".join(f"{checksum}  {path}\n" for path, checksum in sorted(files.items()))


def digest(files: Mapping[str, str]) -> str:
    """Return the SHA-256 of the listing, which names the code that ran."""
    return hashlib.sha256(listing(files).encode()).hexdigest()


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
        if name not in _checksums:
            # Before the file is read, which opens it.
            _checksums[name] = UNREADABLE
            _checksums[name] = _sha256(Path(path))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
