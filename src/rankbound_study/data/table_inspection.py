"""Look at a table, CSV or parquet, and say what its columns are: judged items or ratings."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError, DataError
from rankbound.io.judged import listed
from rankbound.io.table_columns import Notation, has_no_name, left_out_as, told_apart
from rankbound.io.unpacked import open_unpacked
from rankbound.printable import LONGEST_VALUE, printable, shortened
from rankbound.texts import is_number
from rankbound_study.config.sections.description import TEXTS

PARTS = 5
DEALT = f"topics are dealt to {PARTS} parts at random; files of folds can be named instead (docs/data.md)"
LINES, BYTES = 1000, 2**20
"""The beginning of a file that is read."""

_SEPARATORS = ("::", "\t", ",", ";", "|")
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


def inspect_table(path: Path) -> Inspected:
    """Return what a table is; ConfigError if its columns do not say so."""
    import polars as pl

    layout: dict[str, Any] = {}
    if path.suffix == ".parquet":
        frame = pl.scan_parquet(path).head(LINES).collect()
    else:
        frame, layout = _delimited(path)
    if layout and not layout["header"]:
        return _numbered_ratings(path, frame, layout)
    roles = _roles(frame.columns)
    if {"topic", "relevance"} <= set(roles) and layout.get("separator", ",") == _separator_by_name(path):
        columns = _of_roles(roles, "topic", "item", "relevance")
        described = {"format": "table", "path": str(path), "columns": columns, "random_parts": PARTS}
        notes = [*_taken(columns), *_told_apart(frame, columns), DEALT]
        return Inspected("lists", described, _values(frame, roles["relevance"]), notes)
    if {"topic", "item"} <= set(roles) and ("rating" in roles or _are_pairs(frame.columns, roles)):
        return _ratings(path, frame, layout, _of_roles(roles, "topic", "item", "rating", "timestamp"))
    raise ConfigError(
        f"{path}: found the columns {', '.join(frame.columns[:12])}; expected a topic (such as query), relevance (such "
        "as label or clicked) and numbers that are features, separated by commas (.tsv: tabs), or user, item and "
        "rating: rename them, or write the description by hand (docs/data.md)"
    )


def _are_pairs(columns: Sequence[str], roles: Mapping[str, str]) -> bool:
    """There is nothing but users, items and perhaps times."""
    named = {name for name in columns if not has_no_name(name)}
    return named <= {roles.get(role) for role in ("topic", "item", "timestamp")}


def _ratings(path: Path, frame: Any, layout: Mapping[str, Any], columns: Mapping[str, str]) -> Inspected:
    notes, ids = _taken(columns), {}
    if not all(map(_is_small_number, (frame[columns[role]] for role in ("topic", "item")))):
        ids = {"ids": TEXTS}
        notes.append("users or items are not whole numbers below 2,147,483,648, so both are read as texts")
    if "rating" not in columns:
        notes.append("there is no rating: every pair is relevant")
    labels = _values(frame, columns["rating"]) if "rating" in columns else [1.0]
    described = {"format": "ratings", "path": str(path), **_without_defaults(layout), **ids, "columns": columns}
    return Inspected("interactions", described, labels, notes)


def _is_small_number(column: Any) -> bool:
    return bool(column.dtype.is_integer() and (column.is_null().all() or column.abs().max() < 2**31))


def _of_roles(roles: Mapping[str, str], *wanted: str) -> dict[str, str]:
    return {role: roles[role] for role in wanted if role in roles}


def _taken(columns: Mapping[str, str]) -> list[str]:
    return [f"the column {name!r} is taken as the {role}" for role, name in columns.items()]


def _told_apart(frame: Any, columns: Mapping[str, str]) -> list[str]:
    others = [frame[name] for name in frame.columns if name not in columns.values()]
    features, left_out = told_apart(
        {column.name: left_out_as(column.name, column.dtype, Notation().read(column)) for column in others}
    )
    notes = [f"the features are {printable(shortened(', '.join(features), LONGEST_VALUE)) or 'missing'}"]
    return notes + ([f"left out, unless `features` names them, are {listed(left_out)}"] if left_out else [])


def _delimited(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return the first rows of delimited text, and its separator and whether a line names the columns."""
    import polars as pl

    with open_unpacked(path) as stream:
        text = stream.read(BYTES)
    lines = text.splitlines(keepends=True)[:LINES]
    first = lines[0].decode("utf-8-sig", "replace") if lines else ""
    separator = next((one for one in _SEPARATORS if one in first), None)
    if separator is None:
        shown = " ".join(map(repr, _SEPARATORS))
        raise ConfigError(f"{path}: neither LETOR text nor columns with a separator: expected one of {shown}")
    header = not all(map(is_number, first.split(separator)))
    content = b"".join(lines).replace(separator.encode(), b"\x1f") if len(separator) > 1 else b"".join(lines)
    try:
        frame = pl.read_csv(
            io.BytesIO(content),
            separator="\x1f" if len(separator) > 1 else separator,
            has_header=header,
            infer_schema_length=None,
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
