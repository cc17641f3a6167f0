"""The files of somebody's own data, as a description names them."""

from pathlib import Path

from rankbound_study.config.sections.description import DescriptionKeys

ARCHIVES = (".zip", ".rar")
"""Endings of archives, which hold all files of a data set."""


def own_files(described: DescriptionKeys) -> list[str]:
    """Return the files that conversion reads: the file at the description's path, or those that it names in a folder.

    A folder of which nothing is named has all its files.
    """
    path = Path(described.path or "")
    if path.is_dir() and not described.wanted:
        return sorted(str(file) for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    files = [path / name for name in described.wanted] if path.is_dir() else [path]
    is_grouped = described.format == "lightgbm" and path.suffix not in ARCHIVES
    beside = [f"{file}{described.groups}" for file in files] if is_grouped else []
    copies = [str(path / name) for name in described.copies.values()] if path.is_dir() else []
    return [*map(str, files), *copies, *beside]
