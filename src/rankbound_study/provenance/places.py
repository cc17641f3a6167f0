"""The files that a check of a results folder reads: those of the folder itself and of its study's data folder.

A manifest or a link may name any other file. Those are never opened: a device may never end, and a file of the reader's
own is nobody's input.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any


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
            inside = any(real.is_relative_to(folder) for folder in self._real_folders)
            return real if inside and real.is_file() else None
        except (OSError, ValueError):
            # Names that no file system has: too long, with a null byte.
            return None

    @cached_property
    def _real_folders(self) -> list[str]:
        return [os.path.realpath(folder) for folder in (self.results, self.data) if folder is not None]

    def why_absent(self, path: str) -> str:
        """Return why there is no such file."""
        try:
            os.lstat(self.results / path)
        except (OSError, ValueError):
            return "not here"
        return "not read: no regular file, or outside of the results and data folders"
