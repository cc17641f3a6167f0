"""The columns of a table with a row per item: names, relevance labels and features, checked row by row.

A table is a whole one, or a batch of the rows of one that is read in a stream; messages name its rows either way.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound.errors import DataError
from rankbound.printable import LONGEST_VALUE, quoted, shortened
from rankbound.texts import is_number

_SHOWN_NAMES = 8


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


def is_feature(dtype: pl.DataType, notation: Notation) -> bool:
    """Return True for a column of numbers, mistakes among them."""
    return dtype.is_numeric() or dtype == pl.Boolean or (dtype == pl.String and not notation.is_text)


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
