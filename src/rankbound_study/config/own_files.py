"""The files of somebody's own data, as a description names them."""

from collections.abc import Sequence
from pathlib import Path

from rankbound.errors import ConfigError
from rankbound.texts import quantity
from rankbound_study.config.lines import ConfigLines
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.config.study import Study

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


def require_files(study: Study, config_files: Sequence[Path]) -> None:
    """Raise ConfigError for the descriptions whose files are not there, with the lines of the configuration."""
    lines = ConfigLines(config_files)
    problems = []
    for name in study.converted:
        described = study.described(name)
        missing = [file for file in own_files(described) if not Path(file).is_file()] if described.path else []
        if missing:
            key = (study.kind_of(name), name, "source")
            more = f", nor {quantity(len(missing) - 1, 'other')}" if len(missing) > 1 else ""
            problems.append(f"{lines.locate(key)}{'.'.join(key)}: there is no file {missing[0]}{more}")
    if problems:
        raise ConfigError("\n  ".join(["files of the configuration are missing:", *problems]))
