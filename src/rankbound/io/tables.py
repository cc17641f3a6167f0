"""Tables with a row per item of each topic: CSV, parquet, and data frames; read whole or in a stream, and written.

In a stream, memory is that of batches of rows, whatever the file's size. The file is read twice: first for the topics
and the types of the columns, then for the lists. If the rows of a topic are not adjacent, the rows are sorted outside
memory: every batch is sorted and kept in a temporary Arrow file, from which the topics are gathered, some at a time.
Beyond batches, memory grows with the names of the topics, the largest list and the longest row.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound.errors import DataError
from rankbound.io import text_files
from rankbound.io.atomic import File, atomic_path
from rankbound.io.judged import JudgedLists, Qrels, Run, no_features, repeated
from rankbound.io.models import check_memory, damage, memory_bytes
from rankbound.io.packed import vectors, whole_topics
from rankbound.io.table_columns import (
    WAYS,
    WAYS_OF_LABELS,
    Columns,
    Table,
    by_topic,
    named,
    notations,
    qrels_by_intent,
    refuse,
    require_distinct_items,
    require_ranks,
    rows_of,
    rows_of_judgements,
    run_of,
    told_apart,
)
from rankbound.lazy import pa, pq
from rankbound.texts import LONGEST_VALUE, quoted, shortened

BATCH_BYTES = 2**23
"""Bytes of a batch of rows of a parquet file, at 8 for a value."""

_VALUE_BYTES = 8
_PAGE_BYTES = 2**16
"""Bytes of a column that are read ahead."""

_FIRST_LINE = 2
"""The first row of text is line 2, below the names."""

_LONGEST_REASON = 300

_WIDER: Mapping[frozenset[pl.DataType], pl.DataType] = {
    frozenset((pl.Int64(), pl.Float64())): pl.Float64(),
    frozenset((pl.Int64(), pl.Int128())): pl.Int128(),
}
"""The types of columns whose values are of two types; those of other pairs are text."""

_LOOSE = (b"+", b" ", b".e", b".E")
"""What occurs in numbers that polars parses, but takes for texts when it infers types: `+5`, ` 5`, `5.e3`."""

_LARGEST_WHOLE = 2**63
"""Whole numbers beyond are of another type."""

_FEWEST_ROWS = 8
"""Fewer rows are in some order, and have some labels, by chance."""

_FIRST_ROWS = 1024
"""Rows at the beginning of a batch that settle most columns."""


def read_judged(source: Any, columns: Columns) -> JudgedLists:
    """Read a table's rows as judged lists; unless features are chosen, they are the columns that `told_apart` leaves.

    DataError names line and column.
    """
    table, columns = _read(source, columns)
    table.require(columns)
    topics, offsets, order = by_topic(table.text(columns.topic))
    names, left_out = list(columns.features or ()), dict[str, str]()
    if columns.features is None:
        written = table.written or {column.name: notations(column) for column in table.frame.get_columns()}
        others, by_type = (*columns.roles, *columns.exclude), columns.categorical is None
        names, left_out = told_apart(table.frame.schema, written, others, columns.categorical or (), by_type)
    items, relevance = table.item_names(columns), table.relevance(columns)
    values, categories = table.matrix(names, table.categorical(columns, names), columns.keep_missing)
    weights, row_numbers = table.weights(columns.weights) if columns.weights else None, table.row_numbers()
    # Chosen features are taken as they are.
    shadows = Shadows(names if columns.features is None else (), categories)
    shadows.read_rows(table, relevance)
    list_weights = table.weights_of_topics(columns, topics, offsets, order)
    if order is not None:
        items, relevance, values, row_numbers = items[order], relevance[order], values[order], row_numbers[order]
        weights = weights if weights is None else weights[order]
    shadows.read_topics(values, offsets)
    lists = JudgedLists(
        topics=topics,
        items=items,
        relevance=relevance.clip(min=0) if columns.judgements else relevance,
        offsets=offsets,
        unjudged=relevance < 0 if columns.judgements and (relevance < 0).any() else None,
        features=values,
        feature_names=names,
        weights=weights,
        list_weights=list_weights,
        categories=categories,
        left_out=left_out,
        doubtful=shadows.found(),
    )
    if not lists.has_distinct_keys:
        require_distinct_items(rows_of(lists), table.where, None, table.row_name, row_numbers)
    return lists


def read_features(
    source: Any, names: Sequence[str], categorical: Sequence[str], keep_missing: bool
) -> tuple[npt.NDArray[np.float32], dict[str, list[str]]]:
    """Return features of a table's rows, in their order, and categories, as `matrix`; other columns are not needed.

    ValueError for a column that is not there; DataError for a value that is none of a feature.
    """
    table, _ = _read(source, Columns(categorical=categorical), rows=True)
    for name in names:
        if name not in table.frame.columns:
            known = shortened(", ".join(names), LONGEST_VALUE)
            raise ValueError(
                f"features: the {table.where} has no column {name!r}; expected columns with the names of the ranker's "
                f"features ({known}), or an array with columns in that order"
            )
    return table.matrix(names, categorical, keep_missing)


def read_moments(source: Any, columns: Columns, name: str) -> pl.Series:
    """Read a table's column of times, numbers or datetimes, a row for each item of `read_judged`, in that order."""
    table, columns = _read(source, columns)
    moments = table.moments(name)
    _, _, order = by_topic(table.text(columns.topic))
    return moments if order is None else moments[order]


def read_intents(source: Any, columns: Columns) -> Qrels:
    """Read judgements by intent from a table whose column `intent` names the intent."""
    table, columns = _read(source, columns)
    names = table.frame.columns
    intent = "intent" if "intent" in names else named("intent", names, table.where) or "intent"
    roles = {"topic": columns.topic, "intent": intent, "item": columns.items}
    rows = pl.DataFrame({role: table.text(name) for role, name in roles.items()})
    return qrels_by_intent(rows.with_columns(relevance=table.relevance(columns)), table.where)


def read_scores(source: Any) -> Run:
    """Read a run from a table with the columns topic, item and score, or rank, from 1 down the ranking."""
    table, columns = _read(source, Columns())
    names = table.frame.columns
    score = "score" if "score" in names else named("score", names, table.where) or "score"
    if is_ranked := score not in names and "rank" in names:
        score = "rank"
    topic, item, scores = table.text(columns.topic), table.text(columns.items), table.numbers(score)
    if is_ranked:
        return run_of(topic, item, -require_ranks(scores, table.where), table.where)

    def texts() -> pl.Series:
        return _read(source, Columns(), score)[0].text(score)

    # Beside fractions, whole numbers are read as doubles.
    is_written = table.row_name == "line" and scores.dtype.kind == "f"
    return run_of(topic, item, scores, table.where, texts if is_written else None)


def has_lists(path: File) -> bool:
    """Return whether a table is parquet with columns of lists, a row for each topic, which is read whole."""
    if Path(path).suffix != ".parquet":
        return False
    with _explained(path, "parquet"):
        schema = _polars_of(pq.read_schema(path).empty_table()).schema
    columns = Columns().found_in(list(schema), str(path))
    return any(isinstance(schema.get(name), pl.List) for name in (columns.items, columns.relevance))


def write(path: File, lists: Run | Qrels) -> None:
    """Write a table with the columns topic, item and a run's score, in its order, or relevance, and intent if known."""
    frame = rows_of(lists, score=lists.scores) if isinstance(lists, Run) else rows_of_judgements(lists)
    if text_files.plain_name(path) != Path(path).name and text_files.plain_name(path).endswith(".parquet"):
        raise DataError(f"{path}: parquet is already compressed; expected a name that ends in .parquet")
    with atomic_path(path) as temporary:
        if temporary.suffix == ".parquet":
            frame.write_parquet(temporary, compression="zstd")
        else:
            text_files.write_rows(temporary, frame, separator=text_files.separator_of(path))


@contextmanager
def _explained(path: File, kind: str) -> Iterator[None]:
    """Turn what libraries raise for damaged files of that kind into a DataError with the reason in short."""
    try:
        yield
    # A panic is no exception of Python's for types.
    except (*damage(), pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:  # type: ignore[misc]
        reason = shortened(str(error).split("\n")[0], _LONGEST_REASON)
        raise DataError(f"{path}: not a readable {kind} file ({reason})") from error


def _read(source: Any, columns: Columns, *texts: str, rows: bool = False) -> tuple[Table, Columns]:
    """Return the table of a file or a frame, and its columns; the columns `texts` of CSV text stay as they are written.

    Columns of lists, a row for each topic, become a row for each item. Bare `rows` have no topics.
    """
    columns_of = (lambda names, where: columns) if rows else columns.found_in
    is_dictionary = isinstance(source, Mapping) and not hasattr(source, "column_names") and not rows
    if is_dictionary and columns_of(list(map(str, source)), "table").topic not in source:
        raise DataError(
            "source: found a dictionary without a column of topics, expected {topic: {item: number}}, or columns such "
            "as topic and item by their names"
        )
    if not isinstance(source, str | os.PathLike):
        table = Table(_frame_of(source), "table", "row", 0)
    elif Path(source).suffix == ".parquet":
        # Damaged files raise an error in Arrow's reader, but a panic in that of polars.
        with _explained(source, "parquet"), pq.ParquetFile(source) as file:
            check_memory(file, source)
            whole = file.read()
            # Text that is not UTF-8 would panic as well.
            whole.validate(full=True)
            table = Table(_polars_of(whole), str(source), "row", 1)
    else:
        with _explained(source, "CSV"):
            own = columns_of(text_files.first_fields(source), str(source))
        csv = _Csv(source, own, *texts)
        frames = [table.frame for table in csv.look()]
        if any(frame.schema != csv.types for frame in frames):
            frames = [table.frame for table in csv.batches(list(csv.types))]
        return Table(pl.concat(frames, rechunk=True), csv.where, csv.row_name, _FIRST_LINE, csv.written), own
    own, schema = columns_of(table.frame.columns, table.where), table.frame.schema
    lists = [name for name, dtype in schema.items() if isinstance(dtype, pl.List)]
    if any(name in lists for name in (own.items, own.relevance)):
        sizes = {name: table.frame[name].list.len().fill_null(0) for name in lists}
        for name in lists:
            if (wrong := (sizes[name] != sizes[lists[0]])).any():
                row = int(wrong.arg_max() or 0)
                raise DataError(
                    f"{table.row(row)}: column {lists[0]!r} holds {sizes[lists[0]][row]} entries, column {name!r} "
                    f"{sizes[name][row]}; expected one for each item in all lists of a row"
                )
        table = replace(table, frame=table.frame.filter(sizes[lists[0]] > 0).explode(lists))
    return table, own


def _frame_of(source: Any) -> pl.DataFrame:
    """Return a frame or table of any library, or rows that are dictionaries or named tuples, as polars' frame."""
    # Of Hugging Face, as its rows are chosen and ordered.
    if hasattr(source, "with_format") and hasattr(source, "column_names"):
        parts = source.column_names
        if isinstance(parts, dict):
            names = ", ".join(map(repr, parts))
            raise DataError(f"source: found {type(source).__name__} of the splits {names}, expected one of them")
        source = source.with_format("arrow")[:] if hasattr(source, "__len__") else list(source)
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    # An index of pandas whose names are those of columns, as after `set_index(["topic", "item"])`.
    levels = [name for name in getattr(getattr(source, "index", None), "names", ()) if isinstance(name, str)]
    if levels := [name for name in levels if any(named(role, [name], "table") for role in ("topic", "item"))]:
        source = source.reset_index(levels)
    try:
        if isinstance(source, pa.Table | pa.RecordBatch):
            return _polars_of(source)
        frame = pl.DataFrame(source, infer_schema_length=None)
        return _renamed(frame, getattr(source, "columns", frame.columns))
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        _refuse_mixed(source)
        reason = shortened(str(error).split("\n")[0], _LONGEST_REASON)
        raise DataError(f"source: found {type(source).__name__}, expected a path or a data frame ({reason})") from error


def _refuse_mixed(source: Any) -> None:
    """Raise DataError for the first column whose values are of several types, which no column of a table may have."""
    is_pandas = hasattr(source, "iloc")
    for name in source.columns if is_pandas else source if isinstance(source, Mapping) else ():
        values = list(source[name]) if not isinstance(source[name], str) and hasattr(source[name], "__len__") else []
        # In pandas, NaN stands for a missing value of any type.
        known = [value for value in values if value is not None and not (is_pandas and value != value)]
        kinds = dict.fromkeys(map(type, known))
        if len({"number" if issubclass(kind, Real | np.bool_) else kind for kind in kinds}) > 1:
            rows = [next(row for row, value in enumerate(values) if type(value) is kind) for kind in [*kinds][:2]]
            a, b = (f"{type(values[row]).__name__} {quoted(values[row])} in row {row}" for row in rows)
            raise DataError(
                f"table: column {str(name)!r} holds values of several types, such as {a} and {b}; expected one: "
                "convert the column, in pandas by astype(str) or pandas.to_numeric"
            )


def _polars_of(table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """Return Arrow's columns; ValueError for two of one name."""
    names = table.schema.names
    if repeated(names) is not None:
        raise ValueError("a column's name occurs twice")
    return _renamed(cast("pl.DataFrame", pl.from_arrow(table)), names)


def _renamed(frame: pl.DataFrame, names: Iterable[Any]) -> pl.DataFrame:
    """Give columns without a name their empty one again, instead of that by polars."""
    frame.columns = [now if name else "" for now, name in zip(frame.columns, map(str, names), strict=True)]
    return frame


class Shadows:
    """Features that are the order of the rows, or the relevance label in other units, found in one pass over the rows.

    By such a feature, a ranker may look much better than it is. Whole numbers number the rows if they rise or fall from
    each row to the next, or if those of each topic are successive, in any order.
    """

    def __init__(self, names: Sequence[str], categories: Collection[str] = ()) -> None:
        self._names, self._n_rows, self._n_within = list(names), 0, 0
        self._within = {name: place for place, name in enumerate(names) if name not in categories}
        # The last value of a column, and the signs of its steps from row to row.
        self._steps = {name: (np.empty(0), set[float]()) for name in self._within}
        self._values: dict[str, dict[float, float]] = {name: {} for name in self._within}

    def read_rows(self, table: Table, relevance: npt.NDArray[Any]) -> None:
        """Take the next rows into account, in the order of the table."""
        self._n_rows += len(relevance)
        # The first rows settle most columns.
        for rows in (slice(0, _FIRST_ROWS), slice(_FIRST_ROWS, None)):
            if not len(relevance[rows]) or not (self._steps or self._values):
                continue
            labels, firsts, label_of_row = np.unique(relevance[rows], return_index=True, return_inverse=True)
            for name in {**self._steps, **self._values}:
                values = table.frame[name][rows].cast(pl.Float64).to_numpy()
                if name in self._steps:
                    last, signs = self._steps.pop(name)
                    signs |= {*np.unique(np.sign(np.diff(values, prepend=last))).tolist()}
                    if (signs <= {1.0} or signs <= {-1.0}) and (values == np.floor(values)).all():
                        self._steps[name] = values[-1:], signs
                if (known := self._values.get(name)) is not None:
                    by_label = dict(zip(labels.tolist(), values[firsts].tolist(), strict=True)) | known
                    if (values == np.array([by_label[label] for label in labels.tolist()])[label_of_row]).all():
                        known.update(by_label)
                    else:
                        del self._values[name]

    def read_topics(self, features: npt.NDArray[np.float32], offsets: npt.NDArray[np.int64]) -> None:
        """Take whole topics into account, with all features."""
        self._n_within += int(offsets[-1]) - len(offsets) + 1
        some = min(int(np.searchsorted(offsets, _FIRST_ROWS)), len(offsets) - 1)
        for limits in (offsets[: some + 1], offsets[some:]):
            rows = slice(int(limits[0]), int(limits[-1]))
            list_of_row = np.repeat(np.arange(len(limits) - 1), np.diff(limits))
            within = np.diff(list_of_row) == 0
            for name, place in list(self._within.items()):
                values = features[rows, place]
                if (values == np.floor(values)).all():
                    steps = np.diff(values[np.lexsort((values, list_of_row))])
                    if (steps[within] == 1).all():
                        continue
                del self._within[name]

    def found(self) -> dict[str, str]:
        """Return such features after all rows, with what they do."""
        reasons: dict[str, str] = {}
        if self._n_within >= _FEWEST_ROWS:
            reasons |= dict.fromkeys(self._within, "numbers the rows of each topic")
        if self._n_rows >= _FEWEST_ROWS:
            reasons |= dict.fromkeys(self._steps, "numbers the rows")
            steps = {name: np.diff([known[label] for label in sorted(known)]) for name, known in self._values.items()}
            monotone = [name for name, step in steps.items() if len(step) and ((step > 0).all() or (step < 0).all())]
            reasons |= dict.fromkeys(monotone, "is the relevance label in other units")
        return {name: reasons[name] for name in self._names if name in reasons}


class TableStream:
    """The judged lists of a file, CSV or parquet, in the order of `read_judged`, in a stream.

    Attributes:
        feature_names: the features.
        left_out: the columns that are no features unless they are chosen, with what they are.

    Raises:
        DataError: as `read_judged`; if a file has several mistakes, the one that is named may be another.
    """

    def __init__(self, path: File, columns: Columns) -> None:
        is_parquet = Path(path).suffix == ".parquet"
        with _explained(path, "parquet" if is_parquet else "CSV"):
            names = pq.read_schema(path).names if is_parquet else text_files.first_fields(path)
        self._topics = _Topics()
        self._columns = columns = columns.found_in(names, str(path))
        self._file = (_Parquet if is_parquet else _Csv)(path, columns)
        for table in self._file.look():
            if not self._topics.sizes:
                replace(table, frame=pl.DataFrame(schema=self._file.types)).require(columns)
            self._topics.count(table.text(columns.topic))
        if not self._topics.sizes:
            raise DataError(f"{path}: there are no rows in it; expected a row for each item")
        self.feature_names, self.left_out = list(columns.features or ()), dict[str, str]()
        if columns.features is None:
            others = (*columns.roles, *columns.exclude)
            self.feature_names, self.left_out = told_apart(self._file.types, self._file.written, others)
        if not self.feature_names:
            raise DataError(f"{path}: {no_features(self.left_out)}")
        # Chosen features are taken as they are.
        self._suspects = self.feature_names if columns.features is None else []
        self._shadows = Shadows(self._suspects)
        # A column that is read as text has mistakes.
        labels = [] if columns.grades or columns.labelled is None else [columns.relevance]
        ways_of = {**dict.fromkeys(labels, WAYS_OF_LABELS), **dict.fromkeys(self.feature_names, WAYS)}
        for name, ways in ways_of.items():
            if self._file.types[name] == pl.String:
                refuse(self._file.batches([name]), name, ways)
        self._row_bytes = 4 * len(self.feature_names) + 32
        topic = int(np.argmax(self._topics.sizes))
        size, memory = self._topics.sizes[topic], memory_bytes()
        if size * self._row_bytes > memory:
            raise DataError(
                f"{path}: topic {list(self._topics.numbers)[topic]!r} has {size} rows, which need "
                f"{size * self._row_bytes / 2**30:.0f} GiB at least, and this machine has {memory / 2**30:.0f}: look "
                "for a column of topics with more names"
            )

    @property
    def doubtful(self) -> dict[str, str]:
        """The features that `Shadows` finds, after all lists have been read."""
        return self._shadows.found()

    def __iter__(self) -> Iterator[JudgedLists]:
        """Yield lists of whole topics, at most about a batch of rows at a time."""
        names, file = list(self._topics.numbers), self._file
        self._shadows = Shadows(self._suspects)
        # Closed at once after an error, too: a temporary file may be open.
        with closing(whole_topics(self._batches()) if self._topics.adjacent else self._gathered()) as parts:
            for rows in map(pa.Table.combine_chunks, parts):
                topic, items = rows.column("topic").to_numpy(), pl.Series(pl.from_arrow(rows.column("item")))
                starts = np.flatnonzero(np.diff(topic, prepend=-1))
                pairs = pl.DataFrame({"topic": topic, "item": items})
                require_distinct_items(pairs, file.where, names, file.row_name, rows.column("row").to_numpy())
                flat = rows.column("features").combine_chunks().flatten().to_numpy()
                features, offsets = flat.reshape(len(rows), len(self.feature_names)), np.append(starts, len(rows))
                self._shadows.read_topics(features, offsets)
                yield JudgedLists(
                    topics=[names[code] for code in topic[starts].tolist()],
                    items=items,
                    relevance=rows.column("relevance").to_numpy(),
                    offsets=offsets,
                    features=features,
                    feature_names=self.feature_names,
                )

    def _batches(self) -> Iterator[pa.Table]:
        """Yield the rows with the numbers of their topics, and their numbers in the file."""
        columns = self._columns
        has_items = columns.item is not None or columns.items in self._file.types
        names = [columns.topic, *([columns.items] if has_items else []), *self.feature_names]
        names += [] if columns.labelled is None else [columns.relevance]
        for table in self._file.batches(list(dict.fromkeys(names))):
            values, _ = table.matrix(self.feature_names, (), columns.keep_missing)
            rows = {
                "topic": self._topics.number(table.text(columns.topic)),
                "item": table.item_names(columns).to_arrow().cast(pa.large_string()),
                "relevance": table.relevance(columns),
                "features": vectors(values, len(self.feature_names)),
                "row": table.row_numbers(),
            }
            self._shadows.read_rows(table, rows["relevance"])
            yield pa.table(rows)

    def _gathered(self) -> Generator[pa.Table, None, None]:
        """Yield the rows of some topics at a time, from a temporary file of sorted batches."""
        # Ranges of topics whose rows are about a batch.
        batch_of_topic = np.cumsum(self._topics.sizes) // max(BATCH_BYTES // self._row_bytes, 1)
        limits = [0, *(np.flatnonzero(np.diff(batch_of_topic)) + 1).tolist(), len(batch_of_topic)]
        with tempfile.TemporaryDirectory(prefix="rankbound-") as folder:
            path, batches = Path(folder, "sorted.arrow"), map(_sorted, self._batches())
            first = next(batches)
            try:
                with pa.OSFile(os.fspath(path), "wb") as sink, pa.ipc.new_file(sink, first.schema) as writer:
                    for rows in itertools.chain([first], batches):
                        writer.write_table(rows)
            except OSError as error:
                raise DataError(f"{self._file.where}: cannot be sorted by topic in {folder}: {error}") from error
            with pa.memory_map(os.fspath(path)) as source, pa.ipc.open_file(source) as file:
                parts = [file.get_batch(index) for index in range(file.num_record_batches)]
                places = [np.searchsorted(part.column("topic").to_numpy(), limits).tolist() for part in parts]
                for ends in zip(*map(itertools.pairwise, places), strict=True):
                    own = zip(parts, ends, strict=True)
                    slices = [part.slice(start, stop - start) for part, (start, stop) in own if stop > start]
                    yield _sorted(pa.Table.from_batches(slices))


def _sorted(rows: pa.Table) -> pa.Table:
    """Return the rows in the order of their topics, otherwise as they are."""
    return rows.take(np.argsort(rows.column("topic").to_numpy(), kind="stable")).combine_chunks()


class _Topics:
    """The topics of a table by their numbers, in the order in which they first appear, and the rows of each."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.sizes: list[int] = []
        self.adjacent, self._last = True, 0

    def number(self, names: pl.Series) -> npt.NDArray[np.int64]:
        """Return the topics' numbers; new topics get the next ones."""
        distinct = names.unique(maintain_order=True)
        codes = [self.numbers.setdefault(name, len(self.numbers)) for name in distinct]
        return names.replace_strict(distinct, pl.Series(codes, dtype=pl.Int64), return_dtype=pl.Int64).to_numpy()

    def count(self, names: pl.Series) -> None:
        """Count the rows of a batch."""
        code = self.number(names)
        self.adjacent &= bool((np.diff(code, prepend=self._last) >= 0).all())
        self._last = int(code[-1])
        self.sizes += [0] * (len(self.numbers) - len(self.sizes))
        for topic, size in zip(*(part.tolist() for part in np.unique(code, return_counts=True)), strict=True):
            self.sizes[topic] += size


class _Csv:
    """CSV text, read in batches of rows; `look` gives the columns the types of all their values together."""

    row_name = "line"

    def __init__(self, path: File, columns: Columns, *texts: str) -> None:
        self.where = str(path)
        self.types: dict[str, pl.DataType] = {}
        self.written: defaultdict[str, set[str]] = defaultdict(set)
        self._texts = dict.fromkeys((*columns.texts, *texts), pl.String())
        # The columns that have had a value; until then, they are text.
        self._seen: set[str] = set()

    def look(self) -> Iterator[Table]:
        """Yield all rows, and note the types and notations of the columns."""
        for table in self._tables(self._looked_at):
            columns = table.frame.get_columns()
            if not self.types and table.frame.is_empty():
                raise DataError(f"{self.where}: there are no rows in it below the names; expected one for each item")
            for column in () if self.types else columns[1:]:
                if column.dtype == pl.String and column.str.starts_with(" ").fill_null(False).all():
                    raise DataError(
                        f"{self.where}, line 2: column {column.name!r} holds {quoted(column[0])}, and begins with a "
                        "space in all lines; expected no spaces after the separators: remove them"
                    )
            for column in columns:
                name, dtype = column.name, column.dtype
                known = self.types.setdefault(name, pl.String())
                # Text without any value says nothing of the type.
                if dtype != pl.String or column.null_count() < len(column):
                    is_alike = name not in self._seen or known == dtype
                    self.types[name] = dtype if is_alike else _WIDER.get(frozenset((known, dtype)), pl.String())
                    self._seen.add(name)
                self.written[name] |= notations(column)
            yield table

    def batches(self, names: Sequence[str]) -> Iterator[Table]:
        """Yield the rows of these columns, after `look`."""
        for table in self._tables(self._typed):
            yield replace(table, frame=table.frame.select(names))

    def _looked_at(self, content: bytes, lines_before: int) -> pl.DataFrame:
        """Return rows with the types of their values, or with those of the columns so far if all values are of them.

        Inference takes five times as long as parsing.
        """
        if self.types and self._seen.issuperset(self.types) and not any(loose in content for loose in _LOOSE):
            with suppress(DataError, pl.exceptions.PolarsError):
                frame = self._typed(content, lines_before)
                # Types that are inferred from these values would be the same.
                fractions = frame.select(pl.col(pl.Float64))
                plain = fractions.select(pl.all_horizontal(pl.all().is_finite() & (pl.all().abs() < _LARGEST_WHOLE)))
                if plain.to_series().all() and {*frame.dtypes} <= {pl.Float64, pl.Int64, pl.String}:
                    return frame
        return text_files.parse_rows(content, self.where, self._texts, lines_before)

    def _typed(self, content: bytes, lines_before: int) -> pl.DataFrame:
        return text_files.parse_rows(content, self.where, self.types, lines_before, infer=False)

    def _tables(self, parse: Callable[[bytes, int], pl.DataFrame]) -> Iterator[Table]:
        first = _FIRST_LINE
        with text_files.open_unpacked(self.where) as stream:
            for content, lines_before in text_files.read_chunks(stream, self.where):
                with _explained(self.where, "CSV"):
                    frame = parse(content, lines_before)
                yield Table(frame, self.where, self.row_name, first)
                first += len(frame)


class _Parquet:
    """A parquet file, read in batches of rows; its schema has the types, and `look` reads the columns of texts."""

    row_name = "row"

    def __init__(self, path: File, columns: Columns) -> None:
        self.where, self._topic = str(path), columns.topic
        self.written: defaultdict[str, set[str]] = defaultdict(set)
        with _explained(path, "parquet"), pq.ParquetFile(path) as file:
            # Without rows, types that are unknown to polars would not fail until they are read.
            self.types: Mapping[str, pl.DataType] = _polars_of(file.schema_arrow.empty_table()).schema

    def look(self) -> Iterator[Table]:
        """Yield the topics and the columns of texts, and note what those hold."""
        texts = [name for name, dtype in self.types.items() if dtype == pl.String or name == self._topic]
        for table in self.batches(texts):
            for column in table.frame.get_columns():
                self.written[column.name] |= notations(column)
            yield table

    def batches(self, names: Sequence[str]) -> Iterator[Table]:
        """Yield the rows of these columns."""
        first, size = 1, max(BATCH_BYTES // (_VALUE_BYTES * max(len(names), 1)), 1)
        with (
            _explained(self.where, "parquet"),
            # Neither whole columns nor whole row groups are read ahead.
            pq.ParquetFile(self.where, buffer_size=_PAGE_BYTES, pre_buffer=False) as file,
        ):
            for batch in file.iter_batches(size, columns=list(names), use_threads=False):
                # Text that is not UTF-8 would panic in polars.
                batch.validate(full=True)
                if len(batch):
                    yield Table(_polars_of(batch).select(names), self.where, self.row_name, first)
                    first += len(batch)
