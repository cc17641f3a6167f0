"""Ratings in files of any known layout, delimited text, JSON lines or parquet, converted to interactions.

Folds that are given by files may share ratings, as repeated random splits do. The ratings of each file are then stored
apart, and the metadata note which are whose, as for judged lists; `rankbound_study.data.splits` makes the folds.
"""

import codecs
import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, combinations
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from rankbound.errors import DataError
from rankbound.io.models import open_parquet
from rankbound.io.text_files import BlockStream
from rankbound.texts import is_number, quoted, shortened
from rankbound_study.config.sections.description import HIGHEST, LAST, TEXTS
from rankbound_study.data.contracts import (
    CONTRACTS,
    DATASET_KEY,
    ITEM_NAMES_KEY,
    PARTS_KEY,
    TOPIC_NAMES_KEY,
    to_arrow,
    write_table,
)
from rankbound_study.data.sources import RawFiles, as_file, require_sizes

IDS = ("topic", "item")  # the columns of users and items
TIME = "timestamp"
TIMES = "whole numbers, or dates such as 2026-01-31 or 2026-01-31T12:00:00"  # what times may be
_TYPES = CONTRACTS["interactions"].columns
_TEXT = pa.dictionary(pa.int32(), pa.string())
_BLOCK_BYTES = 2**22
_ONE_CHARACTER = "\x1f"  # a separator of one character, which stands for one of several; it occurs in no text
_ZONE = re.compile(r":\d\d(\.\d+)?\s*(Z|[+-]\d\d(:?\d\d)?)$")  # the end of a time with a time zone
_MICROSECONDS = 1e6
_PARQUET = b"PAR1"
JSON = b"{"  # how JSON lines begin
_SHOWN = 80

_NAMES_KEYS = {"topic": TOPIC_NAMES_KEY, "item": ITEM_NAMES_KEY}


def convert(raw: RawFiles, out: str | os.PathLike[str]) -> None:
    """Write the ratings of `raw` to `out` as interactions, sorted by user and item; file by file if folds are given.

    Files are read in blocks; the numbers are in memory. Users and items that are texts become numbers in the order of
    the texts, which the metadata hold.

    Raises DataError for missing columns, a malformed row, a rating that is not of the description's scale, an item that
    a user rates twice or in two splits of a fold, or files that disagree on a rating.
    """
    described = raw.source.described
    members = raw.wanted()
    if len(members) != 1 and not described.given_folds:
        raise DataError(f"{raw.path}: it has {len(members)} files: name the one with the ratings (files)")
    files = {wanted: RatingFile(raw, name) for wanted, name in members.items()}
    names = _numbered(list(files.values())) if described.ids == TEXTS else {}
    for file in files.values():
        file.sort(names)
    notes = {DATASET_KEY: raw.source.name, **{_NAMES_KEYS[key]: json.dumps(texts) for key, texts in names.items()}}
    sizes = [len(file.table) for file in files.values()]
    if described.given_folds:
        _check_folds(files, described.given_folds)
        ends = np.cumsum(sizes).tolist()
        places = {name: [[end - size, end]] for name, size, end in zip(files, sizes, ends, strict=True)}
        notes[PARTS_KEY] = json.dumps(places)
    if described.sizes is not None:
        pairs = np.unique(np.concatenate([file.pair for file in files.values()]))
        require_sizes(raw, len(np.unique(pairs >> 32)), len(pairs))
    write_table(pa.concat_tables([file.table for file in files.values()]), out, "interactions", sizes, notes)


class RatingFile:
    """A file of ratings: its name among the raw files, whose description has its layout, and its rows.

    Attributes:
        table: the columns of interactions.
        pair: once sorted, user and item as one number, ascending.
    """

    table: pa.Table
    pair: npt.NDArray[np.int64]

    def __init__(self, raw: RawFiles, name: str) -> None:
        """Read the file; DataError for missing columns, values of another type, another scale, or no rows."""
        self.described, self.where = raw.source.described, raw.where(name)
        self._order: npt.NDArray[np.int64] | None = None
        self._names: Mapping[str, Sequence[str]] = {}
        with raw.open(name) as stream:
            start = stream.read(len(_PARQUET))
        # Delimited text, neither parquet nor JSON lines.
        self._is_text = start != _PARQUET and not start.startswith(JSON)
        # The columns' names in the file by those of interactions, of which some may be absent, and their types.
        named = {name: getattr(self.described.columns, name) for name in _TYPES}
        self._named: dict[str, str] = {name: column for name, column in named.items() if column is not None}
        words = [*(IDS if self.described.ids == TEXTS else ()), *(["rating"] if self.described.labels else [])]
        self._types = {name: _TEXT if name in words else kind for name, kind in _TYPES.items()}
        if start == _PARQUET:
            with as_file(raw, name) as path:
                file: pq.ParquetFile = open_parquet(str(path))
                self._require(file.schema_arrow.names)
                parts = list(self._of_batches(file.iter_batches(columns=list(self._named.values()))))
        else:
            with raw.open(name) as stream:
                parts = list(self._of_text(stream) if self._is_text else self._of_json(stream))
        if not sum(map(len, parts)):
            raise DataError(f"{self.where}: it has no ratings")
        self.table = pa.concat_tables(parts)
        if (labels := self.described.labels) is not None:
            found = self.table["rating"].cast(pa.string())
            grades = pc.index_in(found, value_set=pa.array(labels))
            if grades.null_count:
                row = pc.index(grades.is_null(), value=True).as_py()
                raise DataError(f"{self.row(row)}: found the rating {quoted(found[row])}, expected {', '.join(labels)}")
            self._set_ratings(grades.cast(pa.float32()))
        rating, scale = self.table.column("rating").to_numpy(), self.described.scale
        wrong = ~np.isfinite(rating)
        expected = "a finite number"
        if scale is not None:
            wrong |= (rating < scale.lowest) | (rating > scale.highest) | ((rating - scale.lowest) % scale.step != 0)
            expected = f"{scale.lowest:g}, {scale.lowest + scale.step:g}, .. {scale.highest:g}"
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"{self.row(row)}: user {self.table['topic'][row]} rates item {self.table['item'][row]} with "
                f"{rating[row]:.4g}; expected {expected}"
            )

    def sort(self, names: Mapping[str, Sequence[str]]) -> None:
        """Sort the rows by user and item, whose `names` are texts by number; DataError if a pair occurs twice."""
        topic, item = (self.table.column(key).to_numpy() for key in IDS)
        self.pair, self._names = (topic.astype(np.int64) << 32) + item, names
        if not (self.pair[1:] > self.pair[:-1]).all():
            self._order = np.argsort(self.pair, kind="stable")
            self.pair, self.table = self.pair[self._order], self.table.take(to_arrow(self._order))
        self.table = self.table.combine_chunks()
        twice = self.pair[1:] == self.pair[:-1]
        if not twice.any():
            return
        if (repeats := self.described.repeats) is None:
            place = int(twice.argmax())
            raise DataError(
                f"{self.row(place + 1)}: {self.text(place)} more than once, first in {self.row(place)}; "
                "keep one of the rows, or say by `repeats` what several are"
            )
        # The last row of each pair, by time, stands for all of them.
        rating, time = (self.table[key].to_numpy() for key in ("rating", TIME))
        order = np.lexsort((time, self.pair))
        starts = np.flatnonzero(np.diff(self.pair, prepend=self.pair[0] - 1))
        ends = order[np.append(starts[1:], len(order)) - 1]
        self.pair, self.table = self.pair[starts], self.table.take(to_arrow(ends))
        self._order = ends if self._order is None else self._order[ends]
        if repeats != LAST:
            summed = np.maximum if repeats == HIGHEST else np.add
            ratings = summed.reduceat(rating[order].astype(np.float64), starts)
            self._set_ratings(to_arrow(ratings.astype(np.float32)))

    def _set_ratings(self, ratings: pa.Array | pa.ChunkedArray) -> None:
        self.table = self.table.set_column(self.table.column_names.index("rating"), "rating", ratings)

    def row(self, place: int) -> str:
        """Return what a row is called in messages: rows of the file count from 1, a line of names included."""
        index = place if self._order is None else int(self._order[place])
        return f"{self.where}, row {index + 1 + (self.described.header and self._is_text)}"

    def text(self, place: int) -> str:
        """Return a rating in words."""
        user, item = (self.table[key][place].as_py() for key in IDS)
        if self._names:
            user, item = repr(self._names["topic"][user]), repr(self._names["item"][item])
        return f"user {user} rates item {item}"

    def _of_text(self, stream: BinaryIO) -> Iterator[pa.Table]:
        header, separator, encoding = self.described.header, self.described.separator, self.described.encoding
        lines = [stream.readline() for _ in range(1 + header)]
        texts = [line.removeprefix(codecs.BOM_UTF8).decode(encoding, "replace").rstrip("\r\n") for line in lines]
        rows = [fields_of(text, separator) if text else [] for text in texts]
        if not rows[0]:
            raise DataError(f"{self.where}: it has no ratings")
        names = rows[0] if header else [str(number) for number in range(1, len(rows[0]) + 1)]
        missing = next((column for column in self._named.values() if column not in names), None)
        if missing is not None:
            expected = "the columns' names" if header else "columns"
            raise DataError(
                f"{self.where}, line 1: found {shortened(repr(texts[0]), _SHOWN)}, which has no column {missing!r}; "
                f"expected {expected} separated by {separator!r}"
            )
        types = {own: self._types[name] for name, own in self._named.items()}
        values = dict(zip(names, rows[-1], strict=False))
        if self._named.get(TIME) in values:
            types[self._named[TIME]] = _type_of_time(values[self._named[TIME]])
        # The reader takes separators of one character.
        delimiter = separator if len(separator) == 1 else _ONE_CHARACTER
        blocks = chain([lines], iter(lambda: stream.readlines(_BLOCK_BYTES), []))
        try:
            reader = pyarrow.csv.open_csv(
                BlockStream(b"".join(block).replace(separator.encode(), delimiter.encode()) for block in blocks),
                # Errors give the row only with a single thread.
                read_options=pyarrow.csv.ReadOptions(
                    use_threads=False,
                    block_size=_BLOCK_BYTES,
                    column_names=names,
                    skip_rows=int(header),
                    encoding=encoding,
                ),
                parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
                ),
            )
            yield from self._of_batches(reader)
        except pa.ArrowInvalid as error:
            as_texts = self.described.ids == TEXTS
            ids = "" if as_texts else "whole numbers for users and items (any texts with ids: texts) and "
            times = f", and for times {TIMES}" if TIME in self._named else ""
            counted = "rows count from 1, the columns' names" if header else "rows count from 1"
            raise DataError(
                f"{self.where}: {error}; expected rows of {len(names)} columns, with {ids}numbers for ratings{times} "
                f"({counted})"
            ) from error

    def _of_json(self, stream: BinaryIO) -> Iterator[pa.Table]:
        """Yield the objects of JSON lines; of others than the described columns, nothing is read."""
        first = stream.readline()
        try:
            values = json.loads(first)
            self._require(list(values))
            own = self._named.get(TIME)
            types = {name: pa.string() if kind == _TEXT else kind for name, kind in self._types.items()}
            if own is not None:
                types[TIME] = pa.string() if isinstance(values[own], str) else _type_of_time(str(values[own]))
            reader = pyarrow.json.open_json(
                BlockStream(chain([first], iter(partial(stream.read, _BLOCK_BYTES), b""))),
                pyarrow.json.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
                pyarrow.json.ParseOptions(
                    explicit_schema=pa.schema([(name, types[key]) for key, name in self._named.items()]),
                    unexpected_field_behavior="ignore",
                ),
            )
            yield from self._of_batches(reader)
        except (ValueError, pa.ArrowInvalid) as error:
            raise DataError(
                f"{self.where}: {error}; expected an object on each line, all with the same types"
            ) from error

    def _require(self, names: Sequence[str]) -> None:
        """Raise DataError for a column that is not among the names."""
        missing = next((column for column in self._named.values() if column not in names), None)
        if missing is not None:
            raise DataError(
                f"{self.where}: there is no column {missing!r}; it has {shortened(', '.join(names), _SHOWN)}"
            )

    def _of_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows with all columns of interactions; absent ratings are 1, absent times 0."""
        rows, time_type = 0, None
        for batch in batches:
            columns = {
                "rating": to_arrow(np.ones(len(batch), np.float32)),
                TIME: to_arrow(np.zeros(len(batch), np.int64)),
            }
            for name, own in self._named.items():
                column, kind = batch.column(own), self._types[name]
                if column.null_count:
                    row = self.row(rows + pc.index(column.is_null(), value=True).as_py())
                    raise DataError(f"{row}: column {quoted(own)} is empty; expected a value in every row")
                try:
                    if name == TIME and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                        time_type = time_type or _type_of_time(column[0].as_py())
                        column = column.cast(time_type)
                    if name == TIME:
                        column = _whole_times(column)
                    elif column.type != kind:
                        column = column.cast(pa.string()).dictionary_encode() if kind == _TEXT else column.cast(kind)
                except pa.ArrowException as error:
                    expected = f"; expected {TIMES}" if name == TIME else ""
                    raise DataError(f"{self.where}: column {quoted(own)}: {error}{expected}") from error
                columns[name] = column
            rows += len(batch)
            yield pa.table({name: columns[name] for name in _TYPES})


def _numbered(files: Sequence[RatingFile]) -> dict[str, list[str]]:
    """Replace the users and items of all files by numbers; return the texts by number, in ascending order."""
    for file in files:
        for key, what in zip(IDS, ("user", "item"), strict=True):
            row = pc.index(file.table.column(key).cast(pa.string()), "").as_py()
            if row >= 0:
                raise DataError(f"{file.row(row)}: the name of the {what} is empty; expected a text")
    names: dict[str, list[str]] = {}
    whole = pa.concat_tables([file.table for file in files]).unify_dictionaries()
    for key in IDS:
        column = whole.column(key).combine_chunks()
        texts = column.dictionary.take(pc.sort_indices(column.dictionary))
        numbers = pc.index_in(column.dictionary, value_set=texts).take(column.indices)
        names[key], whole = texts.to_pylist(), whole.set_column(whole.column_names.index(key), key, numbers)
    start = 0
    for file in files:
        file.table = whole.slice(start, len(file.table))
        start += len(file.table)
    return names


def _check_folds(rated: Mapping[str, RatingFile], folds: Sequence[Mapping[str, Sequence[str]]]) -> None:
    """Check that no pair is in two files of a fold, and that files agree on shared ratings, as those of one edition."""
    for number, named in enumerate(folds, start=1):
        of_fold = [(split, name) for split, names in named.items() for name in names]
        for (split, name), (other_split, other_name) in combinations(of_fold, 2):
            first, second = rated[name], rated[other_name]
            shared = np.intersect1d(first.pair, second.pair, assume_unique=True, return_indices=True)[1:]
            if len(shared[0]):
                place, other = (int(places[0]) for places in shared)
                raise DataError(
                    f"{second.row(other)}: {second.text(other)} in {other_split} of fold {number}, and in "
                    f"{split}, {first.row(place)}; remove one of the rows"
                )
    files = list(rated.values())
    pair = np.concatenate([one.pair for one in files])
    order = np.argsort(pair, kind="stable")
    shared = np.diff(pair[order]) == 0
    ends = np.cumsum([len(one.pair) for one in files])
    for key in ("rating", TIME):
        values = np.concatenate([one.table.column(key).to_numpy() for one in files])
        differs = shared & (np.diff(values[order]) != 0)
        if not differs.any():
            continue
        places = order[int(differs.argmax()) :][:2]
        of_files = np.searchsorted(ends, places, side="right")
        first, second = (files[file] for file in of_files.tolist())
        left, right = (places - np.concatenate(([0], ends))[of_files]).tolist()
        raise DataError(
            f"{second.row(right)}: {second.text(right)} with the {key} {values[places[1]]:.10g}, but {first.row(left)} "
            f"has {values[places[0]]:.10g}: these files are of two editions; expected those of one"
        )


def fields_of(line: str, separator: str) -> list[str]:
    """Return the values of a line of delimited text; with a separator of one character, quotes may enclose them."""
    if len(separator) > 1:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        # For a carriage return inside the line, or a value too long; the reader's message follows.
        return line.split(separator)


def _type_of_time(text: str) -> pa.DataType:
    """Return how times are read that are written like this one."""
    if is_number(text):
        return pa.float64() if re.search(r"[.eE]", text) else pa.int64()
    return pa.timestamp("us", tz="UTC" if _ZONE.search(text) else None)


def _whole_times(column: pa.Array) -> pa.Array:
    """Return times as whole numbers: as they are, or dates, and seconds with a fraction, in microseconds since 1970."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if pa.types.is_floating(column.type):
        return pc.round(pc.multiply(column, _MICROSECONDS)).cast(pa.int64())
    zone = column.type.tz if pa.types.is_timestamp(column.type) else None
    return column.cast(pa.timestamp("us", tz=zone), safe=False).cast(pa.int64())
