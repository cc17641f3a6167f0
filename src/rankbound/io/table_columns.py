"""The columns of a table with a row per item: names, relevance labels and features, checked row by row.

A table is a whole one, or a batch of the rows of one that is read in a stream; messages name its rows either way.

Unless features are chosen, they are the columns of numbers, but for those whose names say that they are something else.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound.errors import DataError
from rankbound.texts import LONGEST_VALUE, is_number, quoted, shortened

_SHOWN_NAMES = 8

RESERVED: Mapping[str, Sequence[str]] = {
    "given by a ranking": ("position", "pos", "rank", "ranking", "score", "pred", "prediction"),
    "a label": ("relevance", "label", "grade", "target", "judgment", "judgement", "click", "clicked"),
    "a weight": ("weight", "weights", "sample_weight", "propensity", "propensities"),
    "a part of an evaluation": ("fold", "folds", "split", "subset", "seed", "is_train", "is_test"),
    "a time": ("timestamp", "ts", "time", "date", "datetime"),
    "a number of rows": ("index", "none", "row", "row_nr", "row_number", "level_0", "level_1"),
    "a name": (
        *("id", "row_id", "topic", "topic_id", "query", "query_id", "qid", "session", "session_id", "user", "user_id"),
        *("item", "item_id", "doc", "doc_id", "document", "document_id", "product", "product_id", "intent"),
    ),
}
"""Names of columns that are features only where they are chosen, with what they usually hold: no property of an item by
which to rank it, or the shadow of its label. Case and `_` don't count. Counts, as in `clicks`, are features."""

_NO_NAME = re.compile(r"|Unnamed: \d+(\.\d+)*(_level_\d+)?|_duplicated_\d+|__index_level_\d+__")
"""The names of columns without one: empty, as pandas writes the index of a frame, or as a reader completes it."""

_FEWEST_ROWS = 8
"""Fewer rows are in some order, and have some labels, by chance."""

_FIRST_ROWS = 1024
"""Rows at the beginning of a batch that settle most columns."""


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns; without a column of item names, topic and row number identify an item."""

    topic: str = "topic"
    item: str | None = None
    relevance: str = "relevance"

    @property
    def items(self) -> str:
        return "item" if self.item is None else self.item

    @property
    def roles(self) -> tuple[str, str, str]:
        """The columns that are no features."""
        return self.topic, self.items, self.relevance


@dataclass(frozen=True)
class Table:
    """A table or a batch of one, with the words by which messages name it and its rows.

    Attributes:
        frame: the rows.
        where: the name of the table in messages.
        row_name: `row`, or `line` of text.
        first_row: the number of the first row of `frame`.
    """

    frame: pl.DataFrame
    where: str
    row_name: str
    first_row: int

    def row(self, index: int) -> str:
        """Return the name of the row at that place in the frame."""
        return f"{self.where}, {self.row_name} {index + self.first_row}"

    def rows(self, indices: npt.NDArray[np.int64]) -> str:
        """Return the numbers of two rows."""
        return two_rows(self.row_name, indices + self.first_row)


def two_rows(row_name: str, numbers: npt.NDArray[np.int64]) -> str:
    """Return the first two numbers of rows in words."""
    first, second = sorted(numbers[:2].tolist())
    return f"{row_name}s {first} and {second}"


def require_roles(table: Table, columns: Columns, labelled: bool = True) -> None:
    """Raise DataError for a column with a role that is not there, and say how to name another one."""
    roles = {"topic": columns.topic, "item": columns.item, "relevance": columns.relevance if labelled else None}
    known = set(table.frame.columns)
    for role, name in roles.items():
        if name is not None and name not in known:
            advice = f"name the column of the {role} by `{role}` (on the command line: --{role} NAME)"
            ones = ", or add one of ones if every row is of a relevant item" if role == "relevance" else ""
            raise DataError(f"{_no_column(table, name)}; {advice}{ones}")


def text(table: Table, name: str) -> pl.Series:
    """Return a column of names, texts or whole numbers, as text; DataError for an empty one."""
    column = _column(table, name)
    if column.dtype.is_nested() or column.dtype.is_float():
        raise DataError(f"{table.where}: column {name!r} is {column.dtype}, expected names (text or whole numbers)")
    names = column.cast(pl.String)
    if names.null_count():
        raise DataError(f"{table.row(_first(names.is_null()))}: column {name!r} is empty, expected a name")
    return names


def item_names(table: Table, columns: Columns) -> pl.Series:
    """Return the names of the items; without a column of them, topic and row number."""
    if columns.item is not None or columns.items in table.frame.columns:
        return text(table, columns.items)
    numbers = pl.Series(np.arange(table.first_row, table.first_row + len(table.frame))).cast(pl.String)
    return text(table, columns.topic) + "-" + numbers


def relevance_of(table: Table, columns: Columns, labelled: bool = True) -> npt.NDArray[Any]:
    """Return the relevance labels, numbers from 0; unless `labelled`, those of a table without them are 0."""
    if not labelled and columns.relevance not in table.frame.columns:
        return np.zeros(len(table.frame), dtype=np.int8)
    relevance = numbers(table, columns.relevance)
    if (relevance < 0).any():
        row = int((relevance < 0).argmax())
        raise DataError(
            f"{table.row(row)}: column {columns.relevance!r} holds {relevance[row]}, expected grades from 0"
        )
    return relevance


def numbers(table: Table, name: str) -> npt.NDArray[Any]:
    """Return a column of finite numbers: whole numbers as int64, others as float32 or float64."""
    column = _numeric(table, name)
    is_whole = column.dtype.is_integer() or (isinstance(column.dtype, pl.Decimal) and column.dtype.scale == 0)
    target = pl.Int64 if is_whole else pl.Float32 if column.dtype == pl.Float32 else pl.Float64
    if column.null_count() or not column.cast(pl.Float64).is_finite().all():
        refuse(table, name)
    values = column.cast(target, strict=False)
    if values.null_count():
        row = _first(values.is_null())
        raise DataError(f"{table.row(row)}: column {name!r} holds {column[row]}, too large a number")
    return values.to_numpy()


def matrix(table: Table, names: Sequence[str]) -> npt.NDArray[np.float32]:
    """Return columns of finite numbers, `(n_rows, n_names)`, row by row as a model reads them."""
    if not names:
        # Polars 1.20 has no array of a frame without columns.
        return np.empty((len(table.frame), 0), dtype=np.float32)
    columns = [_numeric(table, name).cast(pl.Float32) for name in names]
    # Nulls become NaN.
    values: npt.NDArray[np.float32] = pl.DataFrame(columns).to_numpy(order="c")
    if not np.isfinite(values).all():
        refuse(table, names[int(np.argwhere(~np.isfinite(values))[0, 1])])
    return values


def chosen_names(table: Table, columns: Columns, features: Sequence[str]) -> list[str]:
    """Return the names of chosen features; DataError for one that is missing, the label, the topic or the item."""
    roles = {columns.relevance: "relevance", columns.topic: "topic", columns.items: "item"}
    known = set(table.frame.columns)
    for name in features:
        if name not in known:
            chosen = shortened(", ".join(features), LONGEST_VALUE)
            raise DataError(f"{_no_column(table, name)}; the features to read, such as a ranker's, are {chosen}")
        if name in roles:
            raise DataError(
                f"{table.where}: the feature {name!r} is the column of the {roles[name]}, which a ranker must not see: "
                f"choose other features, or name another column by `{roles[name]}` (on the command line: "
                f"--{roles[name]} NAME)"
            )
    return list(features)


@dataclass
class Notation:
    """The notation of the values of a column, over all of its batches.

    A column that holds no number is text; one with words and numbers is numeric, with a mistake in it. So is one of
    numbers in another notation, with spaces around them or decimal commas.
    """

    _is_known: bool = False
    _has_number: bool = False
    _is_plain: bool = True

    def read(self, column: pl.Series) -> "Notation":
        """Take the values of a batch into account."""
        if column.dtype.is_numeric():
            self._has_number |= column.null_count() < len(column)
        elif column.dtype != pl.String:
            self._is_plain = False
        elif len(known := column.drop_nulls()):
            plain = known.str.strip_chars().str.replace(r"^([+-]?\d*),(\d+)$", "${1}.${2}")
            self._has_number |= not known.cast(pl.Float64, strict=False).is_null().all()
            self._is_plain &= not plain.cast(pl.Float64, strict=False).null_count()
            self._is_known = True
        return self

    @property
    def is_text(self) -> bool:
        """No value is a number."""
        return not self._has_number and not (self._is_known and self._is_plain)


def has_no_name(name: str) -> bool:
    """Return True for the name of a column that has none, as the index of a data frame has in a file."""
    return _NO_NAME.fullmatch(name) is not None


def left_out_as(name: str, dtype: pl.DataType, notation: Notation) -> str | None:
    """Return as what a column is left out unless it is chosen; None for a feature: numbers, mistakes among them."""
    if has_no_name(name):
        return "without a name"
    if not (dtype.is_numeric() or dtype == pl.Boolean or (dtype == pl.String and not notation.is_text)):
        return "text" if dtype == pl.String else "no numbers"
    return _RESERVED_AS.get(_letters(name))


def told_apart(columns: Mapping[str, str | None]) -> tuple[list[str], dict[str, str]]:
    """Return the features, and the columns that are left out, of columns with the results of `left_out_as`."""
    left_out = {name: what for name, what in columns.items() if what is not None}
    return [name for name in columns if name not in left_out], left_out


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


_RESERVED_AS = {_letters(name): what for what, names in RESERVED.items() for name in names}


class Shadows:
    """Features that are the order of the rows, or the relevance label in other units, found in one pass over the rows.

    By such a feature, a ranker may look much better than it is. Whole numbers number the rows if they rise or fall from
    each row to the next, or if the n rows, or those of each topic, have n successive numbers, each once.
    """

    def __init__(self, names: Sequence[str], n_rows: int) -> None:
        self._names, self._n_rows, self._n_within = list(names), n_rows, 0
        self._orders = {name: _Order(n_rows) for name in names}
        self._values: dict[str, dict[float, float]] = {name: {} for name in names}
        self._within = {name: place for place, name in enumerate(names)}

    def read_rows(self, table: Table, relevance: npt.NDArray[Any]) -> None:
        """Take the next rows into account, in the order of the table."""
        # The first rows settle most columns.
        for rows in (slice(0, _FIRST_ROWS), slice(_FIRST_ROWS, None)):
            for name in [*self._orders]:
                if len(values := _doubles(table, name, rows)) and not self._orders[name].read(values):
                    del self._orders[name]
            if self._values and len(relevance[rows]):
                labels, firsts, label_of_row = np.unique(relevance[rows], return_index=True, return_inverse=True)
                for name, known in [*self._values.items()]:
                    values = _doubles(table, name, rows)
                    by_label = zip(labels.tolist(), values[firsts].tolist(), strict=True)
                    if not (
                        bool((values == values[firsts][label_of_row]).all())
                        and all(known.setdefault(label, value) == value for label, value in by_label)
                    ):
                        del self._values[name]

    def read_topics(self, features: npt.NDArray[np.float32], offsets: npt.NDArray[np.int64]) -> None:
        """Take whole topics into account, with all features."""
        self._n_within += int(offsets[-1]) - len(offsets) + 1
        some = min(int(np.searchsorted(offsets, _FIRST_ROWS)), len(offsets) - 1)
        for limits in (offsets[: some + 1], offsets[some:]):
            rows = slice(int(limits[0]), int(limits[-1]))
            self._within = {
                name: place for name, place in self._within.items() if _number_lists(features[rows, place], limits)
            }

    def found(self) -> dict[str, str]:
        """Return such features after all rows, with what they do."""
        reasons: dict[str, str] = {}
        if self._n_within >= _FEWEST_ROWS:
            reasons |= dict.fromkeys(self._within, "numbers the rows of each topic")
        if self._n_rows >= _FEWEST_ROWS:
            numbering = [name for name, order in self._orders.items() if order.numbers_all()]
            reasons |= dict.fromkeys(numbering, "numbers the rows")
            monotone = [name for name, known in self._values.items() if _is_monotone(known)]
            reasons |= dict.fromkeys(monotone, "is the relevance label in other units")
        return {name: reasons[name] for name in self._names if name in reasons}


@dataclass
class _Order:
    """The values of a column, row after row: monotone, or a range of whole numbers as far as sums of powers tell."""

    n_rows: int
    _first: float | None = None
    _last: float = 0.0
    _signs: set[float] = field(default_factory=set)
    _lowest: float = 0.0
    _highest: float = 0.0
    _sum: int = 0
    _squares: int = 0

    def read(self, values: npt.NDArray[np.float64]) -> bool:
        """Take the values of the next rows into account; return False if they do not number the rows."""
        if not _are_whole(values):
            return False
        before = values[:0] if self._first is None else [self._last]
        self._signs |= {*np.unique(np.sign(np.diff(values, prepend=before))).tolist()}
        self._first, self._last = float(values[0]) if self._first is None else self._first, float(values[-1])
        # From the first on, the numbers of rows are small enough for sums of int64.
        places = values - self._first
        self._lowest, self._highest = min(self._lowest, places.min()), max(self._highest, places.max())
        if self._is_range():
            whole = places.astype(np.int64)
            self._sum, self._squares = self._sum + int(whole.sum()), self._squares + int(whole @ whole)
        return self._is_range() or self._is_monotone()

    def numbers_all(self) -> bool:
        """Return whether the values number the rows, after all of them."""
        low, high = int(self._lowest), int(self._highest)
        sums = (_sum(high) - _sum(low - 1) - self._sum, _squares(high) - _squares(low - 1) - self._squares)
        # Sums of int64 are exact but for multiples of 2^64.
        is_range = high - low == self.n_rows - 1 and not any(difference % 2**64 for difference in sums)
        return is_range or self._is_monotone()

    def _is_monotone(self) -> bool:
        return self._signs in ({1.0}, {-1.0})

    def _is_range(self) -> bool:
        return bool(self._highest - self._lowest < self.n_rows)


def _sum(number: int) -> int:
    return number * (number + 1) // 2


def _squares(number: int) -> int:
    return number * (number + 1) * (2 * number + 1) // 6


def _are_whole(values: npt.NDArray[Any]) -> bool:
    return bool((values == np.floor(values)).all())


def _is_monotone(value_of_label: Mapping[float, float]) -> bool:
    steps = np.diff([value for _, value in sorted(value_of_label.items())])
    return bool(len(steps) and ((steps > 0).all() or (steps < 0).all()))


def _number_lists(values: npt.NDArray[np.float32], offsets: npt.NDArray[np.int64]) -> bool:
    """Return whether the values of each list are successive whole numbers, in any order."""
    if not _are_whole(values):
        return False
    list_of_row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    steps = np.diff(values[np.lexsort((values, list_of_row))])
    return bool((steps[np.diff(list_of_row) == 0] == 1).all())


def _doubles(table: Table, name: str, rows: slice) -> npt.NDArray[np.float64]:
    return table.frame[name][rows].cast(pl.Float64).to_numpy()


def refuse(table: Table, name: str) -> None:
    """Raise DataError for the first value of a column that is not a finite number."""
    column = table.frame[name]
    if not len(column):
        raise DataError(f"{table.where}: there are no rows in it")
    row = _first(_mistakes(column))
    found = "is empty" if column[row] is None else f"holds {quoted(column[row])}"
    hint = " with a decimal point" if re.fullmatch(r"\s*[+-]?\d*,\d+\s*", str(column[row])) else ""
    raise DataError(f"{table.row(row)}: column {name!r} {found}, expected a finite number{hint}")


def refuse_text(tables: Iterator[Table], name: str) -> None:
    """Raise DataError for the first batch with a value that is not a finite number, in a column read as text."""
    first = next(tables)
    wrong = first
    while not _mistakes(wrong.frame[name]).any():
        if (following := next(tables, None)) is None:
            refuse(first, name)
        else:
            wrong = following
    refuse(wrong, name)


def _mistakes(column: pl.Series) -> pl.Series:
    values = column.cast(pl.Float32, strict=False)
    return values.is_null() | ~values.is_finite()


def _column(table: Table, name: str) -> pl.Series:
    # `frame.columns` is a new list of all names at each use, which takes long in a loop over them.
    try:
        return table.frame[name]
    except pl.exceptions.ColumnNotFoundError:
        raise DataError(_no_column(table, name)) from None


def _no_column(table: Table, name: str) -> str:
    """Return the message for a column that is not there."""
    columns = table.frame.columns
    some = [shortened(column, LONGEST_VALUE) for column in columns[:_SHOWN_NAMES]]
    shown = ", ".join(some) + (", ..." if len(columns) > _SHOWN_NAMES else "")
    hint = "; the first line must name the columns" if any(map(is_number, columns)) else ""
    return f"{table.where}: there is no column {name!r}; it has {shown or 'none'}{hint}"


def _numeric(table: Table, name: str) -> pl.Series:
    column = _column(table, name)
    if column.dtype == pl.Boolean:
        return column.cast(pl.Int8)
    if not column.dtype.is_numeric():
        if column.dtype == pl.String:
            refuse(table, name)
        raise DataError(f"{table.where}: column {name!r} is {column.dtype}, expected numbers")
    return column


def _first(mask: pl.Series) -> int:
    index = mask.fill_null(True).arg_max()
    return 0 if index is None else int(index)
