"""Read tables with a row per item of each topic into memory: CSV, parquet, or a data frame."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from rankbound.errors import DataError
from rankbound.io.csv_text import read_csv
from rankbound.io.grouping import by_topic, require_distinct_items, topic_column
from rankbound.io.intents import qrels_by_intent
from rankbound.io.judged import JudgedLists, Qrels, Run, may_be_rounded, refuse_rounded, whole_scores
from rankbound.io.parquet import check_memory
from rankbound.io.table_columns import (
    Columns,
    Notation,
    Shadows,
    Table,
    chosen_names,
    item_names,
    left_out_as,
    matrix,
    numbers,
    relevance_of,
    require_roles,
    text,
    told_apart,
)
from rankbound.texts import shortened

_LONGEST_REASON = 300
_DAMAGE = (OSError, ValueError, MemoryError, pa.ArrowException, pl.exceptions.PolarsError)


def read_judged(
    source: Any, columns: Columns, features: Sequence[str] | None = None, labelled: bool = True
) -> JudgedLists:
    """Read a table's rows as judged lists; by default, the columns that `left_out_as` leaves are features.

    Unless `labelled`, a table may lack relevance labels, which are then 0. DataError names line and column.
    """
    table = _read(source, columns)
    require_roles(table, columns, labelled)
    topics, offsets, order = by_topic(text(table, columns.topic))
    names, left_out = (
        _feature_names(table, columns) if features is None else (chosen_names(table, columns, features), {})
    )
    items, relevance = item_names(table, columns), relevance_of(table, columns, labelled)
    values = matrix(table, names)
    # Chosen features are taken as they are.
    shadows = Shadows(names if features is None else (), len(values))
    shadows.read_rows(table, relevance)
    if order is not None:
        items, relevance, values = items[order], relevance[order], values[order]
    pairs = pl.DataFrame({"topic": topic_column(topics, offsets), "item": items})
    require_distinct_items(
        pairs, table.where, rows=lambda places: table.rows(places if order is None else order[places])
    )
    shadows.read_topics(values, offsets)
    return JudgedLists(
        topics=topics,
        items=items,
        relevance=relevance,
        offsets=offsets,
        features=values,
        feature_names=names,
        left_out=left_out,
        doubtful=shadows.found(),
    )


def read_intents(source: Any, columns: Columns) -> Qrels:
    """Read judgements by intent from a table whose column `intent` names the intent."""
    table = _read(source, columns)
    rows = {
        "topic": text(table, columns.topic),
        "intent": text(table, "intent"),
        "item": text(table, columns.items),
        "relevance": relevance_of(table, columns),
    }
    return qrels_by_intent(pl.DataFrame(rows), table.where)


def read_scores(source: Any) -> Run:
    """Read a run from a table with the columns topic, item and score."""
    table = _read(source, Columns())
    topics, offsets, order = by_topic(text(table, "topic"))
    items, scores = text(table, "item"), numbers(table, "score")
    if order is not None:
        items, scores = items[order], scores[order]
    pairs = pl.DataFrame({"topic": topic_column(topics, offsets), "item": items})
    require_distinct_items(pairs, table.where)
    try:
        if _is_text(source) and scores.dtype.kind == "f" and may_be_rounded(pairs["topic"], scores):
            # Beside fractions, whole numbers are read as doubles.
            exact = text(_read(source, Columns(), "score"), "score")
            refuse_rounded(whole_scores(text(table, "topic"), text(table, "item"), exact))
        return Run(topics=topics, items=items, scores=scores, offsets=offsets)
    except DataError as error:
        raise DataError(f"{table.where}: {error}") from None


@contextmanager
def explained_damage(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn what libraries raise for damaged files of that kind into a DataError with the reason in short."""
    try:
        yield
    except (*_DAMAGE, pl.exceptions.PanicException) as error:
        reason = shortened(str(error).split("\n")[0], _LONGEST_REASON)
        raise DataError(f"{path}: not a readable {kind} file ({reason})") from error


def _is_text(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) and Path(source).suffix != ".parquet"


def _read(source: Any, columns: Columns, *texts: str) -> Table:
    """Return the table of a file or a frame; the columns `texts` of CSV text stay as they are written."""
    if not isinstance(source, str | os.PathLike):
        return Table(_frame_of(source), "table", "row", 0)
    if Path(source).suffix == ".parquet":
        with explained_damage(source, "parquet"):
            return Table(_read_parquet(Path(source)), str(source), "row", 1)
    with explained_damage(source, "CSV"):
        # The first row is line 2, below the names.
        return Table(read_csv(source, (columns.topic, columns.items, *texts)), str(source), "line", 2)


def _read_parquet(path: Path) -> pl.DataFrame:
    # Damaged files raise an error in Arrow's reader, but a panic in that of polars.
    with pq.ParquetFile(path) as file:
        check_memory(file, path)
        table = file.read()
    # Text that is not UTF-8 would panic as well.
    table.validate(full=True)
    require_distinct_names(table.schema)
    return polars_of(table)


def polars_of(table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """Return Arrow's columns, whose names are distinct."""
    return _renamed(cast("pl.DataFrame", pl.from_arrow(table)), table.schema.names)


def _renamed(frame: pl.DataFrame, names: Iterable[Any]) -> pl.DataFrame:
    """Give columns without a name their empty one again, instead of that by polars."""
    frame.columns = [now if name else "" for now, name in zip(frame.columns, map(str, names), strict=True)]
    return frame


def require_distinct_names(schema: pa.Schema) -> None:
    """Raise ValueError for two columns of one name."""
    if len(set(schema.names)) < len(schema.names):
        raise ValueError("a column's name occurs twice")


def _frame_of(source: Any) -> pl.DataFrame:
    try:
        if isinstance(source, pa.Table | pa.RecordBatch):
            require_distinct_names(source.schema)
            return polars_of(source)
        frame = pl.DataFrame(source)
        return _renamed(frame, getattr(source, "columns", frame.columns))
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(f"source: found {type(source).__name__}, expected a path or a data frame ({error})") from error


def _feature_names(table: Table, columns: Columns) -> tuple[list[str], dict[str, str]]:
    """Return the features, and the columns that are left out with what they are."""
    others = [column for column in table.frame.get_columns() if column.name not in columns.roles]
    return told_apart(
        {column.name: left_out_as(column.name, column.dtype, Notation().read(column)) for column in others}
    )
