"""Read CSV text strictly, with messages for the layouts that spreadsheets and other languages' settings write."""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.errors import DataError
from rankbound.io.csv_chunks import end_of_rows
from rankbound.io.judged import repeated
from rankbound.io.unpacked import read_unpacked
from rankbound.texts import LONGEST_VALUE, quoted, shortened

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}

_OTHERS = {"::": "double colons", " ": "spaces"}
"""Separators that names of columns may contain; looked for where none of the usual ones is."""


def separator_of(path: str | os.PathLike[str]) -> str:
    """Return the separator of columns by the name of a file: tabs in `.tsv`, otherwise commas; `.gz` may follow."""
    return "\t" if Path(path).name.removesuffix(".gz").endswith(".tsv") else ","


def read_csv(path: str | os.PathLike[str], names: Sequence[str]) -> pl.DataFrame:
    """Read a file whose first line names the columns; those of `names` are text.

    Raises:
        DataError: other separators, spaces after them, another encoding, a row with too many fields, or no rows; the
            message names line and remedy.
        ValueError, polars.exceptions.PolarsError: other damage.
    """
    # Types are inferred from the whole file: a word may first occur in the last line.
    frame = parse_rows(read_unpacked(path), path, inferred(names))
    require_rows(frame, path)
    refuse_spaces(spaced_columns(frame), frame, path)
    return frame


def inferred(names: Sequence[str]) -> Mapping[str, Any]:
    """Return the options of polars by which columns have the types of all their values, and those of `names` text."""
    return {"infer_schema_length": None, "schema_overrides": dict.fromkeys(names, pl.String)}


def parse_rows(
    content: bytes, path: str | os.PathLike[str], types: Mapping[str, Any], lines_before: int = 0
) -> pl.DataFrame:
    """Return the rows of text whose first line names the columns, with the options of polars in `types`.

    `lines_before` is the number of lines of the file that are left out of `content`. Raises as `read_csv`.
    """
    separator = separator_of(path)
    try:
        _require_separator(_columns(content, separator), separator, path)
        return pl.read_csv(content, separator=separator, **types)
    except pl.exceptions.PolarsError:
        _refuse_encoding(content, path, lines_before)
        _refuse_long_row(content, separator, path, lines_before)
        _refuse_open_quote(content, path, lines_before)
        raise


def require_rows(frame: pl.DataFrame, path: str | os.PathLike[str]) -> None:
    """Raise DataError for a file that has nothing but the names of columns."""
    if frame.is_empty():
        raise DataError(f"{path}: there are no rows in it below the names of the columns; expected a row for each item")


def _columns(content: bytes, separator: str) -> list[str]:
    """Return the fields of the first line that is not empty."""
    lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", errors="replace", newline="")
    try:
        names = next(filter(None, csv.reader(lines, delimiter=separator)), [])
    except csv.Error:
        return []
    # The reader would rename the second of two columns; those without a name are indexes, or empty.
    if (twice := repeated([name for name in names if name])) is not None:
        raise ValueError(f"the column {quoted(twice)} occurs twice in the first line, which names the columns")
    return names


def _require_separator(columns: Sequence[str], separator: str, path: str | os.PathLike[str]) -> None:
    """Raise DataError for a first line without the separator, but with another one, or with spaces after it."""
    expected = _SEPARATORS[separator]
    if len(columns) == 1:
        found = max(_SEPARATORS, key=columns[0].count)
        if found not in columns[0]:
            found = max(_OTHERS, key=columns[0].count)
        if found in columns[0]:
            other = {"\t": ".tsv", ",": ".csv"}.get(found)
            raise DataError(
                f"{path}, line 1: found {(_SEPARATORS | _OTHERS)[found]} between the columns "
                f"({shortened(columns[0], LONGEST_VALUE)!r}), expected {expected}: write the file with {expected} and "
                "decimal points" + (f", or name it {other}" if other else "")
            )
    if len(columns) > 1 and all(name.startswith(" ") for name in columns[1:]):
        raise DataError(
            f"{path}, line 1: found spaces after the {expected} ({quoted(columns[1])}), expected none: remove them"
        )


def _refuse_encoding(content: bytes, path: str | os.PathLike[str], lines_before: int) -> None:
    """Raise DataError for the first byte that is not UTF-8."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = lines_before + content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: found the byte 0x{content[error.start]:02x}, expected text in UTF-8: save the "
            "file as UTF-8, or convert it by iconv"
        ) from None


def _refuse_long_row(content: bytes, separator: str, path: str | os.PathLike[str], lines_before: int) -> None:
    """Raise DataError for the first row that has more fields than there are columns."""
    rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=separator)
    try:
        width = len(next(rows, []))
        for row in rows:
            if len(row) > width:
                line = lines_before + rows.line_num
                raise DataError(
                    f"{path}, line {line}: found {len(row)} fields, expected {width} as in the first line: "
                    f"write numbers with a decimal point, and put names with {_SEPARATORS[separator]} in double quotes"
                )
    except csv.Error:
        return


def _refuse_open_quote(content: bytes, path: str | os.PathLike[str], lines_before: int) -> None:
    """Raise DataError for a double quote that nothing closes."""
    if content.count(b'"') % 2:
        line = lines_before + content.count(b"\n", 0, end_of_rows(content)) + 1
        raise DataError(
            f"{path}, line {line}: found a double quote that nothing closes; expected an even number in every row: "
            "close it, or remove it"
        )


def spaced_columns(frame: pl.DataFrame) -> list[str]:
    """Return the columns, besides the first, all of whose values begin with a space."""
    texts = [column for column in frame.get_columns()[1:] if column.dtype == pl.String]
    return [column.name for column in texts if bool(column.str.starts_with(" ").fill_null(False).all())]


def refuse_spaces(spaced: Sequence[str], frame: pl.DataFrame, path: str | os.PathLike[str]) -> None:
    """Raise DataError for the first of such columns; `frame` has the first row of the file."""
    for name in spaced:
        raise DataError(
            f"{path}, line 2: column {name!r} holds {quoted(frame[name][0])}, and begins with a space in all lines; "
            "expected no spaces after the separators: remove them"
        )
