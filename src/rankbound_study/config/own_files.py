"""The files of somebody's own data, as a description names them."""

from pathlib import Path

from rankbound_study.config.sections.description import DescriptionKeys


def own_files(described: DescriptionKeys) -> list[str]:
    """Return the files that conversion reads: the file at the description's path, or those that it names in a folder.

    A folder of which nothing is named has all its files.
    """
    path = Path(described.path or "")
    if not path.is_dir():
        beside = [f"{path}{described.groups}"] if described.format == "lightgbm" else []
        return [str(path), *beside]
    if not described.wanted:
        return sorted(str(file) for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    beside = [f"{name}{described.groups}" for name in described.wanted] if described.format == "lightgbm" else []
    return [str(path / name) for name in (*described.wanted, *described.copies.values(), *beside)]
