"""Outputs of commands that work long before they write."""

from pathlib import Path

from rankbound.errors import OutputError
from rankbound.io.atomic import temporary_beside


def require_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the work whose result it will hold.

    Raises:
        OutputError: its folder cannot be made or written, or a folder has its name.
    """
    with temporary_beside(path, path.suffix):
        if path.is_dir():
            raise OutputError(f"{path}: could not be written: found a folder, expected the name of a file")
