"""Read and write TREC runs (`topic Q0 item rank score tag`) and qrels (`topic iteration item relevance`).

Regular files are parsed at once by polars. All others are parsed line by line, with the same columns or an error that
names line and token.
"""

import gzip
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound.io.grouping import by_topic, name_column, require_distinct_items, topic_column
from rankbound.io.intents import qrels_by_intent, rows_of_intents
from rankbound.io.judged import Names, Qrels, Run, may_be_rounded, refuse_rounded, whole_scores
from rankbound.io.unpacked import read_unpacked
from rankbound.texts import LARGEST_EXACT, quoted

# Python's own parsers also take `1_0`, and digits of other scripts.
_FINITE = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)


@dataclass(frozen=True)
class _Layout:
    """The fields of a line, and the conversion of its numeric field."""

    fields: Mapping[str, type[pl.DataType]]
    number: str
    convert: Callable[[str], float | str]
    expected: str

    def __str__(self) -> str:
        return " ".join(self.fields)


def _finite(token: str) -> float:
    value = float(token) if _FINITE.fullmatch(token) else math.nan
    if not math.isfinite(value):
        raise ValueError(token)
    return value


def _whole(token: str) -> int:
    value = int(token) if _WHOLE.fullmatch(token) else math.inf
    if abs(value) > LARGEST_EXACT:
        raise ValueError(token)
    return int(value)


_RUN = _Layout(
    {"topic": pl.String, "Q0": pl.String, "item": pl.String, "rank": pl.String, "score": pl.Float64, "tag": pl.String},
    "score",
    _finite,
    "a finite number",
)
# A run whose scores stay as they are written.
_TEXT = _Layout({**_RUN.fields, "score": pl.String}, "score", lambda token: token, "text")
_QRELS = _Layout(
    {"topic": pl.String, "iteration": pl.String, "item": pl.String, "relevance": pl.Int64},
    "relevance",
    _whole,
    "a whole number within 2^53",
)


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a run; as in trec_eval, scores decide the order and ranks are ignored. DataError names a malformed line."""
    topics, offsets, frame = _grouped(path, _RUN)
    scores = frame["score"].to_numpy()
    if may_be_rounded(frame["topic"], scores):
        exact = _parse(read_unpacked(path), _TEXT, str(path))
        try:
            refuse_rounded(whole_scores(exact["topic"], exact["item"], exact["score"]))
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
    return Run(topics=topics, items=frame["item"], scores=scores, offsets=offsets)


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """Read qrels; negative relevance becomes 0, marked as unjudged. DataError names a malformed line."""
    topics, offsets, frame = _grouped(path, _QRELS)
    relevance = frame["relevance"].to_numpy()
    unjudged = relevance < 0
    return Qrels(
        topics=topics,
        items=frame["item"],
        relevance=relevance.clip(min=0),
        offsets=offsets,
        unjudged=unjudged if unjudged.any() else None,
    )


def read_intents(path: str | os.PathLike[str]) -> Qrels:
    """Read judgements by intent, which the second field of a line names. DataError names a malformed line."""
    return qrels_by_intent(_rows(path, _QRELS).rename({"iteration": "intent"}), str(path))


def write_run(path: str | os.PathLike[str], run: Run, tag: str = "rankbound") -> None:
    """Write a run, each topic in descending order of scores; scores keep all their digits."""
    if not np.isfinite(run.scores).all():
        raise DataError(f"{path}: found the score {run.scores[~np.isfinite(run.scores)][0]}, expected finite numbers")
    sizes = np.diff(run.offsets)
    topic = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-run.scores.astype(np.float64), topic))
    rank = np.arange(len(order)) - np.repeat(run.offsets[:-1], sizes) + 1
    columns = {
        "topic": _names(run.topics, "topics", path)[topic],
        "Q0": pl.repeat("Q0", len(order), eager=True),
        "item": _names(run.items, "items", path)[order],
        "rank": pl.Series(rank),
        "score": pl.Series(run.scores[order]),
        "tag": pl.repeat(_names([tag], "tag", path)[0], len(order), eager=True),
    }
    _write(path, columns)


def write_qrels(path: str | os.PathLike[str], qrels: Qrels) -> None:
    """Write qrels; relevance labels must be whole numbers, as in trec_eval. Unjudged items have relevance -1."""
    rows = _judged_rows(qrels) if qrels.intents is None else rows_of_intents(qrels, qrels.intents)
    relevance = rows["relevance"].to_numpy()
    whole = relevance.astype(np.int64)
    if (whole != relevance).any():
        raise DataError(f"{path}: found relevance {relevance[(whole != relevance).argmax()]}, expected whole numbers")
    columns = {
        "topic": _names(rows["topic"], "topics", path),
        "iteration": _names(rows["intent"], "intents", path),
        "item": _names(rows["item"], "items", path),
        "relevance": pl.Series(whole),
    }
    _write(path, columns)


def _judged_rows(qrels: Qrels) -> pl.DataFrame:
    relevance = qrels.relevance if qrels.unjudged is None else np.where(qrels.unjudged, -1, qrels.relevance)
    topic = topic_column(qrels.topics, qrels.offsets)
    return pl.DataFrame({"topic": topic, "intent": "0", "item": name_column(qrels.items), "relevance": relevance})


def _rows(path: str | os.PathLike[str], layout: _Layout) -> pl.DataFrame:
    frame = _parse(read_unpacked(path), layout, str(path))
    if frame.is_empty():
        raise DataError(f"{path}: there are no lines in it; expected lines of `{layout}`")
    return frame


def _grouped(path: str | os.PathLike[str], layout: _Layout) -> tuple[list[str], Any, pl.DataFrame]:
    frame = _rows(path, layout)
    _require_distinct_items(frame, layout, str(path))
    topics, offsets, order = by_topic(frame["topic"])
    return topics, offsets, frame if order is None else frame[order]


def _require_distinct_items(frame: pl.DataFrame, layout: _Layout, where: str) -> None:
    try:
        require_distinct_items(frame, where)
    except DataError as error:
        if layout is not _QRELS or frame.select(pl.struct("topic", "iteration", "item").is_duplicated().any()).item():
            raise
        raise DataError(
            f"{error}. Its lines differ in their second field: if that is the intent, read the file with intents=True, "
            "as metrics of intents do, such as alpha_nDCG@20"
        ) from None


def _parse(data: bytes, layout: _Layout, where: str) -> pl.DataFrame:
    separator = "\t" if b"\t" in data[: data.find(b"\n") + 1] else " "
    frame = _parse_regular(data, layout, separator)
    if frame is None:
        tidied = re.sub(rb"^ | (?=\n)| $|^\n", b"", re.sub(rb"[ \t\r]+", b" ", data), flags=re.MULTILINE)
        frame = _parse_regular(tidied, layout, " ")
    return _parse_lines(data, layout, where) if frame is None else frame


def _parse_regular(data: bytes, layout: _Layout, separator: str) -> pl.DataFrame | None:
    """Parse all lines at once; None if any of them is irregular."""
    if not data or b"\r" in data:
        return None
    try:
        frame = pl.read_csv(data, has_header=False, separator=separator, quote_char=None, schema=dict(layout.fields))
    except (pl.exceptions.PolarsError, OSError):
        # OSError: text that begins like compressed data, which polars tries to decompress.
        return None
    if any(frame[name].null_count() for name in frame.columns):
        return None
    number = frame[layout.number]
    if number.dtype == pl.Int64:
        regular = bool(number.is_between(-LARGEST_EXACT, LARGEST_EXACT).all())
    else:
        regular = number.dtype == pl.String or bool(number.is_finite().all())
    return frame if regular else None


def _parse_lines(data: bytes, layout: _Layout, where: str) -> pl.DataFrame:
    rows = []
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
        tokens = line.split()
        if not tokens:
            continue
        if len(tokens) != len(layout.fields):
            raise DataError(f"{where}, line {number}: found {len(tokens)} fields, expected {layout}: {line[:80]!r}")
        token = tokens[list(layout.fields).index(layout.number)]
        try:
            value = layout.convert(token)
        except ValueError:
            raise DataError(
                f"{where}, line {number}: found {layout.number} {quoted(token)}, expected {layout.expected}"
            ) from None
        row: dict[str, Any] = dict(zip(layout.fields, tokens, strict=True))
        rows.append({**row, layout.number: value})
    return pl.DataFrame(rows, schema=dict(layout.fields))


def _names(names: Names, what: str, path: str | os.PathLike[str]) -> pl.Series:
    """Return names as a column of text; DataError for an empty name or one with white space, which ends a field."""
    column = name_column(names)
    bad = column.filter(column.str.contains(r"\s") | (column == ""))
    if len(bad):
        raise DataError(f"{path}: {what} holds {bad[0]!r}; a name in a TREC file has no white space and is not empty")
    return column


def _write(path: str | os.PathLike[str], columns: Mapping[str, pl.Series]) -> None:
    with atomic_path(path) as temporary:
        text = pl.DataFrame(columns).write_csv(separator=" ", include_header=False, quote_style="never")
        data = text.encode()
        temporary.write_bytes(gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)
