"""Read tables with a row per item of each topic: CSV, parquet, or a data frame in memory."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from rankbound.errors import DataError
from rankbound.io.csv_text import read_csv
from rankbound.io.grouping import by_topic, require_distinct_items, topic_column
from rankbound.io.intents import qrels_by_intent
from rankbound.io.judged import JudgedLists, Qrels, Run
from rankbound.io.parquet import check_memory
from rankbound.printable import LONGEST_VALUE, quoted, shortened
from rankbound.texts import is_number

_SHOWN_NAMES = 8
_LONGEST_REASON = 300
_DAMAGE = (OSError, ValueError, MemoryError, pa.ArrowException, pl.exceptions.PolarsError)


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns; without a column of item names, topic and row number identify an item."""

    topic: str = "topic"
    item: str | None = None
    relevance: str = "relevance"

    @property
    def items(self) -> str:
        return "item" if self.item is None else self.item


@dataclass(frozen=True)
class _Table:
    """A table, with the words by which messages name it and its rows."""

    frame: pl.DataFrame
    where: str
    row_name: str
    first_row: int

    def row(self, index: int) -> str:
        return f"{self.where}, {self.row_name} {index + self.first_row}"

    def rows(self, indices: npt.NDArray[np.int64]) -> str:
        """Return the numbers of two rows."""
        first, second = sorted(indices[:2].tolist())
        return f"{self.row_name}s {first + self.first_row} and {second + self.first_row}"


def read_judged(
    source: Any, columns: Columns, features: Sequence[str] | None = None, labelled: bool = True
) -> JudgedLists:
    """Read a table's rows as judged lists; by default, all numeric columns without another role are features.

    Unless `labelled`, a table may lack relevance labels, which are then 0. DataError names line and column.
    """
    table = _read(source, columns)
    _require_roles(table, columns, labelled)
    topics, offsets, order = by_topic(_text(table, columns.topic))
    names, left_out = _feature_names(table, columns) if features is None else (_chosen(table, columns, features), [])
    items, relevance = _items(table, columns), _relevance(table, columns, labelled)
    matrix = _matrix(table, names)
    if order is not None:
        items, relevance, matrix = items[order], relevance[order], matrix[order]
    pairs = pl.DataFrame({"topic": topic_column(topics, offsets), "item": items})
    require_distinct_items(
        pairs, table.where, rows=lambda places: table.rows(places if order is None else order[places])
    )
    return JudgedLists(
        topics=topics,
        items=items,
        relevance=relevance,
        offsets=offsets,
        features=matrix,
        feature_names=names,
        left_out=left_out,
    )


def read_intents(source: Any, columns: Columns) -> Qrels:
    """Read judgements by intent from a table whose column `intent` names the intent."""
    table = _read(source, columns)
    rows = {
        "topic": _text(table, columns.topic),
        "intent": _text(table, "intent"),
        "item": _text(table, columns.items),
        "relevance": _relevance(table, columns, labelled=True),
    }
    return qrels_by_intent(pl.DataFrame(rows), table.where)


def read_scores(source: Any) -> Run:
    """Read a run from a table with the columns topic, item and score."""
    table = _read(source, Columns())
    topics, offsets, order = by_topic(_text(table, "topic"))
    items, scores = _text(table, "item"), _numbers(table, "score")
    if order is not None:
        items, scores = items[order], scores[order]
    require_distinct_items(pl.DataFrame({"topic": topic_column(topics, offsets), "item": items}), table.where)
    return Run(topics=topics, items=items, scores=scores, offsets=offsets)


def _read(source: Any, columns: Columns) -> _Table:
    if not isinstance(source, str | os.PathLike):
        return _Table(_frame_of(source), "table", "row", 0)
    is_parquet = Path(source).suffix == ".parquet"
    try:
        if is_parquet:
            return _Table(_read_parquet(Path(source)), str(source), "row", 1)
        frame = read_csv(source, (columns.topic, columns.items))
    except (*_DAMAGE, pl.exceptions.PanicException) as error:
        reason = shortened(str(error).split("\n")[0], _LONGEST_REASON)
        raise DataError(f"{source}: not a readable {'parquet' if is_parquet else 'CSV'} file ({reason})") from error
    # The first row is line 2, below the names.
    return _Table(frame, str(source), "line", 2)


def _read_parquet(path: Path) -> pl.DataFrame:
    # Damaged files raise an error in Arrow's reader, but a panic in that of polars.
    with pq.ParquetFile(path) as file:
        check_memory(file, path)
        table = file.read()
    # Text that is not UTF-8 would panic as well.
    table.validate(full=True)
    if len(set(table.column_names)) < table.num_columns:
        raise ValueError("a column's name occurs twice")
    return cast("pl.DataFrame", pl.from_arrow(table))


def _frame_of(source: Any) -> pl.DataFrame:
    try:
        return pl.DataFrame(source)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(f"source: found {type(source).__name__}, expected a path or a data frame ({error})") from error


def _column(table: _Table, name: str) -> pl.Series:
    # `frame.columns` is a new list of all names at each use, which takes long in a loop over them.
    try:
        return table.frame[name]
    except pl.exceptions.ColumnNotFoundError:
        raise DataError(_no_column(table, name)) from None


def _no_column(table: _Table, name: str) -> str:
    """Return the message for a column that is not there."""
    columns = table.frame.columns
    some = [shortened(column, LONGEST_VALUE) for column in columns[:_SHOWN_NAMES]]
    shown = ", ".join(some) + (", ..." if len(columns) > _SHOWN_NAMES else "")
    hint = "; the first line must name the columns" if any(map(is_number, columns)) else ""
    return f"{table.where}: there is no column {name!r}; it has {shown or 'none'}{hint}"


def _require_roles(table: _Table, columns: Columns, labelled: bool) -> None:
    """Raise DataError for a column with a role that is not there, and say how to name another one."""
    roles = {"topic": columns.topic, "item": columns.item, "relevance": columns.relevance if labelled else None}
    known = set(table.frame.columns)
    for role, name in roles.items():
        if name is not None and name not in known:
            advice = f"name the column of the {role} by `{role}` (on the command line: --{role} NAME)"
            ones = ", or add one of ones if every row is of a relevant item" if role == "relevance" else ""
            raise DataError(f"{_no_column(table, name)}; {advice}{ones}")


def _text(table: _Table, name: str) -> pl.Series:
    column = _column(table, name)
    if column.dtype.is_nested() or column.dtype.is_float():
        raise DataError(f"{table.where}: column {name!r} is {column.dtype}, expected names (text or whole numbers)")
    text = column.cast(pl.String)
    if text.null_count():
        raise DataError(f"{table.row(_first(text.is_null()))}: column {name!r} is empty, expected a name")
    return text


def _items(table: _Table, columns: Columns) -> pl.Series:
    if columns.item is not None or columns.items in table.frame.columns:
        return _text(table, columns.items)
    numbers = pl.Series(np.arange(table.first_row, table.first_row + len(table.frame))).cast(pl.String)
    return _text(table, columns.topic) + "-" + numbers


def _relevance(table: _Table, columns: Columns, labelled: bool) -> npt.NDArray[Any]:
    if not labelled and columns.relevance not in table.frame.columns:
        return np.zeros(len(table.frame), dtype=np.int8)
    relevance = _numbers(table, columns.relevance)
    if (relevance < 0).any():
        row = int((relevance < 0).argmax())
        raise DataError(
            f"{table.row(row)}: column {columns.relevance!r} holds {relevance[row]}, expected grades from 0"
        )
    return relevance


def _numbers(table: _Table, name: str) -> npt.NDArray[Any]:
    """Return a column of finite numbers: whole numbers as int64, others as float32 or float64."""
    column = _numeric(table, name)
    target = column.dtype if column.dtype in (pl.Float32, pl.Float64) else pl.Int64
    if column.null_count() or not column.cast(pl.Float64).is_finite().all():
        _refuse(table, name)
    values = column.cast(target, strict=False)
    if values.null_count():
        row = _first(values.is_null())
        raise DataError(f"{table.row(row)}: column {name!r} holds {column[row]}, too large a number")
    return values.to_numpy()


def _feature_names(table: _Table, columns: Columns) -> tuple[list[str], list[str]]:
    """Return the feature columns, and the text columns that are left out."""
    names = [name for name in table.frame.columns if name not in (columns.topic, columns.items, columns.relevance)]
    is_text = {name: _is_text(table.frame[name]) for name in names}
    text, chosen = ([name for name in names if is_text[name] is kind] for kind in (True, False))
    return chosen, text


def _chosen(table: _Table, columns: Columns, features: Sequence[str]) -> list[str]:
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


def _is_text(column: pl.Series) -> bool:
    """Return True if a column holds no number; one with words and numbers is numeric, with a mistake in it.

    So is one of numbers in another notation, with spaces around them or decimal commas.
    """
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return False
    if column.dtype != pl.String:
        return True
    known = column.drop_nulls()
    plain = known.str.strip_chars().str.replace(r"^([+-]?\d*),(\d+)$", "${1}.${2}").cast(pl.Float64, strict=False)
    other_notation = bool(len(known)) and not plain.null_count()
    return bool(known.cast(pl.Float64, strict=False).is_null().all()) and not other_notation


def _matrix(table: _Table, names: Sequence[str]) -> npt.NDArray[np.float32]:
    columns = [_numeric(table, name).cast(pl.Float32) for name in names]
    # Row-major, as a model reads it; nulls become NaN.
    matrix: npt.NDArray[np.float32] = pl.DataFrame(columns).to_numpy(order="c").reshape(len(table.frame), len(names))
    if not np.isfinite(matrix).all():
        _refuse(table, names[int(np.argwhere(~np.isfinite(matrix))[0, 1])])
    return matrix


def _numeric(table: _Table, name: str) -> pl.Series:
    column = _column(table, name)
    if column.dtype == pl.Boolean:
        return column.cast(pl.Int8)
    if not column.dtype.is_numeric():
        if column.dtype == pl.String:
            _refuse(table, name)
        raise DataError(f"{table.where}: column {name!r} is {column.dtype}, expected numbers")
    return column


def _refuse(table: _Table, name: str) -> None:
    """Raise DataError for the first value of a column that is not a finite number."""
    column = table.frame[name]
    if not len(column):
        raise DataError(f"{table.where}: there are no rows in it")
    numbers = column.cast(pl.Float32, strict=False)
    row = _first(numbers.is_null() | ~numbers.is_finite())
    found = "is empty" if column[row] is None else f"holds {quoted(column[row])}"
    hint = " with a decimal point" if re.fullmatch(r"\s*[+-]?\d*,\d+\s*", str(column[row])) else ""
    raise DataError(f"{table.row(row)}: column {name!r} {found}, expected a finite number{hint}")


def _first(mask: pl.Series) -> int:
    index = mask.fill_null(True).arg_max()
    return 0 if index is None else int(index)
