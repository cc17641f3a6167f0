"""Look at the beginning of a table: how its columns are separated and named, and what each of them is.

Names tell what a column is, and flags (`Said`) what names don't. What neither tells, and what has two meanings, is
refused with the flags that say it, beside a plan of what was found.
"""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.errors import ConfigError, DataError
from rankbound.io.judged import listed
from rankbound.io.table_columns import OTHER_NAMES, has_no_name, notations, told_apart
from rankbound.io.text_files import open_unpacked, separator_of
from rankbound.texts import LONGEST_VALUE, is_number, printable, quantity, shortened
from rankbound_study.config.sections.description import HIGHEST, LAST, LATIN_1, RATINGS, REPEATS, SUM, TEXTS, UTF_8
from rankbound_study.data.ratings import JSON, TIMES, fields_of

PARTS = 5  # to which topics are dealt, where no files of folds are named
LOOK, LOOK_VALUES = 2**19, 500_000
"""The beginning of a file that is looked at: bytes of text, and values of a table in parquet."""

ANY, TABLE = "any", "table"
"""The threshold by which every pair of a user and an item is relevant, and the format of judged items."""

SHARE_OF_RELEVANT_RATINGS = 0.75  # of the way from the lowest to the highest rating: 4 of 1 .. 5

LARGEST_RATING, FEW_RATINGS, FEWEST_AT_TOP = 100, 5, 0.02
"""Numbers above the first are no ratings. More than so many different ones are none if fewer than that share lies in
their upper quarter."""

MOST_ZEROS, FIRST_TIME = 0.5, 10**8
"""A larger share of zeros among ratings may say that there is no rating; larger numbers may be seconds since 1970."""

_SEPARATORS = ("::", "\t", ";", "|", ",", " ")
_LINES, _ROWS = 20, 3  # lines that a separator has to cut alike, and rows of a plan
_USERS = ("user", "customer", "visitor", "reviewer", "member", "profile", "listener", "reader")
_STEMS = {
    "topic": ("q", "search", *_USERS),
    "item": (
        *("sku", "movie", "film", "book", "isbn", "asin", "parentasin", "song", "track", "artist", "album"),
        *("business", "restaurant", "recipe", "article", "app", "game", "anime"),
    ),
    "relevance": ("judgment", "judgement", "clicked", "click", "clicks"),
    "rating": ("rating", "stars", "score", "overall", "bookrating"),
    "count": ("count", "counts", "plays", "playcount", "listens", "views", "purchases", "quantity"),
    "timestamp": ("timestamp", "time", "date", "datetime", "unixreviewtime"),
}
"""Usual names of columns beside the library's `OTHER_NAMES`, in small letters, without `_`; those of topics and items
may end in `id`."""

_TYPED = re.compile(r":(token|float)(_seq)?$")  # the end of a column's name in RecBole's files
_WHOLE = r"^-?(0|[1-9]\d{0,9})$"
_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]|$)")
_JUDGED_ROLES, _RATING_ROLES = ("topic", "item", "relevance"), ("topic", "item", "rating", "timestamp")


@dataclass(frozen=True)
class Said:
    """What the user says of a table.

    Attributes:
        topic, item, relevance, timestamp: columns by name, or by number from 1.
        format: `table` or `ratings`.
        threshold: a number, `any`, a quantile such as `q0.8`, or one of the labels.
        labels: labels in words, from the least relevant on.
        repeats: what becomes of several rows of a user and an item.
    """

    topic: str | None = None
    item: str | None = None
    relevance: str | None = None
    timestamp: str | None = None
    format: str | None = None
    threshold: str | None = None
    labels: Sequence[str] | None = None
    repeats: str | None = None


@dataclass(frozen=True)
class Inspected:
    """What files are.

    Attributes:
        description: the description of the data set.
        labels: the labels or ratings in the part that was read, ascending.
        notes: what the user should know of it.
        whole: the whole of the only file was read.
        rated: the users (`topic`) and their ratings (`rating`) in that part, a row per pair.
        plan: how the files are read, line by line.
    """

    description: dict[str, Any]
    labels: list[float]
    notes: list[str] = field(default_factory=list)
    whole: bool = False
    rated: Any = None
    plan: Sequence[str] = ()

    @property
    def kind(self) -> str:
        """`interactions` or `lists`."""
        return "interactions" if self.description["format"] == RATINGS else "lists"


class UnclearError(ConfigError):
    """A table that names and flags don't tell how to read; `plan` has what was found of it."""

    def __init__(self, message: str, plan: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.plan = plan


def look_at_table(path: Path, said: Said) -> Inspected:
    """Return what a table is.

    Raises:
        UnclearError: names and flags don't tell what the columns are, or which of two formats it has.
        DataError: it cannot be read.
    """
    look = _Look(path, said)
    roles = look.roles()
    if look.format_of(roles) == TABLE:
        return _judged(look, roles)
    return _ratings(look, roles)


class _Look:
    """The beginning of a table.

    Attributes:
        frame, texts: its rows, with types and as they are written.
        layout: the keys of its description that say how to read it; none for parquet and JSON lines.
        whole: there are no other rows.
        named: a line, or the format, names the columns.
        labels: the key of its description for labels in words, if they are.
        notes: what the user should know of how it is read.
    """

    def __init__(self, path: Path, said: Said) -> None:
        self.path, self.said, self.layout = path, said, dict[str, Any]()
        self.named, self.notes = True, list[str]()
        self.labels = {"labels": list(said.labels)} if said.labels else {}
        if path.suffix == ".parquet":
            scan = pl.scan_parquet(path)
            rows = max(1, LOOK_VALUES // max(1, scan.collect_schema().len()))
            self.frame = scan.head(rows).collect()
            self.whole = len(self.frame) < rows
        else:
            text, self.whole = beginning_of(path)
            is_json = text.startswith(JSON)
            try:
                self.frame = pl.read_ndjson(text, infer_schema_length=None) if is_json else self._delimited(text)
            except pl.exceptions.PolarsError as error:
                kind = "JSON lines" if is_json else f"columns separated by {self.layout['separator']!r}"
                raise DataError(f"{path}: not read as {kind}: {error}") from error
        if not self.layout:
            flat = [name for name, kind in self.frame.schema.items() if not kind.is_nested()]
            self.texts = self.frame.select(pl.col(flat).cast(pl.String))

    def _delimited(self, text: bytes) -> pl.DataFrame:
        """Read the rows, after finding their encoding and separator, and whether a line names the columns."""
        try:
            content, encoding = text.decode("utf-8-sig"), UTF_8
        except UnicodeDecodeError:
            content, encoding = text.decode(LATIN_1), LATIN_1
            self.notes.append("its text is no UTF-8, and is read as Latin-1: names keep apart, whatever they look like")
        lines = [line.rstrip("\r") for line in content.split("\n", _LINES)[:_LINES]]
        filled = [line for line in lines if line]
        present = [one for one in _SEPARATORS if filled and one in filled[0]]
        alike = [one for one in present if len({len(fields_of(line, one)) for line in filled}) == 1]
        separator = next(iter(alike or [one for one in present if one != " "]), None)
        if separator is None:
            shown = " ".join(map(repr, _SEPARATORS))
            raise ConfigError(f"{self.path}: neither LETOR text nor columns with a separator: expected one of {shown}")
        first, second, *_ = *(fields_of(line, separator) for line in lines[:2]), []
        self.layout = {"separator": separator, "header": True, "encoding": encoding}
        self.named = self.layout["header"] = self._names_columns(first, second)
        taken = separator if len(separator) == 1 else "\x1f"
        content = content.replace(separator, taken)

        def read(**types: Any) -> pl.DataFrame:
            return pl.read_csv(io.BytesIO(content.encode()), separator=taken, has_header=self.named, **types)

        frame, self.texts = read(infer_schema_length=None), read(infer_schema=False)
        if not self.named:
            frame.columns = self.texts.columns = [str(number) for number in range(1, frame.width + 1)]
        return frame

    def _names_columns(self, first: Sequence[str], second: Sequence[str]) -> bool:
        """Return whether the first line names the columns; UnclearError if nothing says so."""
        flags = [flag for flag in (self.said.topic, self.said.item, self.said.relevance) if flag]
        numbers = [is_number(text) for text in first]
        named = [any(_is_named(name, role) for role in _STEMS) or name in flags for name in first]
        known = sum(one and not number for one, number in zip(named, numbers, strict=True))
        if known > 1 or (known and not any(numbers)):
            return True
        if any(numbers):
            return False
        if len(second) == 0 or any(map(is_number, second)):
            return True
        if flags:
            return not all(map(is_number, flags))
        raise self.unclear(
            f"the first line, {shortened(', '.join(first), LONGEST_VALUE)!r}, may name the columns or be data: --topic "
            "NAME and --item NAME if it names them; --topic 1 --item 2, numbers of columns, if it is data",
            [f"line {number}: {', '.join(fields)}" for number, fields in enumerate((first, second), start=1)],
        )

    def roles(self) -> dict[str, str]:
        """Return the columns by what they are; of `relevance`, `rating` and `count`, those that there are."""
        columns, flags = self.texts.columns, dict[str, str]()
        for role in ("topic", "item", "relevance", "timestamp"):
            # By its name, or by its number.
            if (value := getattr(self.said, role)) is None or value in columns:
                flags |= {} if value is None else {role: value}
            elif value.isascii() and value.isdigit() and 1 <= int(value) <= len(columns):
                flags[role] = columns[int(value) - 1]
            else:
                shown = shortened(", ".join(columns), LONGEST_VALUE)
                expected = f"expected one of {shown}, or a number from 1"
                raise self.unclear(f"--{role} {value}: there is no such column; {expected}")
        if not self.named:
            return flags or self._usual_order()
        taken, roles, chosen = set(flags.values()), dict(flags), "relevance" in flags
        doubts = []
        for role in _STEMS:
            names = [name for name in columns if name not in taken and _is_named(name, role)]
            names = [name for name in names if _letters(name) == role] or names
            with_id = [name for name in names if _letters(name).endswith("id")]
            names = with_id if len(with_id) == 1 and len(names) == 2 and role in ("topic", "item") else names
            if role in flags or (chosen and role in ("rating", "count", "relevance")):
                continue
            if len(names) > 1 and role == "timestamp":
                self.notes.append(f"{' and '.join(names)} may be times: none is read, unless --timestamp names it")
            elif len(names) > 1:
                flag = "relevance" if role in ("rating", "count") else role
                doubts.append(f"--{flag} {f' or --{flag} '.join(names)}")
            elif names:
                roles[role] = names[0]
        if not doubts and {"rating", "count"} <= set(roles) and "relevance" not in roles:
            doubts = [f"--relevance {roles['rating']} or --relevance {roles['count']}"]
        if doubts:
            raise self.unclear(f"several columns may be one thing. Say which: {'; '.join(doubts)}")
        return roles

    def _usual_order(self) -> dict[str, str]:
        """Return the roles of columns without names: user, item, rating and time, as MovieLens' older editions."""
        width = self.texts.width
        numeric = [bool(is_number(value or "")) for value in self.texts.row(0)]
        if not (width == 2 or (width in (3, 4) and all(numeric[2:]))):
            raise self.unclear(
                f"found {width} columns without names, expected user, item, rating and perhaps a time. Say which are "
                "which, by number: --topic N --item N --relevance N (or --threshold any), and --timestamp N if there "
                "are times"
            )
        if width == 3 and self.frame["3"].dtype.is_numeric() and (self.frame["3"] >= FIRST_TIME).all():
            raise self.unclear(
                "the third column may have times or counts. Say which: --topic 1 --item 2 --timestamp 3 --threshold "
                "any, or --topic 1 --item 2 --relevance 3"
            )
        self.notes.append(f"the columns are taken as {', '.join(_RATING_ROLES[:width])}, in that order")
        return {role: str(number) for number, role in enumerate(_RATING_ROLES[:width], start=1)}

    def features(self, roles: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return the columns that are features of judged items, and what the others are."""
        written = {name: notations(self.frame[name]) for name in self.texts.columns}
        columns = [roles[role] for role in _JUDGED_ROLES if role in roles]
        schema = {name: kind for name, kind in self.frame.schema.items() if name in written}
        return told_apart(schema, written, columns)

    def format_of(self, roles: Mapping[str, str]) -> str:
        """Return whether it is a table of judged items or ratings; UnclearError if it may be both, or neither."""
        relevance = roles.get("relevance", "")
        by_name = separator_of(self.path)
        delimited = self.named and self.layout.get("separator") == by_name
        can_be_table = delimited or self.path.suffix == ".parquet"
        features = self.features(roles)[0] if self.named and relevance else []
        usual = _is_named(relevance, "relevance")
        # Of judged items, neither is read.
        of_ratings = self.said.timestamp is not None or self.said.repeats is not None
        chosen = self.said.format or (RATINGS if of_ratings and "item" in roles else None)
        if chosen is None and (not relevance or ("item" in roles and not (features and (can_be_table or usual)))):
            chosen = RATINGS
        elif chosen is None:
            two = not usual and not any(_is_named(relevance, role) for role in ("rating", "count"))
            two |= usual and features == [roles.get("rating")] and _is_named(roles.get("topic", ""), "topic", _USERS)
            if two and "item" in roles:
                shown = shortened(", ".join(features), LONGEST_VALUE)
                raise self.unclear(
                    f"these may be judged items with the features {shown}, or ratings, of which other columns are "
                    "not read. Say which: --format table or --format ratings"
                )
            chosen = TABLE if usual or "item" not in roles else RATINGS
        if chosen == TABLE and not can_be_table:
            raise self.unclear(
                f"judged items have a line of names, and columns separated by {by_name!r} (.tsv: tabs): write the file "
                "so, or, if users and items are all that is to be read, --format ratings"
            )
        expected = {"topic": "a topic (such as query)", "item": "an item", "relevance": "relevance (such as clicked)"}
        required = ("topic", "relevance") if chosen == TABLE else ("topic", "item")
        if lacking := [f"{expected[role]}: --{role} COLUMN" for role in required if role not in roles]:
            columns = shortened(", ".join(self.texts.columns), LONGEST_VALUE)
            raise self.unclear(f"found the columns {columns}; expected {'; '.join(lacking)}")
        if chosen == TABLE and of_ratings:
            raise self.unclear(
                "--timestamp and --repeats are for ratings, but these are judged items (--format ratings)"
            )
        # Beside pairs and times, a column may be a rating.
        others = [name for name in self.texts.columns if name not in roles.values() and not has_no_name(name)]
        rated = {"relevance", "rating", "count"} & set(roles)
        if chosen == RATINGS and not rated and others and self.said.threshold != ANY:
            raise self.unclear(
                f"one of the columns {shortened(', '.join(others), LONGEST_VALUE)} may hold the relevance. Say which: "
                "--relevance COLUMN; or --threshold any if every pair of a user and an item is relevant"
            )
        return chosen

    def plan(self, columns: Mapping[str, str], counted: str = "") -> list[str]:
        """Return how the table is read, and the first rows of the columns as they are read."""
        rows = quantity(len(self.texts), "row")
        size = f"{rows}, the whole file" if self.whole else f"the first {rows} of the file"
        how = f"{'parquet' if self.path.suffix == '.parquet' else 'JSON lines'}, which names the columns"
        if self.layout:
            names = "the first line names them" if self.named else "no line names them: they have numbers from 1"
            encoding = f", in {self.layout['encoding']}" if self.layout["encoding"] != UTF_8 else ""
            how = f"columns separated by {self.layout['separator']!r}{encoding}; {names}"
        shown = self.texts.head(_ROWS).select(columns.values()).rows()
        texts = ([f"{role} {value!r}" for role, value in zip(columns, row, strict=True)] for row in shown)
        return [
            size + counted,
            how,
            *(f"row {number}: {', '.join(text)}" for number, text in enumerate(texts, start=1)),
        ]

    def values(self, column: str) -> pl.Series:
        """Return the numbers of a column, or the places of its words among the labels.

        Raises:
            ConfigError: it has words among numbers.
            UnclearError: words whose order is not known.
        """
        texts, where = self.texts[column], f"{self.path}: the column {column!r}"
        known = texts.drop_nulls()
        if self.said.labels:
            labels = list(self.said.labels)
            self.notes.append(f"labels are {', '.join(f'{word} = {grade}' for grade, word in enumerate(labels))}")
            unknown = known.filter(~known.is_in(labels))
            if len(unknown):
                raise ConfigError(f"{where} holds {unknown[0]!r}, which is none of --labels {','.join(labels)}")
            return texts.replace_strict(labels, range(len(labels)), return_dtype=pl.Float64)
        others = known.filter(known.cast(pl.Float64, strict=False).is_null())
        if len(others) == len(known) > 0 and notations(known) != {"texts"}:
            words = known.unique(maintain_order=True).to_list()
            raise self.unclear(
                f"the column {column!r} holds {shortened(', '.join(words), LONGEST_VALUE)!r}, expected numbers. Say "
                f"which order words have, from the least relevant on: --labels {','.join(words[:4])} (say); or name "
                "another column: --relevance COLUMN"
            )
        if len(others):
            raise ConfigError(f"{where} holds {others[0]!r}, expected numbers, with a decimal point")
        return texts.cast(pl.Float64)

    def unclear(self, message: str, rows: Sequence[str] | None = None) -> UnclearError:
        """Return the error, with how it is read so far as its plan."""
        if rows is None:
            rows = self.plan({f"{name!r}:": name for name in self.texts.columns})
        return UnclearError(f"{self.path}: {message}", rows)


def _judged(look: _Look, roles: Mapping[str, str]) -> Inspected:
    """Return the description of a table of judged items."""
    columns = {role: roles[role] for role in _JUDGED_ROLES if role in roles}
    described: dict[str, Any] = {"format": TABLE, "path": str(look.path), "columns": columns}
    described |= {**look.labels, "random_parts": PARTS}
    labels = look.frame[columns["relevance"]]
    is_boolean = labels.dtype == pl.Boolean and look.said.labels is None
    numbers = labels.cast(pl.Float64) if is_boolean else look.values(columns["relevance"])
    features, left_out = look.features(roles)
    shown = printable(shortened(", ".join(features), LONGEST_VALUE)) or "missing"
    notes = [*look.notes, *_taken(columns), f"the features are {shown}"]
    notes += [f"left out, unless `features` names them, are {listed(left_out)}"] if left_out else []
    plan = look.plan(columns, f", {quantity(look.texts[columns['topic']].n_unique(), 'topic')}")
    return Inspected(described, _finite(numbers), notes, look.whole, plan=plan)


def _ratings(look: _Look, roles: Mapping[str, str]) -> Inspected:
    """Return the description of ratings."""
    said, unread = look.said, list[str]()
    rating = next((roles[role] for role in ("relevance", "rating", "count") if role in roles), None)
    if rating is not None and said.threshold == ANY:
        unread.append(f"the column {rating!r} is not read: every pair of a user and an item is relevant")
        rating = None
    elif rating is None:
        unread.append("there is no rating: every pair is relevant")
    known = {"topic": roles["topic"], "item": roles["item"], "rating": rating, "timestamp": roles.get("timestamp")}
    columns = {role: name for role, name in known.items() if name is not None}
    first = next(iter(look.texts[columns["timestamp"]]), None) if "timestamp" in columns else None
    # An empty value is left to the conversion.
    if first is not None and not is_number(first) and not _DATE.match(first):
        name = columns.pop("timestamp")
        if said.timestamp is not None:
            raise ConfigError(f"{look.path}: --timestamp {name}: found {first!r}, expected for times {TIMES}")
        unread.append(f"the column {name!r} is not read: {first!r} is no time (times are {TIMES})")
    usual = {"separator": ",", "header": True, "encoding": UTF_8}
    unusual = {key: value for key, value in look.layout.items() if value != usual[key]}
    described: dict[str, Any] = {"format": RATINGS, "path": str(look.path), **unusual}
    pairs = look.texts.select(topic=columns["topic"], item=columns["item"])
    names = pl.concat([pairs["topic"], pairs["item"]]).drop_nulls()
    if not (names.str.contains(_WHOLE).all() and (names.cast(pl.Int64).abs() < 2**31).all()):
        described["ids"] = TEXTS
        unread.append("users or items are not whole numbers below 2,147,483,648, so both are read as texts")
    described |= look.labels if rating is not None else {}
    rated = pairs.with_columns(rating=pl.lit(1.0) if rating is None else look.values(rating))
    twice, repeats = pairs.is_duplicated(), said.repeats
    if twice.any() and repeats is None and rating is not None:
        user, item = pairs.filter(twice).row(0)
        raise look.unclear(
            f"user {user} rates item {item} more than once, and {int(twice.sum()):,} of {len(pairs):,} rows have the "
            f"user and the item of others. Say which rating counts: --repeats {' or --repeats '.join(REPEATS)} (last: "
            "by time, if there are times)"
        )
    if twice.any() and repeats is None:
        repeats = SUM
        unread.append("rows with the same user and item are one pair, whose rating is their number")
    if repeats is not None:
        described["repeats"] = repeats
        merged = {LAST: pl.last("rating"), HIGHEST: pl.max("rating"), SUM: pl.sum("rating")}[repeats]
        rated = rated.group_by("topic", "item", maintain_order=True).agg(merged)
    if not (labels := _finite(rated["rating"])):
        what = "rows" if rating is None else f"finite numbers in the column {rating!r}"
        raise ConfigError(f"{look.path}: there are no {what}; expected a row for each pair of a user and an item")
    if rating is not None and said.labels is None and said.threshold is None:
        _refuse_counts(look, rated["rating"], labels, rating)
    values = ""
    if len(labels) > 1:
        median: Any = rated["rating"].median()
        values = f"; ratings from {labels[0]:g} to {labels[-1]:g}, median {median:g}"
    users, items = rated["topic"].n_unique(), rated["item"].n_unique()
    plan = look.plan(columns, f": {quantity(users, 'user')}, {quantity(items, 'item')}{values}")
    described["columns"] = columns
    notes = [*look.notes, *(_taken(columns) if look.named or said.topic else []), *unread]
    return Inspected(described, labels, notes, look.whole, rated.select("topic", "rating"), plan)


def _refuse_counts(look: _Look, ratings: Any, labels: Sequence[float], name: str) -> None:
    """Raise UnclearError if the numbers of a column may be counts (of plays, purchases, hours) and no ratings.

    Ratings have a scale, whose upper quarter is used; counts are skewed, so that hardly any lies there. Where most
    are 0, that may be the lowest rating, or say that there is none.
    """
    if len(labels) < 2:
        return
    zeros, median = float((ratings == 0).mean()), ratings.median()
    top = (ratings >= upper_quarter(labels)).mean()
    on_a_scale = labels[-1] <= LARGEST_RATING and (len(labels) <= FEW_RATINGS or top >= FEWEST_AT_TOP)
    if labels[0] == 0 and len(labels) > 2 and zeros > MOST_ZEROS:
        why = f"{zeros:.0%} of the column {name!r} are 0, which may be the lowest rating, or say that there is none"
    elif on_a_scale and not _is_named(name, "count"):
        return
    else:
        why = (
            f"the column {name!r} holds {labels[0]:,g} to {labels[-1]:,g}, median {median:,g}, and "
            f"{top:.1%} lie in the upper quarter of that range: these may be counts (of plays, clicks, purchases, "
            "hours) or ratings on a scale"
        )
    example = f"{median:g}" if f"{median:g}" != "0" else "1"
    raise look.unclear(
        f"{why}. Say which: --threshold any if every pair of a user and an item is relevant, whatever its number; "
        f"--threshold {example} (say) if it is relevant from that count or rating on, and irrelevant below; "
        "--threshold q0.8 if the upper fifth is relevant"
    )


def upper_quarter(labels: Sequence[float]) -> float:
    """Return the smallest rating in the upper quarter of those that occur: 4 of 1 .. 5."""
    limit = labels[0] + SHARE_OF_RELEVANT_RATINGS * (labels[-1] - labels[0])
    return next(label for label in labels if label >= limit)


def beginning_of(path: Path) -> tuple[bytes, bool]:
    """Return the first lines of text, packed or not, and whether there are no others."""
    with open_unpacked(path) as stream:
        text = stream.read(LOOK + 1)
    # Half a line could be anything.
    return (text, True) if len(text) <= LOOK else (text[: text.rfind(b"\n") + 1], False)


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", _TYPED.sub("", name.casefold()))


def _is_named(name: str, role: str, stems: Sequence[str] | None = None) -> bool:
    letters, stems = _letters(name), stems or (*_STEMS[role], *map(_letters, chain(*OTHER_NAMES.get(role, ()))))
    return letters in stems or (role in ("topic", "item") and letters.endswith("id") and letters[:-2] in stems)


def _taken(columns: Mapping[str, str]) -> list[str]:
    return [f"the column {name!r} is taken as the {role}" for role, name in columns.items()]


def _finite(numbers: pl.Series) -> list[float]:
    """Return the numbers that occur, ascending."""
    known = numbers.drop_nulls().unique().sort()
    return [float(value) for value in known.filter(known.is_finite())]
