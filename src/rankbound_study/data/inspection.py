"""Look at somebody's files, and say what they are: the layout, the columns, the folds, the labels.

Only the beginning of a file is read. What is not clear is refused with what to write instead; nothing is guessed that
would change results without a word.
"""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError, DataError
from rankbound.io.unpacked import open_unpacked
from rankbound.texts import is_number

PARTS = 5
GROUPS = ".query"
_DEALT = f"topics are dealt to {PARTS} parts at random; files of folds can be named instead (docs/data.md)"
_LINES, _BYTES = 1000, 2**20
_SEPARATORS = ("::", "\t", ",", ";", "|")
_SPLITS = {"train": "train", "training": "train", "vali": "validation", "valid": "validation",
           "validation": "validation", "dev": "validation", "test": "test"}  # fmt: skip
_ORDER = ("train", "validation", "test")
_FOLD = re.compile(r"(.*?)(\d+)$")
_DIGITS = re.compile(r"\d+")
_PART = re.compile(r"[A-Za-z_-]*\d+\.(txt|letor|dat)(\.gz)?")
_NAMES = {
    "topic": ("topic", "query", "qid", "query_id", "queryid", "search", "session", "user", "userid", "user_id"),
    "item": ("item", "doc", "docid", "document", "sku", "product", "movie", "movieid", "itemid", "item_id", "movie_id"),
    "relevance": ("relevance", "label", "grade", "judgment", "judgement", "clicked", "click", "clicks"),
    "rating": ("rating", "stars", "score"),
    "timestamp": ("timestamp", "time"),
}
"""Usual names of columns, in small letters."""


@dataclass(frozen=True)
class Inspected:
    """What files are.

    Attributes:
        kind: `lists` or `interactions`.
        description: the description of the data set.
        labels: the labels or ratings in the part that was read, ascending.
        notes: what the user should know of it.
    """

    kind: str
    description: dict[str, Any]
    labels: list[float]
    notes: list[str] = field(default_factory=list)


def inspect(path: Path) -> Inspected:
    """Return what a file or folder is; ConfigError if that is not clear, with what was found."""
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file or folder")
    if _is_letor(path):
        return Inspected(
            "lists", {"format": "letor", "path": str(path), "random_parts": PARTS}, _labels(path), [_DEALT]
        )
    if Path(f"{path}{GROUPS}").is_file():
        described = {"format": "lightgbm", "path": str(path), "random_parts": PARTS}
        return Inspected("lists", described, _labels(path), [_DEALT])
    return _table(path)


def _folder(path: Path) -> Inspected:
    files = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    for found in (_fold_pattern, _one_split, _parts):
        if (described := found(path, files)) is not None:
            first = path / (described.get("parts") or _first_fold(described)["train"])[0].replace("{fold}", "1")
            return Inspected(
                "lists", {"format": described.pop("format"), "path": str(path), **described}, _labels(first)
            )
    shown = ", ".join(files[:8]) or "nothing"
    raise ConfigError(
        f"{path}: found {shown}; expected LETOR text as Fold1/train.txt, Fold1/vali.txt, Fold1/test.txt, ..., as parts "
        "S1.txt, S2.txt, ..., or as one train and test file; or name one file of judged items or ratings"
    )


def _first_fold(described: Mapping[str, Any]) -> Mapping[str, Any]:
    return described.get("fold_pattern") or described["folds"][0]  # type: ignore[no-any-return]


def _fold_pattern(path: Path, files: Sequence[str]) -> dict[str, Any] | None:
    """Folders Fold1, Fold2, ... with a file for each split."""
    patterns: dict[str, str] = {}
    numbers: set[int] = set()
    for file in files:
        folder, _, name = file.rpartition("/")
        fold, split = _FOLD.fullmatch(folder), _split_of(name)
        if fold and split and _is_letor(path / file):
            numbers.add(int(fold[2]))
            patterns[split] = f"{fold[1]}{{fold}}/{name}"
    count = len(numbers)
    if not {"train", "test"} <= set(patterns) or numbers != set(range(1, count + 1)):
        return None
    of_splits = {split: [patterns[split]] for split in _ORDER if split in patterns}
    return {"format": "letor", "fold_pattern": {"count": count, **of_splits}}


def _one_split(path: Path, files: Sequence[str]) -> dict[str, Any] | None:
    """One training and one test file, with group sizes beside them or query ids in them."""
    named = {split: file for file in files if (split := _split_of(file)) and not file.endswith(GROUPS)}
    if not {"train", "test"} <= set(named):
        return None
    grouped = all(f"{file}{GROUPS}" in files for file in named.values())
    if not grouped and not all(_is_letor(path / file) for file in named.values()):
        return None
    of_splits = {split: [named[split]] for split in _ORDER if split in named}
    return {"format": "lightgbm" if grouped else "letor", "folds": [of_splits]}


def _parts(path: Path, files: Sequence[str]) -> dict[str, Any] | None:
    """Files of disjoint queries whose names end in numbers."""
    parts = [file for file in files if _PART.fullmatch(file) and _is_letor(path / file)]
    parts.sort(key=lambda file: int(_DIGITS.findall(file)[0]))
    return {"format": "letor", "parts": parts} if len(parts) >= 3 and len(parts) == len(files) else None


def _split_of(name: str) -> str | None:
    words = re.split(r"[^a-z]+", name.lower())
    return next((_SPLITS[word] for word in words if word in _SPLITS), None)


def _is_letor(path: Path) -> bool:
    with open_unpacked(path) as stream:
        lines = (line.partition(b"#")[0].split() for line in islice(stream, _LINES))
        tokens = next(filter(None, lines), [])
    return len(tokens) > 1 and tokens[1].startswith(b"qid:")


def _labels(path: Path) -> list[float]:
    """Return the labels in the first lines of LETOR text."""
    with open_unpacked(path) as stream:
        first = [line.split(None, 1)[0] for line in islice(stream, _LINES) if line.partition(b"#")[0].strip()]
    return sorted({float(token) for token in first if token.isdigit()})


def _table(path: Path) -> Inspected:
    import polars as pl

    layout: dict[str, Any] = {}
    if path.suffix == ".parquet":
        frame = pl.scan_parquet(path).head(_LINES).collect()
    else:
        frame, layout = _delimited(path)
    if layout and not layout["header"]:
        return _numbered_ratings(path, frame, layout)
    roles = _roles(frame.columns)
    if {"topic", "relevance"} <= set(roles) and layout.get("separator", ",") == _separator_by_name(path):
        columns = _of_roles(roles, "topic", "item", "relevance")
        described = {"format": "table", "path": str(path), "columns": columns, "random_parts": PARTS}
        notes = [*_taken(columns), _DEALT]
        return Inspected("lists", described, _values(frame, roles["relevance"]), notes)
    if {"topic", "item", "rating"} <= set(roles):
        columns = _of_roles(roles, "topic", "item", "rating", "timestamp")
        described = {"format": "ratings", "path": str(path), **_without_defaults(layout), "columns": columns}
        return Inspected("interactions", described, _values(frame, roles["rating"]), _taken(columns))
    raise ConfigError(
        f"{path}: found the columns {', '.join(frame.columns[:12])}; expected a topic (such as query), relevance (such "
        "as label or clicked) and numbers that are features, separated by commas (.tsv: tabs), or user, item and "
        "rating: rename them, or write the description by hand (docs/data.md)"
    )


def _of_roles(roles: Mapping[str, str], *wanted: str) -> dict[str, str]:
    return {role: roles[role] for role in wanted if role in roles}


def _taken(columns: Mapping[str, str]) -> list[str]:
    return [f"the column {name!r} is taken as the {role}" for role, name in columns.items()]


def _delimited(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return the first rows of delimited text, and its separator and whether a line names the columns."""
    import polars as pl

    with open_unpacked(path) as stream:
        text = stream.read(_BYTES)
    lines = text.splitlines(keepends=True)[:_LINES]
    first = lines[0].decode("utf-8-sig", "replace") if lines else ""
    separator = next((one for one in _SEPARATORS if one in first), None)
    if separator is None:
        shown = " ".join(map(repr, _SEPARATORS))
        raise ConfigError(f"{path}: neither LETOR text nor columns with a separator: expected one of {shown}")
    header = not all(map(is_number, first.split(separator)))
    content = b"".join(lines).replace(separator.encode(), b"\x1f") if len(separator) > 1 else b"".join(lines)
    try:
        frame = pl.read_csv(
            io.BytesIO(content), separator="\x1f" if len(separator) > 1 else separator, has_header=header
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: not read as columns separated by {separator!r}: {error}") from error
    return frame, {"separator": separator, "header": header}


def _numbered_ratings(path: Path, frame: Any, layout: Mapping[str, Any]) -> Inspected:
    """Rows of user, item, rating and perhaps time without a line of names, as MovieLens' older editions."""
    if frame.width not in (3, 4):
        raise ConfigError(
            f"{path}: found {frame.width} columns without names, expected user, item, rating and perhaps a time; "
            "name the columns in a first line, or write the description by hand (docs/data.md)"
        )
    roles = ("topic", "item", "rating", "timestamp")[: frame.width]
    columns = {role: str(number) for number, role in enumerate(roles, start=1)}
    described = {"format": "ratings", "path": str(path), **_without_defaults(layout), "columns": columns}
    notes = [f"the columns are taken as {', '.join(roles)}, in that order"]
    return Inspected("interactions", described, _values(frame, frame.columns[2]), notes)


def _without_defaults(layout: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {"separator": ",", "header": True}
    return {key: value for key, value in layout.items() if value != defaults[key]}


def _roles(columns: Sequence[str]) -> dict[str, str]:
    """Return the columns whose names say what they hold, by role."""
    small = {name.lower().replace(" ", "_"): name for name in columns}
    named = {role: next((small[name] for name in usual if name in small), None) for role, usual in _NAMES.items()}
    return {role: name for role, name in named.items() if name is not None}


def _separator_by_name(path: Path) -> str:
    return "\t" if path.name.removesuffix(".gz").endswith(".tsv") else ","


def _values(frame: Any, column: str) -> list[float]:
    import polars as pl

    if not frame[column].dtype.is_numeric():
        raise ConfigError(f"column {column!r} holds {frame[column][0]!r}, expected numbers")
    return [float(value) for value in frame[column].cast(pl.Float64).drop_nulls().unique().sort()]
