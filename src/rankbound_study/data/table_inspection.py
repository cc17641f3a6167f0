"""Look at a table, CSV or parquet, and say what its columns are: judged items or ratings."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError, DataError
from rankbound.io.judged import listed
from rankbound.io.table_columns import has_no_name, notations, told_apart
from rankbound.io.text_files import open_unpacked
from rankbound.texts import LONGEST_VALUE, is_number, printable, shortened
from rankbound_study.config.sections.description import TEXTS
from rankbound_study.data.rating_files import fields_of

PARTS = 5
DEALT = f"topics are dealt to {PARTS} parts at random; files of folds can be named instead (docs/data.md)"
LOOK, LOOK_VALUES = 2**19, 500_000
"""The beginning of a file that is looked at: bytes of text, and values of a table in parquet."""

SHARE_OF_RELEVANT_RATINGS = 0.75
"""Of the way from the lowest to the highest rating: 4 of 1 .. 5."""

LARGEST_RATING, FEW_RATINGS, FEWEST_AT_TOP = 100, 5, 0.02
"""Numbers above the first are no ratings. More than so many different ones are none if fewer than that share lies in
their upper quarter."""

_SEPARATORS = ("::", "\t", ",", ";", "|")
_NAMES = {
    "topic": ("topic", "query", "qid", "query_id", "queryid", "search", "session", "user", "userid", "user_id"),
    "item": ("item", "doc", "docid", "document", "sku", "product", "movie", "movieid", "itemid", "item_id", "movie_id"),
    "relevance": ("relevance", "label", "grade", "judgment", "judgement", "clicked", "click", "clicks"),
    "rating": ("rating", "stars", "score"),
    "count": ("count", "counts", "plays", "play_count", "playcount", "listens", "views", "purchases", "quantity"),
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
        topics: the number of topics, if the whole of the only file was read.
        rated: the users (`topic`) and their ratings (`rating`) in that part.
        counts: why the ratings may be counts; empty if they are ratings.
    """

    kind: str
    description: dict[str, Any]
    labels: list[float]
    notes: list[str] = field(default_factory=list)
    topics: int | None = None
    rated: Any = None
    counts: str = ""


def inspect_table(path: Path) -> Inspected:
    """Return what a table is; ConfigError if its columns do not say so."""
    import polars as pl

    layout: dict[str, Any] = {}
    if path.suffix == ".parquet":
        scan = pl.scan_parquet(path)
        rows = max(1, LOOK_VALUES // scan.collect_schema().len())
        frame = scan.head(rows).collect()
        whole = len(frame) < rows
    else:
        frame, layout, whole = _delimited(path)
    if layout and not layout["header"]:
        return _numbered_ratings(path, frame, layout, whole)
    roles = _roles(frame.columns)
    if {"topic", "relevance"} <= set(roles) and layout.get("separator", ",") == _separator_by_name(path):
        columns = _of_roles(roles, "topic", "item", "relevance")
        described = {"format": "table", "path": str(path), "columns": columns, "random_parts": PARTS}
        labels = _values(path, frame, roles["relevance"])
        topics = frame[roles["topic"]].n_unique() if whole else None
        return Inspected("lists", described, labels, [*_taken(columns), *_told_apart(frame, columns), DEALT], topics)
    if {"topic", "item"} <= set(roles) and ({"rating", "count"} & set(roles) or _are_pairs(frame.columns, roles)):
        columns = _of_roles(roles, "topic", "item", "rating", "timestamp")
        if "rating" not in columns and "count" in roles:
            columns = {**columns, "rating": roles["count"]}
        return _ratings(path, frame, layout, columns, whole)
    raise ConfigError(
        f"{path}: found the columns {', '.join(frame.columns[:12])}; expected a topic (such as query), relevance (such "
        "as label or clicked) and numbers that are features, separated by commas (.tsv: tabs), or user, item and "
        "rating: rename them, or write the description by hand (docs/data.md)"
    )


def _are_pairs(columns: Sequence[str], roles: Mapping[str, str]) -> bool:
    """There is nothing but users, items and perhaps times."""
    named = {name for name in columns if not has_no_name(name)}
    return named <= {roles.get(role) for role in ("topic", "item", "timestamp")}


def _ratings(
    path: Path, frame: Any, layout: Mapping[str, Any], columns: Mapping[str, str], whole: bool, numbered: bool = False
) -> Inspected:
    """Return the description of ratings; `numbered` columns have no names in the file."""
    import polars as pl

    names = dict(zip(columns.values(), frame.columns, strict=False)) if numbered else {}
    in_frame = {role: names.get(name, name) for role, name in columns.items()}
    notes = [f"the columns are taken as {', '.join(columns)}, in that order"] if numbered else _taken(columns)
    ids = {}
    if not all(map(_is_small_number, (frame[in_frame[role]] for role in ("topic", "item")))):
        ids = {"ids": TEXTS}
        notes.append("users or items are not whole numbers below 2,147,483,648, so both are read as texts")
    topic = frame[in_frame["topic"]].alias("topic")
    rated, counts, labels = pl.DataFrame([topic]).with_columns(pl.lit(1.0).alias("rating")), "", [1.0]
    if "rating" in columns:
        labels = _values(path, frame, in_frame["rating"])
        rated = pl.DataFrame([topic, frame[in_frame["rating"]].cast(pl.Float64).alias("rating")])
        counts = _why_counts(rated["rating"], labels, columns["rating"])
    else:
        notes.append("there is no rating: every pair is relevant")
    described = {"format": "ratings", "path": str(path), **_without_defaults(layout), **ids, "columns": dict(columns)}
    return Inspected(
        "interactions", described, labels, notes, rated["topic"].n_unique() if whole else None, rated, counts
    )


def _why_counts(ratings: Any, labels: Sequence[float], name: str) -> str:
    """Say why the numbers of a column may be counts (of plays, purchases, hours) and no ratings; empty if they are not.

    Ratings have a scale, whose upper quarter is used; counts are skewed, so that hardly any lies there.
    """
    if len(labels) < 2:
        return ""
    top = (ratings >= upper_quarter(labels)).mean()
    on_a_scale = labels[-1] <= LARGEST_RATING and (len(labels) <= FEW_RATINGS or top >= FEWEST_AT_TOP)
    if on_a_scale and name.lower() not in _NAMES["count"]:
        return ""
    return (
        f"the column {name!r} holds {labels[0]:,g} to {labels[-1]:,g}, median {ratings.median():,g}, and "
        f"{top:.1%} lie in the upper quarter of that range"
    )


def upper_quarter(labels: Sequence[float]) -> float:
    """Return the smallest rating in the upper quarter of those that occur: 4 of 1 .. 5."""
    limit = labels[0] + SHARE_OF_RELEVANT_RATINGS * (labels[-1] - labels[0])
    return next(label for label in labels if label >= limit)


def _is_small_number(column: Any) -> bool:
    return bool(column.dtype.is_integer() and (column.is_null().all() or column.abs().max() < 2**31))


def _of_roles(roles: Mapping[str, str], *wanted: str) -> dict[str, str]:
    return {role: roles[role] for role in wanted if role in roles}


def _taken(columns: Mapping[str, str]) -> list[str]:
    return [f"the column {name!r} is taken as the {role}" for role, name in columns.items()]


def _told_apart(frame: Any, columns: Mapping[str, str]) -> list[str]:
    written = {name: notations(frame[name]) for name in frame.columns}
    features, left_out = told_apart(frame.schema, written, columns.values())
    notes = [f"the features are {printable(shortened(', '.join(features), LONGEST_VALUE)) or 'missing'}"]
    return notes + ([f"left out, unless `features` names them, are {listed(left_out)}"] if left_out else [])


def _delimited(path: Path) -> tuple[Any, dict[str, Any], bool]:
    """Return the first rows of delimited text, its separator and whether a line names the columns, and `whole`."""
    import polars as pl

    text, whole = beginning_of(path)
    first = text.partition(b"\n")[0].decode("utf-8-sig", "replace").rstrip("\r")
    separator = next((one for one in _SEPARATORS if one in first), None)
    if separator is None:
        shown = " ".join(map(repr, _SEPARATORS))
        raise ConfigError(f"{path}: neither LETOR text nor columns with a separator: expected one of {shown}")
    header = not all(map(is_number, fields_of(first, separator)))
    content = text.replace(separator.encode(), b"\x1f") if len(separator) > 1 else text
    try:
        frame = pl.read_csv(
            io.BytesIO(content),
            separator="\x1f" if len(separator) > 1 else separator,
            has_header=header,
            infer_schema_length=None,
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: not read as columns separated by {separator!r}: {error}") from error
    return frame, {"separator": separator, "header": header}, whole


def beginning_of(path: Path) -> tuple[bytes, bool]:
    """Return the first lines of text, packed or not, and whether there are no others."""
    with open_unpacked(path) as stream:
        text = stream.read(LOOK + 1)
    # Half a line could be anything.
    return (text, True) if len(text) <= LOOK else (text[: text.rfind(b"\n") + 1], False)


def _numbered_ratings(path: Path, frame: Any, layout: Mapping[str, Any], whole: bool) -> Inspected:
    """Rows of user, item, rating and perhaps time without a line of names, as MovieLens' older editions."""
    if frame.width not in (3, 4):
        raise ConfigError(
            f"{path}: found {frame.width} columns without names, expected user, item, rating and perhaps a time; "
            "name the columns in a first line, or write the description by hand (docs/data.md)"
        )
    roles = ("topic", "item", "rating", "timestamp")[: frame.width]
    columns = {role: str(number) for number, role in enumerate(roles, start=1)}
    return _ratings(path, frame, layout, columns, whole, numbered=True)


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


def _values(path: Path, frame: Any, column: str) -> list[float]:
    """Return the numbers that occur in a column, ascending."""
    import polars as pl

    values = frame[column].drop_nulls()
    if values.is_empty():
        raise ConfigError(f"{path}: the column {column!r} has no values; expected numbers")
    if not values.dtype.is_numeric() and values.dtype != pl.Boolean:
        texts = values.cast(pl.String)
        words = texts.filter(texts.cast(pl.Float64, strict=False).is_null())
        shown = repr(words[0]) if len(words) else f"texts such as {texts[0]!r}"
        raise ConfigError(f"{path}: the column {column!r} holds {shown}, expected numbers, with a decimal point")
    found = [float(value) for value in values.cast(pl.Float64).unique().sort()]
    return [value for value in found if math.isfinite(value)]
