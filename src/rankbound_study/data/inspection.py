"""Look at somebody's files, and say what they are: the layout, the columns, the folds, the labels.

Only the beginning of a file is read. What is not clear is refused with what to write instead; nothing is guessed that
would change results without a word.
"""

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError, DataError
from rankbound.io.unpacked import open_unpacked
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.data.archives import list_members, open_member
from rankbound_study.data.plain_files import is_archive
from rankbound_study.data.rar import Member
from rankbound_study.data.table_inspection import BYTES, DEALT, LINES, PARTS, Inspected, inspect_table

GROUPS = ".query"
_SPLITS = {"train": "train", "training": "train", "vali": "validation", "valid": "validation",
           "validation": "validation", "dev": "validation", "test": "test"}  # fmt: skip
_ORDER = ("train", "validation", "test")
_FOLD = re.compile(r"(.*?)(\d+)$")
_DIGITS = re.compile(r"\d+")
_PART = re.compile(r"[A-Za-z_-]*\d+\.(txt|letor|dat)(\.gz)?")
_MOST_MEMBERS, _UNPACKED = 500, 2**28
"""Members of an archive that are looked at, and bytes of a parquet file among them, which is read whole."""


def inspect(path: Path) -> Inspected:
    """Return what a file, a folder or an archive is; ConfigError if that is not clear, with what was found."""
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file or folder")
    return _archive(path) if is_archive(path) else _file(path)


def _file(path: Path) -> Inspected:
    if _is_letor(path):
        return _dealt(path, "letor")
    return _dealt(path, "lightgbm") if Path(f"{path}{GROUPS}").is_file() else inspect_table(path)


def _dealt(path: Path, layout: str) -> Inspected:
    described = {"format": layout, "path": str(path), "random_parts": PARTS}
    return Inspected("lists", described, _labels(path), [DEALT])


def _archive(path: Path) -> Inspected:
    """Return what the beginnings of an archive's members are."""
    with tempfile.TemporaryDirectory(prefix="rankbound-") as name:
        folder = Path(name)
        members = [member for member in list_members(path) if not member.name.endswith(".gz")]
        for member in members[:_MOST_MEMBERS]:
            _write_start(path, member, folder / member.name)
        try:
            found = _folder(folder, alone=len(members) == 1)
        except (ConfigError, DataError) as error:
            raise ConfigError(str(error).replace(name, str(path))) from error
        return replace(found, description={**found.description, "path": str(path)})


def _write_start(archive: Path, member: Member, to: Path) -> None:
    whole = to.suffix == ".parquet" and member.size <= _UNPACKED
    with open_member(archive, member.name) as stream:
        start = stream.read(member.size if whole else BYTES)
    if not whole and len(start) < member.size:
        # Half a line could be anything.
        start = start[: start.rfind(b"\n") + 1]
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(start)


def _folder(path: Path, alone: bool = False) -> Inspected:
    files = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    for names in (_fold_pattern(files), _one_split(files)):
        if names is not None and (found := _of_splits(path, names, files)) is not None:
            return found
    if (parts := _parts(path, files)) is not None:
        return Inspected("lists", {"format": "letor", "path": str(path), "parts": parts}, _labels(path / parts[0]))
    return _only_one(path, files, alone)


def _fold_pattern(files: Sequence[str]) -> dict[str, Any] | None:
    """Folders Fold1, Fold2, ..., or from fold_0 on, with a file for each split."""
    patterns: dict[str, str] = {}
    numbers: set[int] = set()
    for file in files:
        folder, _, name = file.rpartition("/")
        fold, split = _FOLD.fullmatch(folder), _split_of(name)
        if fold and split:
            numbers.add(int(fold[2]))
            patterns[split] = f"{fold[1]}{{fold}}/{name}"
    first, count = min(numbers, default=1), len(numbers)
    if not {"train", "test"} <= set(patterns) or first > 1 or numbers != set(range(first, first + count)):
        return None
    of_splits = {split: [patterns[split]] for split in _ORDER if split in patterns}
    return {"fold_pattern": {"count": count, **({} if first else {"first": 0}), **of_splits}}


def _one_split(files: Sequence[str]) -> dict[str, Any] | None:
    """One training and one test file."""
    named = {split: file for file in files if (split := _split_of(file)) and not file.endswith(GROUPS)}
    if not {"train", "test"} <= set(named):
        return None
    return {"folds": [{split: [named[split]] for split in _ORDER if split in named}]}


def _of_splits(path: Path, names: Mapping[str, Any], files: Sequence[str]) -> Inspected | None:
    """Return what the files of folds are; None if they are no data or not all there."""
    # The format is of no account to the names.
    described = DescriptionKeys.model_validate({"format": "letor", **names})
    first = path / described.wanted[0]
    if not set(described.wanted) <= set(files):
        return None
    lists = {"path": str(path), **names}
    if all(_is_letor(path / file) for file in described.wanted):
        return Inspected("lists", {"format": "letor", **lists}, _labels(first))
    if all(f"{file}{GROUPS}" in files for file in described.wanted):
        return Inspected("lists", {"format": "lightgbm", **lists}, _labels(first))
    try:
        table = inspect_table(first)
    except (ConfigError, DataError):
        return None
    kept = {key: value for key, value in table.description.items() if key not in ("path", "random_parts")}
    return replace(table, description={**kept, **lists}, notes=[note for note in table.notes if note != DEALT])


def _parts(path: Path, files: Sequence[str]) -> list[str] | None:
    """Files of disjoint queries whose names end in numbers."""
    parts = [file for file in files if _PART.fullmatch(file) and _is_letor(path / file)]
    parts.sort(key=lambda file: int(_DIGITS.findall(file)[0]))
    return parts if len(parts) >= 3 and len(parts) == len(files) else None


def _only_one(path: Path, files: Sequence[str], alone: bool) -> Inspected:
    """Return what the only file with data is, such as the ratings beside the titles of the items."""
    found = {}
    for file in files:
        try:
            found[file] = _file(path / file)
        except (ConfigError, DataError):
            if alone:
                raise
    if len(found) == 1:
        (name, one), *_ = found.items()
        return replace(one, description={**one.description, "path": str(path), **({} if alone else {"files": [name]})})
    shown = ", ".join([*found, *(file for file in files if file not in found)][:8]) or "nothing"
    raise ConfigError(
        f"{path}: found {shown}{', of which several have data' if found else ''}; expected LETOR text as "
        "Fold1/train.txt, Fold1/vali.txt, Fold1/test.txt, ..., as parts S1.txt, S2.txt, ..., or as one train and test "
        "file, ratings in such folders or files, or a single file with data: name it, or write the description by hand "
        "(docs/data.md)"
    )


def _split_of(name: str) -> str | None:
    words = re.split(r"[^a-z]+", name.lower())
    return next((_SPLITS[word] for word in words if word in _SPLITS), None)


def _is_letor(path: Path) -> bool:
    with open_unpacked(path) as stream:
        lines = (line.partition(b"#")[0].split() for line in islice(stream, LINES))
        tokens = next(filter(None, lines), [])
    return len(tokens) > 1 and tokens[1].startswith(b"qid:")


def _labels(path: Path) -> list[float]:
    """Return the labels in the first lines of LETOR text."""
    with open_unpacked(path) as stream:
        first = [line.split(None, 1)[0] for line in islice(stream, LINES) if line.partition(b"#")[0].strip()]
    return sorted({float(token) for token in first if token.isdigit()})
