"""Look at somebody's files, and say what they are: the layout, the columns, the folds, the labels.

Only the beginning of a file is read. What is not clear is refused with what to write instead; nothing is guessed that
would change results without a word.
"""

import io
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.errors import ConfigError, DataError
from rankbound.io.judged import listed
from rankbound.io.letor import LARGEST_LABEL
from rankbound.io.table_columns import has_no_name, notations, told_apart
from rankbound.io.text_files import open_unpacked
from rankbound.texts import LONGEST_VALUE, is_number, printable, shortened
from rankbound_study.config.new_study import FEWEST_RELEVANT, MOST_RELEVANT, list_threshold
from rankbound_study.config.sections.description import FEWEST_PARTS, TEXTS, DescriptionKeys
from rankbound_study.data.archives import list_members, open_member
from rankbound_study.data.ratings import fields_of
from rankbound_study.data.sources import is_archive

PARTS = 5
DEALT = f"topics are dealt to {PARTS} parts at random; files of folds can be named instead (docs/data.md)"
LOOK, LOOK_VALUES = 2**19, 500_000
"""The beginning of a file that is looked at: bytes of text, and values of a table in parquet."""

SHARE_OF_RELEVANT_RATINGS = 0.75
"""Of the way from the lowest to the highest rating: 4 of 1 .. 5."""

LARGEST_RATING, FEW_RATINGS, FEWEST_AT_TOP = 100, 5, 0.02
"""Numbers above the first are no ratings. More than so many different ones are none if fewer than that share lies in
their upper quarter."""

LARGEST_THRESHOLD = 1_000_000
GROUPS = ".query"
_WORDS = {"train": "train training", "validation": "vali valid validation dev", "test": "test"}
"""Words in the names of the files of each split, in the order of descriptions."""

_FOLD = re.compile(r"(.*?)(\d+)$")
_DIGITS = re.compile(r"\d+")
_PART = re.compile(r"[A-Za-z_-]*\d+\.(txt|letor|dat)(\.gz)?")
_QUERY = re.compile(rb"qid:(\S+)")
_MOST_MEMBERS, _UNPACKED = 500, 2**28
"""Members of an archive that are looked at, and bytes of a parquet file among them, which is read whole."""

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

_JUDGED_ROLES: tuple[str, ...] = ("topic", "item", "relevance")
_RATING_ROLES: tuple[str, ...] = ("topic", "item", "rating", "timestamp")


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


def inspect(path: Path) -> Inspected:
    """Return what a file, a folder or an archive is; ConfigError if that is not clear, with what was found."""
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file or folder")
    return _archive(path) if is_archive(path) else _file(path)


def with_relevance(found: Inspected, threshold: float | None, *, implicit: bool) -> tuple[Inspected, dict[str, Any]]:
    """Decide what is relevant, and into how many parts topics are dealt.

    Args:
        found: what the files are.
        threshold: the smallest relevant label or rating; None: labels are grades, and of ratings the upper quarter of
            their range is relevant.
        implicit: every pair of a user and an item is relevant.

    Returns:
        What the files are then, and the arguments `threshold` and `min_relevant` of `new_study`.

    Raises:
        ConfigError: numbers that may be counts or ratings, with the ways to say which; a threshold beyond all labels;
            too few topics.
    """
    if threshold is not None and not -LARGEST_THRESHOLD <= threshold <= LARGEST_THRESHOLD:
        raise ConfigError(f"--threshold {threshold:g}: expected a number of at most {LARGEST_THRESHOLD:,} in magnitude")
    if found.kind == "lists":
        return _of_lists(found, threshold, implicit)
    columns = dict(found.description["columns"])
    if implicit and columns.pop("rating", None) is not None:
        notes = [*found.notes, "every pair of a user and an item is relevant, whatever its number"]
        described = {**found.description, "columns": columns}
        rated = found.rated.with_columns(pl.lit(1.0).alias("rating"))
        found = replace(found, description=described, labels=[1.0], rated=rated, notes=notes)
    elif found.counts and threshold is None:
        raise ConfigError(
            f"{found.description['path']}: {found.counts}: these may be counts (of plays, clicks, purchases, hours) or "
            "ratings on a scale. Say which: --implicit if every pair of a user and an item is relevant, whatever its "
            f"number; --threshold {float(found.rated['rating'].median()):g} (say) if it is relevant from that count or "
            "rating on"
        )
    smallest = upper_quarter(found.labels) if threshold is None else threshold
    if smallest > found.labels[-1] and found.topics is not None:
        raise ConfigError(
            f"--threshold {smallest:g}: the largest rating is {found.labels[-1]:g}, so that nothing would be relevant"
        )
    fewest = MOST_RELEVANT
    if found.topics is not None:
        counts = found.rated.filter(pl.col("rating") >= smallest).group_by("topic").len()["len"]
        # Fewer if less than half of all users have as many.
        fewest = MOST_RELEVANT if (counts >= MOST_RELEVANT).sum() * 2 >= len(counts) > 0 else FEWEST_RELEVANT
    return found, {"threshold": smallest, "min_relevant": fewest}


def _of_lists(found: Inspected, threshold: float | None, implicit: bool) -> tuple[Inspected, dict[str, Any]]:
    if implicit:
        raise ConfigError("--implicit is for ratings, but these are judged lists, whose labels say what is relevant")
    if threshold is not None and (threshold != int(threshold) or not 1 <= threshold <= LARGEST_LABEL):
        raise ConfigError(f"--threshold {threshold:g}: expected a whole number 1 .. {LARGEST_LABEL}, a label")
    if threshold is None and found.labels and found.labels[0] > 0:
        raise ConfigError(
            f"{found.description['path']}: the smallest label is {found.labels[0]:g}: it may be that of irrelevant "
            "items, or all items may be relevant, by grades. Say which: --threshold N if labels from N on are "
            "relevant; or write grades from 0 on, because AP and nRBP count every label above 0"
        )
    parts = found.description.get("random_parts")
    if parts is not None and found.topics is not None and FEWEST_PARTS <= found.topics < parts:
        described = {**found.description, "random_parts": found.topics}
        notes = [note for note in found.notes if note != DEALT]
        notes.append(f"there are {found.topics} topics, so each is a part of its own: differences will hardly be found")
        found = replace(found, description=described, notes=notes)
    return found, {"threshold": list_threshold(found.labels) if threshold is None else threshold}


def _file(path: Path) -> Inspected:
    groups, is_letor = Path(f"{path}{GROUPS}"), _is_letor(path)
    if not is_letor and not groups.is_file():
        return _table(path)
    described = {"format": "letor" if is_letor else "lightgbm", "path": str(path), "random_parts": PARTS}
    text, whole = beginning_of(path)
    topics = len(set(_QUERY.findall(text)) if is_letor else groups.read_bytes().split()) if whole else None
    return Inspected("lists", described, _labels(path), [DEALT], topics)


def _archive(path: Path) -> Inspected:
    """Return what the beginnings of an archive's members are."""
    with tempfile.TemporaryDirectory(prefix="rankbound-") as name:
        folder = Path(name)
        members = [member for member in list_members(path) if not member.name.endswith(".gz")]
        for member in members[:_MOST_MEMBERS]:
            to = folder / member.name
            whole = to.suffix == ".parquet" and member.size <= _UNPACKED
            with open_member(path, member.name) as stream:
                start = stream.read(member.size if whole else 2 * LOOK)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(start if len(start) == member.size else _whole_lines(start))
        try:
            found = _folder(folder, alone=len(members) == 1)
        except (ConfigError, DataError) as error:
            raise ConfigError(str(error).replace(name, str(path))) from error
        return replace(found, description={**found.description, "path": str(path)})


def _folder(path: Path, alone: bool = False) -> Inspected:
    files = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    for names in _named_splits(files):
        if (found := _of_splits(path, names, files)) is not None:
            return found
    # Files of disjoint queries whose names end in numbers.
    parts = [file for file in files if _PART.fullmatch(file) and _is_letor(path / file)]
    parts.sort(key=lambda file: int(_DIGITS.findall(file)[0]))
    if len(parts) == len(files) >= 3:
        return Inspected("lists", {"format": "letor", "path": str(path), "parts": parts}, _labels(path / parts[0]))
    return _only_one(path, files, alone)


def _named_splits(files: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the keys of folders Fold1, Fold2, ..., or from fold_0 on, with a file a split; and of one file a split."""
    patterns: dict[str, list[str]] = {}
    numbers: set[int] = set()
    for file in files:
        folder, _, name = file.rpartition("/")
        if (fold := _FOLD.fullmatch(folder)) and (split := _split_of(name)):
            numbers.add(int(fold[2]))
            patterns[split] = [f"{fold[1]}{{fold}}/{name}"]
    single = {split: [file] for file in files if (split := _split_of(file)) and not file.endswith(GROUPS)}
    in_folds, alone = ({split: named[split] for split in _WORDS if split in named} for named in (patterns, single))
    first, count = min(numbers, default=1), len(numbers)
    if {"train", "test"} <= set(in_folds) and first <= 1 and numbers == set(range(first, first + count)):
        yield {"fold_pattern": {"count": count, **({} if first else {"first": 0}), **in_folds}}
    if {"train", "test"} <= set(alone):
        yield {"folds": [alone]}


def _of_splits(path: Path, names: Mapping[str, Any], files: Sequence[str]) -> Inspected | None:
    """Return what the files of folds are; None if they are no data or not all there."""
    # The format is of no account to the names.
    described = DescriptionKeys.model_validate({"format": "letor", **names})
    first = path / described.wanted[0]
    if not set(described.wanted) <= set(files):
        return None
    lists = {"path": str(path), **names}
    is_letor = all(_is_letor(path / file) for file in described.wanted)
    if is_letor or all(f"{file}{GROUPS}" in files for file in described.wanted):
        return Inspected("lists", {"format": "letor" if is_letor else "lightgbm", **lists}, _labels(first))
    try:
        table = _table(first)
    except (ConfigError, DataError):
        return None
    kept = {key: value for key, value in table.description.items() if key not in ("path", "random_parts")}
    notes = [note for note in table.notes if note != DEALT]
    return replace(table, description={**kept, **lists}, notes=notes, topics=None)


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


def _table(path: Path) -> Inspected:
    """Return what a table is; ConfigError if its columns do not say so."""
    layout: dict[str, Any] = {}
    if path.suffix == ".parquet":
        scan = pl.scan_parquet(path)
        rows = max(1, LOOK_VALUES // scan.collect_schema().len())
        frame = scan.head(rows).collect()
        whole = len(frame) < rows
    else:
        frame, layout, whole = _delimited(path)
    if layout and not layout["header"]:
        # Rows of user, item, rating and perhaps time, as MovieLens' older editions.
        if frame.width not in (3, 4):
            raise ConfigError(
                f"{path}: found {frame.width} columns without names, expected user, item, rating and perhaps a time; "
                "name the columns in a first line, or write the description by hand (docs/data.md)"
            )
        numbered = {role: str(number) for number, role in enumerate(_RATING_ROLES[: frame.width], start=1)}
        return _ratings(path, frame, layout, numbered, whole, numbered=True)
    small = {name.lower().replace(" ", "_"): name for name in frame.columns}
    named = {role: [small[name] for name in usual if name in small] for role, usual in _NAMES.items()}
    roles = {role: names[0] for role, names in named.items() if names}
    by_name = "\t" if path.name.removesuffix(".gz").endswith(".tsv") else ","
    if {"topic", "relevance"} <= set(roles) and layout.get("separator", ",") == by_name:
        columns = {role: roles[role] for role in _JUDGED_ROLES if role in roles}
        described = {"format": "table", "path": str(path), "columns": columns, "random_parts": PARTS}
        labels = _values(path, frame, roles["relevance"])
        topics = frame[roles["topic"]].n_unique() if whole else None
        written = {name: notations(frame[name]) for name in frame.columns}
        features, left_out = told_apart(frame.schema, written, columns.values())
        shown = printable(shortened(", ".join(features), LONGEST_VALUE)) or "missing"
        notes = [*_taken(columns), f"the features are {shown}"]
        notes += [f"left out, unless `features` names them, are {listed(left_out)}"] if left_out else []
        return Inspected("lists", described, labels, [*notes, DEALT], topics)
    # There is nothing but users, items and perhaps times.
    known = {roles.get(role) for role in ("topic", "item", "timestamp")}
    are_pairs = {name for name in frame.columns if not has_no_name(name)} <= known
    if {"topic", "item"} <= set(roles) and ({"rating", "count"} & set(roles) or are_pairs):
        columns = {role: roles[role] for role in _RATING_ROLES if role in roles}
        if "rating" not in columns and "count" in roles:
            columns = {**columns, "rating": roles["count"]}
        return _ratings(path, frame, layout, columns, whole)
    raise ConfigError(
        f"{path}: found the columns {', '.join(frame.columns[:12])}; expected a topic (such as query), relevance (such "
        "as label or clicked) and numbers that are features, separated by commas (.tsv: tabs), or user, item and "
        "rating: rename them, or write the description by hand (docs/data.md)"
    )


def _ratings(
    path: Path, frame: Any, layout: Mapping[str, Any], columns: Mapping[str, str], whole: bool, numbered: bool = False
) -> Inspected:
    """Return the description of ratings; `numbered` columns have no names in the file."""
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
    usual = {"separator": ",", "header": True}
    unusual = {key: value for key, value in layout.items() if value != usual[key]}
    described = {"format": "ratings", "path": str(path), **unusual, **ids, "columns": dict(columns)}
    topics = rated["topic"].n_unique() if whole else None
    return Inspected("interactions", described, labels, notes, topics, rated, counts)


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


def _taken(columns: Mapping[str, str]) -> list[str]:
    return [f"the column {name!r} is taken as the {role}" for role, name in columns.items()]


def _delimited(path: Path) -> tuple[Any, dict[str, Any], bool]:
    """Return the first rows of delimited text, its separator and whether a line names the columns, and `whole`."""
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
    return (text, True) if len(text) <= LOOK else (_whole_lines(text), False)


def _whole_lines(text: bytes) -> bytes:
    """Return the text without its last line: half a line could be anything."""
    return text[: text.rfind(b"\n") + 1]


def _values(path: Path, frame: Any, column: str) -> list[float]:
    """Return the numbers that occur in a column, ascending."""
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


def _split_of(name: str) -> str | None:
    words = re.split(r"[^a-z]+", name.lower())
    return next((split for word in words for split, usual in _WORDS.items() if word in usual.split()), None)


def _is_letor(path: Path) -> bool:
    lines = (line.partition(b"#")[0].split() for line in beginning_of(path)[0].splitlines())
    tokens: list[bytes] = next(filter(None, lines), [])
    return len(tokens) > 1 and tokens[1].startswith(b"qid:")


def _labels(path: Path) -> list[float]:
    """Return the labels in the first lines of LETOR text; the converter names those that are no numbers."""
    first = {line.split(None, 1)[0] for line in beginning_of(path)[0].splitlines() if line.partition(b"#")[0].strip()}
    numbers = [float(token) for token in first if is_number(token.decode("utf-8", "replace"))]
    return sorted(filter(math.isfinite, numbers))
