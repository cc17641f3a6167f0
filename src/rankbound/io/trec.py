"""Read and write TREC runs (`topic Q0 item rank score tag`) and qrels (`topic iteration item relevance`).

Regular files are parsed at once by polars. All others are parsed line by line, with the same columns or an error that
names line and token.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rankbound.errors import DataError
from rankbound.io.atomic import File, atomic_path
from rankbound.io.judged import Names, Qrels, Run
from rankbound.io.table_columns import (
    grouped,
    name_column,
    qrels_by_intent,
    qrels_of,
    require_distinct_items,
    rows_of,
    rows_of_intents,
    run_of,
)
from rankbound.io.text_files import read_unpacked, write_rows
from rankbound.texts import LARGEST_EXACT, quoted


@dataclass(frozen=True)
class _Layout:
    """The fields of a line, and the type and largest magnitude of its number."""

    fields: Sequence[str]
    number: str
    type: type[pl.DataType]
    largest: float
    expected: str


_RUN = _Layout(
    ("topic", "Q0", "item", "rank", "score", "tag"), "score", pl.Float64, sys.float_info.max, "a finite number"
)
_QRELS = _Layout(
    ("topic", "iteration", "item", "relevance"), "relevance", pl.Int64, LARGEST_EXACT, "a whole number within 2^53"
)


def read_run(path: File) -> Run:
    """Read a run; as in trec_eval, scores decide the order and ranks are ignored. DataError names a malformed line."""
    rows = _rows(path, _RUN)
    return run_of(rows["topic"], rows["item"], rows["number"].to_numpy(), str(path), lambda: rows["score"])


def read_qrels(path: File) -> Qrels:
    """Read qrels; negative relevance becomes 0, marked as unjudged. DataError names a malformed line."""
    rows = _rows(path, _QRELS)
    try:
        require_distinct_items(rows, str(path))
    except DataError as error:
        if rows.select(pl.struct("topic", "iteration", "item").is_duplicated().any()).item():
            raise
        raise DataError(
            f"{error}. Its lines differ in their second field: if that is the intent, read the file with intents=True, "
            "as metrics of intents do, such as alpha_nDCG@20"
        ) from None
    return qrels_of(grouped(rows.select("topic", "item", relevance="number")))


def read_intents(path: File) -> Qrels:
    """Read judgements by intent, which the second field of a line names. DataError names a malformed line."""
    rows = _rows(path, _QRELS).select("topic", "item", intent="iteration", relevance="number")
    return qrels_by_intent(rows, str(path))


def write_run(path: File, run: Run, tag: str = "rankbound") -> None:
    """Write a run, each topic in descending order of scores; scores keep all their digits."""
    if not np.isfinite(run.scores).all():
        raise DataError(f"{path}: found the score {run.scores[~np.isfinite(run.scores)][0]}, expected finite numbers")
    sizes = np.diff(run.offsets)
    topic = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-run.scores.astype(np.float64), topic))
    columns = {
        "topic": _names(run.topics, "topics", path)[topic],
        "Q0": pl.repeat("Q0", len(order), eager=True),
        "item": _names(run.items, "items", path)[order],
        "rank": pl.Series(np.arange(len(order)) - np.repeat(run.offsets[:-1], sizes) + 1),
        "score": pl.Series(run.scores[order]),
        "tag": pl.repeat(_names([tag], "tag", path)[0], len(order), eager=True),
    }
    _write(path, columns)


def write_qrels(path: File, qrels: Qrels) -> None:
    """Write qrels; relevance labels must be whole numbers, as in trec_eval. Unjudged items have relevance -1."""
    if qrels.intents is None:
        relevance = qrels.relevance if qrels.unjudged is None else np.where(qrels.unjudged, -1, qrels.relevance)
        rows = rows_of(qrels, relevance=relevance).with_columns(intent=pl.lit("0"))
    else:
        rows = rows_of_intents(qrels, qrels.intents)
    whole = rows["relevance"].cast(pl.Int64)
    for broken in rows["relevance"].filter(whole != rows["relevance"]).head(1):
        raise DataError(f"{path}: found relevance {broken}, expected whole numbers")
    fields = {name: _names(rows[name], f"{name}s", path) for name in ("topic", "intent", "item")}
    _write(path, {**fields, "relevance": whole})


def _rows(path: File, layout: _Layout) -> pl.DataFrame:
    """Return the fields of the lines, all text, and the column `number`: the score or relevance as a number."""
    data = read_unpacked(path)
    separator = "\t" if b"\t" in data[: data.find(b"\n") + 1] else " "
    frame = _regular(data, layout, separator)
    if frame is None:
        tidied = re.sub(rb"^ | (?=\n)| $|^\n", b"", re.sub(rb"[ \t\r]+", b" ", data), flags=re.MULTILINE)
        frame = _regular(tidied, layout, " ")
    frame = _line_by_line(data, layout, path) if frame is None else frame
    if frame.is_empty():
        raise DataError(f"{path}: there are no lines in it; expected lines of `{' '.join(layout.fields)}`")
    return frame


def _regular(data: bytes, layout: _Layout, separator: str) -> pl.DataFrame | None:
    """Parse all lines at once; None if any of them is irregular."""
    if not data or b"\r" in data:
        return None
    text = dict.fromkeys(layout.fields, pl.String)
    try:
        frame = pl.read_csv(data, has_header=False, separator=separator, quote_char=None, schema=text)
    except (pl.exceptions.PolarsError, OSError):
        # OSError: text that begins like compressed data, which polars tries to decompress.
        return None
    frame = _with_number(frame, layout)
    return None if any(column.null_count() for column in frame.get_columns()) else frame


def _line_by_line(data: bytes, layout: _Layout, path: File) -> pl.DataFrame:
    rows: dict[int, list[str]] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
        if tokens := line.split():
            rows[number] = tokens
            if len(tokens) != len(layout.fields):
                expected = " ".join(layout.fields)
                raise DataError(
                    f"{path}, line {number}: found {len(tokens)} fields, expected {expected}: {line[:80]!r}"
                )
    text = dict.fromkeys(layout.fields, pl.String)
    frame = _with_number(pl.DataFrame(list(rows.values()), schema=text, orient="row"), layout)
    for row in frame["number"].is_null().arg_true().head(1):
        token = quoted(frame[layout.number][row])
        raise DataError(f"{path}, line {list(rows)[row]}: found {layout.number} {token}, expected {layout.expected}")
    return frame


def _with_number(frame: pl.DataFrame, layout: _Layout) -> pl.DataFrame:
    """Add the column `number`, null where the text is none within limits."""
    number = pl.col(layout.number).cast(layout.type, strict=False)
    return frame.with_columns(number=pl.when(number.is_between(-layout.largest, layout.largest)).then(number))


def _names(names: Names, what: str, path: File) -> pl.Series:
    """Return names as a column of text; DataError for an empty name or one with white space, which ends a field."""
    column = name_column(names)
    bad = column.filter(column.str.contains(r"\s") | (column == ""))
    if len(bad):
        raise DataError(f"{path}: {what} holds {bad[0]!r}; a name in a TREC file has no white space and is not empty")
    return column


def _write(path: File, columns: Mapping[str, pl.Series]) -> None:
    with atomic_path(path) as temporary:
        write_rows(temporary, pl.DataFrame(columns), separator=" ", include_header=False, quote_style="never")
