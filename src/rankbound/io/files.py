"""Read and write judged lists, runs and qrels; the format follows from the file's name and content.

| | `.csv`, `.tsv` | `.parquet` | `.json`, `.jsonl` | anything else |
|---|---|---|---|---|
| judged lists | a row per item | a row per item, or packed: a row per topic (also `.arrow`) | | LETOR |
| runs | columns topic, item, score (or rank) | the same | `{topic: {item: score}}`, or records | TREC run |
| qrels | as judged lists, without features | the same | `{topic: {item: relevance}}`, or records | TREC qrels, LETOR |

All but parquet may be packed: `.gz`, `.bz2`, `.zst`. A `.tsv` whose first line holds numbers and names no column is a
TREC file, as MS MARCO's are. Columns may have the names that other tools give them (`OTHER_NAMES` of `table_columns`).
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from math import inf
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rankbound.errors import DataError, RankboundError
from rankbound.io.atomic import File, atomic_path
from rankbound.io.judged import (
    JudgedLists,
    Qrels,
    Run,
    as_nested,
    is_nested,
    no_features,
    of_dictionaries,
    repeated,
    warn_of_columns,
)
from rankbound.io.text_files import JSON, first_fields, plain_name, separator_of
from rankbound.texts import LARGEST_EXACT, LONGEST_VALUE, is_number, shortened

if TYPE_CHECKING:
    from rankbound.io.packed import Pack

Evaluated = TypeVar("Evaluated")

MISSING = ("refuse", "keep")
"""What may become of missing values of features when a table is read."""

PACKABLE = (".parquet", ".arrow")
"""The endings of the names of files that may have a row per topic."""

TABLES = (".csv", ".tsv", ".parquet")
"""The endings of the names of tables with a row per item."""

SMALL_BYTES = 2**16
"""Bytes of TREC text that Python reads in less time than polars takes to load."""

_NAME, _WORD, _SCORE = rb"([!-~]+)", rb"[!-~]+", rb"(-?\d{1,15}(?:\.\d+)?(?:[eE]-?\d{1,2})?)"

ROW_OF_RUN, ROW_OF_QRELS = (
    re.compile(rb"^%s$" % rb"[ \t]".join(fields), re.MULTILINE)
    for fields in ((_NAME, _WORD, _NAME, _WORD, _SCORE, _WORD), (_NAME, _WORD, _NAME, rb"(-?\d{1,15})"))
)
"""Lines of ASCII text whose topic, item and number can be read in one way only."""


def read_lists(
    source: Any,
    *,
    topic: str = "topic",
    item: str | None = None,
    relevance: str = "relevance",
    grades: Mapping[Any, float] | Sequence[Any] | None = None,
    weights: str | None = None,
    list_weights: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    categorical: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    missing_features: str = "refuse",
    labelled: bool | None = True,
    groups: File | None = None,
) -> JudgedLists:
    """Read judged lists with features from a file, or from a data frame (polars, pandas or Arrow) with a row per item.

    The rows of a topic need not be adjacent, except in LETOR files. Topics keep the order in which they first appear,
    items the order of their rows.

    Args:
        source: a path, or a data frame.
        topic: the column of the topic's name.
        item: the column of the item's name. Default: the column `item` if there is one, else topic and row number.
        relevance: the column of the relevance labels, numbers from 0.
        grades: what labels that are no such numbers stand for: `{"bad": 0, "fair": 1, "good": 2}`, or their names from
            0 upwards, `["bad", "fair", "good"]`.
        weights, list_weights: the columns of the weights of items, and of topics, which are the same in all rows of a
            topic; numbers from 0 by which a training multiplies the items' terms of the loss, and the lists' losses.
        features: the columns of the features, without the others. Default: all other columns of numbers and categories,
            but for those without a name (a data frame's index) and those whose name is usually that of something else,
            such as `position`, `weight`, `fold` or `timestamp`. A warning names what is left out, and the features that
            number the rows or are a monotone map of the relevance label.
        exclude: columns that are no features, beside those.
        categorical: the features whose values are categories: texts, truth values or whole numbers. By default, those
            whose type says so (polars' `Categorical`, pandas' `category` of texts), and columns of text without any
            number among `features`. Truth values are the features 0 and 1 without being named. A mapping also gives the
            known ones, such as `categories` of other lists, by whose places a model was trained; others are missing.
        missing_features: `keep` reads missing values of features (empty cells, nulls, NaN) as NaN, for a ranker whose
            `missing_features` says how they are filled; `refuse` raises.
        labelled: False accepts a table without relevance labels, which are then 0; None does not read labels.
        groups: for LETOR text whose lines name no query, as LightGBM reads it: the file with the number of lines of
            each query, one on a line. The queries are named 1, 2, ...

    Returns:
        The lists, a dataset of topics for PyTorch's `DataLoader`.

    Raises:
        DataError: the file cannot be read, a column is missing, or a value is not a finite number; the message names
            file, line, column and value.

    >>> import polars as pl
    >>> rb.read_lists(pl.DataFrame({"topic": ["a", "a", "b"], "relevance": [1, 0, 2], "f": [0.1, 0.2, 0.3]})).offsets
    array([0, 2, 3])
    """
    with needs_extra("data"):
        from rankbound.io import letor, packed, table_columns, tables
    for name, column in (("topic", topic), ("relevance", relevance)):
        if not isinstance(column, str):
            raise ValueError(f"{name}: found {column!r}, expected the name of a column; labelled=None reads no labels")
    for name, names in (("features", features), ("exclude", exclude), ("categorical", categorical)):
        _require_distinct(name, list(names) if isinstance(names, Mapping) else names)
    if missing_features not in MISSING:
        raise ValueError(
            f"missing_features: found {missing_features!r}, expected one of {', '.join(MISSING)}; how a ranker fills "
            "those that are kept is a setting of its training: train_ranker(lists, missing_features='mean')"
        )
    of_tables = dict[str, Any](weights=weights, list_weights=list_weights, exclude=exclude, categorical=categorical)
    read = dict[str, Any](features=features, labelled=labelled, keep_missing=missing_features == "keep")
    columns = table_columns.Columns(topic, item, relevance, grades=grades_of(grades), **of_tables, **read)
    kind = kind_of(source)
    if kind == "json":
        raise DataError(f"{source}: JSON holds runs and judgements; lists with features are LETOR text or tables")
    if kind in ("text", "packed"):
        for name, value in {"grades": grades, **of_tables}.items():
            if value:
                raise DataError(f"{name}: found {value}, but {source} is no table with a row per item")
    if kind == "text":
        return letor.read_letor(source, features, groups)
    if groups is not None:
        raise DataError(f"groups: found {groups}, but only LETOR text has lines without the names of their topics")
    if kind == "packed":
        return packed.read_packed(source, features)
    lists = tables.read_judged(source, columns)
    warn_of_columns(source, lists.left_out, lists.doubtful)
    return lists


def pack_lists(
    source: Any,
    path: File,
    *,
    topic: str = "topic",
    item: str | None = None,
    relevance: str = "relevance",
    grades: Mapping[Any, float] | Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    groups: File | None = None,
    on_topics: Callable[[int], None] = lambda count: None,
) -> "Pack":
    """Pack judged lists into an Arrow file, whose features `read_lists` leaves in the file: they may exceed memory.

    Files of LETOR text and of tables, CSV and parquet with a row per item, are read in streams (see `docs/data.md` for
    the bound); of other sources, the lists have to fit into memory once. The features take 4 bytes each, and twice as
    much of the disk until the file is complete.

    Args:
        source: a path or a data frame, as in `read_lists`.
        path: the file to write, `.arrow`.
        topic, item, relevance, grades, features: the columns of a table, as in `read_lists`.
        groups: as in `read_lists`.
        on_topics: called with the number of topics that were read, to show progress.

    Returns:
        The numbers of topics, items and features, `n_topics`, `n_items`, `n_features`, and the `feature_names`.

    Raises:
        DataError: as `read_lists`, or for another ending of `path`, relevance that is no whole number, or more than
            2,147,483,647 items.

    >>> rb.pack_lists("train.letor", "train.arrow")  # doctest: +SKIP
    """
    with needs_extra("data"):
        from rankbound.io import letor, packed, table_columns, tables
    if Path(path).suffix != packed.ARROW:
        raise DataError(f"{path}: expected a name that ends in {packed.ARROW}, by which the file is read")
    kind = kind_of(source)
    if kind == "text" and features is None:
        with letor.open_judged(source) as text:
            known = letor.extent(text, str(source)).covering(())
        with letor.open_judged(source, groups) as text:
            return packed.pack(letor.read_lists(text, known, str(source)), known.feature_names, path, on_topics)
    if kind == "rows" and groups is None and not tables.has_lists(source):
        _require_distinct("features", features)
        columns = table_columns.Columns(topic, item, relevance, grades=grades_of(grades), features=features)
        stream = tables.TableStream(source, columns)
        parts = (packed.packed_lists(part, path) for part in stream)
        written = packed.pack(parts, stream.feature_names, path, on_topics)
        warn_of_columns(source, stream.left_out, stream.doubtful)
        return replace(written, left_out=stream.left_out, doubtful=stream.doubtful)
    # Packed lists hold numbers.
    names: dict[str, Any] = {"topic": topic, "item": item, "relevance": relevance, "grades": grades}
    lists = read_lists(source, **names, features=features, categorical=(), groups=groups)
    if not lists.feature_names:
        raise DataError(f"{path}: {no_features(lists.left_out)}")
    written = packed.pack([packed.packed_lists(lists, path)], lists.feature_names, path, on_topics)
    return replace(written, left_out=lists.left_out, doubtful=lists.doubtful)


def read_run(source: Any, *, format: str | None = None) -> Run:
    """Read a run: TREC text, JSON, or a table with the columns topic, item and score; items keep their order.

    Args:
        source: a path, a data frame (polars, pandas, Arrow or Hugging Face's), dictionaries `{topic: {item: score}}`, a
            ranx `Run`, or rows that are named tuples or dictionaries, as those of ir_measures.
        format: the columns of text whose first line doesn't name them: `msmarco` (topic, item and rank), or their
            names, as in `topic item score`. By default, they are those of TREC; three are taken for topic, item and
            score if the numbers have fractions, and are refused if they may be ranks.

    Returns:
        The run.

    Raises:
        DataError: the file cannot be read, or a line or value is malformed; the message names it.
        ValueError: for another `format`.

    >>> rb.read_run({"q": {"a": 0.5, "b": 0.25}}).scores
    array([0.5 , 0.25])
    """
    with needs_extra("data"):
        from rankbound.io import run_files, tables
    source = as_nested(source)
    kind = _kind_of_lines(source, format)
    if format is not None and kind != "text":
        raise DataError(f"format: found {format!r}, but only text, such as .txt and .tsv, has columns without names")
    if is_nested(source):
        return of_dictionaries(Run, source)
    return run_files.read_run(source, format) if kind in ("text", "json") else tables.read_scores(source)


def evaluated_in_parts(
    source: Any, evaluate: Callable[[Iterable[Run]], Evaluated], *, format: str | None = None
) -> Evaluated:
    """Return what `evaluate` makes of a run, which `read_run` reads, in parts of whole topics.

    A file of regular lines comes in several, so that memory does not grow with its size. If one turns out not to be
    regular, or to have mistakes, `evaluate` is called again with the whole run.
    """
    if format is None and is_nested(nested := as_nested(source)):
        return evaluate([of_dictionaries(Run, nested, for_one_call=True)])
    if format is None and (small := rows_of_small(source, ROW_OF_RUN)) is not None:
        return evaluate([of_dictionaries(Run, small, for_one_call=True)])
    with needs_extra("data"):
        from rankbound.io import run_files
    # Anything else, such as a pipe, could be read only once.
    if format is None and _kind_of_lines(source) == "text" and Path(source).is_file():
        with suppress(run_files.IrregularFile, DataError):
            return evaluate(run_files.read_parts(source))
    return evaluate([read_run(source, format=format)])


def rows_of_small(source: Any, row: re.Pattern[bytes]) -> dict[str, dict[str, float]] | None:
    """Return the numbers of a small TREC file's plain rows by topic and item.

    The result is None for all other files: the parsers of this package read them, or refuse them with a message.
    """
    if not isinstance(source, str | os.PathLike) or not Path(source).is_file():
        return None
    path = Path(source)
    if path.stat().st_size > SMALL_BYTES or plain_name(path).endswith((*PACKABLE, *JSON, ".csv", ".tsv")):
        return None
    with suppress(OSError):
        data = path.read_bytes()
        lists: dict[str, dict[str, float]] = {}
        for topic, item, number in row.findall(data):
            lists.setdefault(topic.decode(), {})[item.decode()] = float(number)
        numbers = [number for items in lists.values() for number in items.values()]
        # Comments, white space, names that are not ASCII and items that occur twice leave fewer numbers than lines.
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        if len(numbers) == lines and b"#" not in data and max(map(abs, numbers)) < LARGEST_EXACT:
            return lists
    return None


def read_qrels(
    path: Any,
    *,
    topic: str = "topic",
    item: str | None = None,
    relevance: str = "relevance",
    grades: Mapping[Any, float] | Sequence[Any] | None = None,
    intents: bool = False,
    groups: File | None = None,
) -> Qrels:
    """Read judgements: TREC qrels, JSON, or anything that `read_lists` reads.

    Negative relevance, a whole number, marks an item that was pooled but not judged; its relevance is 0.

    Args:
        path: a path, or a folder with one file, as BEIR's; a data frame (polars, pandas, Arrow or Hugging Face's),
            dictionaries `{topic: {item: relevance}}`, a ranx `Qrels`, or rows that are named tuples or dictionaries, as
            those of ir_measures.
        topic, item, relevance: the columns of a table.
        grades: what labels of a table that are no numbers stand for, as in `read_lists`.
        intents: true reads judgements by intent, an item once for each intent (subtopic) of its topic: TREC qrels whose
            second field is the intent, a table with a column `intent`, or `{topic: {intent: {item: relevance}}}`. The
            relevance of an item is the highest that it has to an intent.
        groups: as in `read_lists`.

    Returns:
        The judgements.

    Raises:
        DataError: the file cannot be read, or a line or value is malformed; the message names it.

    >>> rb.read_qrels({"q": {"a": 1, "b": 0}}).relevance
    array([1., 0.])
    """
    with needs_extra("data"):
        from rankbound.io import letor, packed, run_files, table_columns, tables
    path = as_nested(path)
    if isinstance(path, str | os.PathLike) and Path(path).is_dir():
        # BEIR's judgements lie in a folder `qrels` of the data set's.
        folder = Path(path, "qrels") if Path(path, "qrels").is_dir() else Path(path)
        files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
        if len(files) > 1:
            names = shortened(", ".join(file.name for file in files), LONGEST_VALUE)
            found = f"found a folder of {len(files)} files ({names})"
            raise DataError(f"{path}: {found}, expected a file: name one of them")
        path = files[0] if files else path
    read = dict[str, Any](grades=grades_of(grades), features=(), judgements=not intents)
    columns, kind = table_columns.Columns(topic, item, relevance, **read), _kind_of_lines(path)
    if grades is not None and (is_nested(path) or kind in ("text", "packed")):
        raise DataError(table_columns.NO_GRADES)
    if kind == "json" or (intents and kind == "text"):
        return run_files.read_qrels(path, columns, intents)
    if intents:
        return table_columns.intents_of(path) if is_nested(path) else tables.read_intents(path, columns)
    if groups is not None:
        return read_lists(path, groups=groups)
    if is_nested(path):
        return of_dictionaries(Qrels, path)
    if kind == "packed":
        return packed.read_packed(path)
    if kind == "text":
        return letor.read_letor(path) if letor.is_letor(path) else run_files.read_qrels(path, columns)
    return tables.read_judged(path, columns)


def write_run(path: File, run: Run, *, tag: str = "rankbound") -> None:
    """Write a run: a table for `.csv`, `.tsv` and `.parquet`, JSON for `.json`, else TREC text.

    `.gz`, `.bz2` and `.zst` after it compress text and JSON; `.jsonl` has a line for each topic.

    Scores are written with the digits that identify them in their own precision. trec_eval reads single precision, in
    which float64 scores may become ties. The file is written atomically.

    Args:
        path: the file.
        run: the run.
        tag: the name of the run, the last column of TREC text.

    Raises:
        DataError: in TREC text, a name is empty or contains white space, or a score is not finite.

    >>> rb.write_run("run.txt", rb.read_run({"q": {"a": 0.5}}))
    """
    _write(path, run, tag)


def stream_lists(
    path: File, features: Sequence[str], groups: File | None = None, keep_missing: bool = False, **columns: Any
) -> Iterator[JudgedLists] | None:
    """Return lists to score, some whole topics at a time, in the order of `read_lists`; labels of tables are not read.

    None for what is read whole: packed files, whose features stay in the file, tables with a row per topic, and LETOR
    text beside features that are no indices. Raises DataError as `read_lists`.
    """
    from rankbound.io import letor, packed, table_columns, tables

    kind = kind_of(path)
    if kind == "rows" and groups is None and not tables.has_lists(path):
        named = table_columns.Columns(**columns, keep_missing=keep_missing, features=features, labelled=None)
        return iter(tables.TableStream(path, named))
    if kind != "text" or not all(name.isascii() and name.isdigit() for name in features):
        return None
    with letor.open_judged(path) as text:
        known = letor.extent(text, str(path)).covering(map(int, features))

    def parts() -> Iterator[JudgedLists]:
        with letor.open_judged(path, groups) as text:
            for table in letor.read_lists(text, known, str(path)):
                yield packed.joined([table], known.feature_names)

    return parts()


def write_runs(path: File, runs: Iterable[Run], *, tag: str = "rankbound") -> None:
    """Write a run that comes in parts, one part in memory at a time, as `write_run` does; whole, or not at all."""
    import pyarrow.parquet as pq

    from rankbound.io import run_files
    from rankbound.io.table_columns import rows_of

    suffix = Path(path).suffix
    with atomic_path(path) as temporary, ExitStack() as stack:
        writer: Any = None
        for place, run in enumerate(runs):
            if not plain_name(path).endswith(TABLES):
                writer = writer or stack.enter_context(temporary.open("wb"))
                run_files.rows_of_run(path, run, tag).write_csv(writer, **run_files.TEXT)
                continue
            frame = rows_of(run, score=run.scores)
            if suffix == ".parquet":
                rows = frame.to_arrow()
                writer = writer or stack.enter_context(pq.ParquetWriter(temporary, rows.schema, compression="zstd"))
                writer.write_table(rows)
            else:
                writer = writer or stack.enter_context(temporary.open("wb"))
                frame.write_csv(writer, include_header=place == 0, separator=separator_of(path))
        stack.close()


def write_qrels(path: File, qrels: Qrels) -> None:
    """Write judgements in the formats of `write_run`; TREC text is qrels.

    Unjudged items have relevance -1. Judgements by intent have a line for each of them.

    Args:
        path: the file.
        qrels: the judgements.

    Raises:
        DataError: in TREC qrels, a relevance label is not a whole number, or a name is empty or contains white space.

    >>> rb.write_qrels("qrels.txt", rb.read_qrels({"q": {"a": 1}}))
    """
    _write(path, qrels)


def _write(path: File, lists: Run | Qrels, *tag: str) -> None:
    with needs_extra("data"):
        from rankbound.io import run_files, tables
    if plain_name(path).endswith(TABLES):
        tables.write(path, lists)
    else:
        run_files.write(path, lists, *tag)


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Turn a missing library into an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise RankboundError(f"{error.name} is not installed: run pip install 'rankbound[{name}]'") from error


def kind_of(source: Any) -> str:
    """Return `frame`, or of a file by its name and columns, `json`, `packed`, `rows` or `text`, which is any other.

    The `rows` are a table with a row per item. DataError for a directory, or a file that cannot be read.
    """
    if not isinstance(source, str | os.PathLike):
        return "frame"
    if Path(source).is_dir():
        raise DataError(f"{source}: cannot be read: found a directory, expected a file: name a file in it")
    if plain_name(source).endswith(JSON):
        return "json"
    if Path(source).suffix in PACKABLE:
        from rankbound.io import packed

        return "packed" if packed.is_packed(source) else "rows"
    return "rows" if plain_name(source).endswith(TABLES) else "text"


def _kind_of_lines(source: Any, format: str | None = None) -> str:
    """Return the kind of a run or of judgements: a `.tsv` without names of columns, or with a `format`, is text."""
    kind = kind_of(source)
    if kind != "rows" or not plain_name(source).endswith(".tsv"):
        return kind
    from rankbound.io.table_columns import named

    fields, roles = [] if format is not None else first_fields(source), ("topic", "item", "score", "relevance")
    fields = fields[0].split() if len(fields) == 1 else fields
    is_header = not any(map(is_number, fields)) or any(named(role, fields, str(source)) for role in roles)
    return "rows" if format is None and is_header else "text"


def grades_of(grades: Mapping[Any, float] | Sequence[Any] | None) -> Mapping[str, float] | None:
    """Return the numbers of labels by their texts; DataError for numbers below 0, and for a label that occurs twice."""
    if grades is None:
        return None
    pairs = list(grades.items()) if isinstance(grades, Mapping) else [(name, at) for at, name in enumerate(grades)]
    texts = [str(name).lower() if isinstance(name, bool) else str(name) for name, _ in pairs]
    _require_distinct("grades", grades if isinstance(grades, str) else texts)
    for name, number in pairs:
        if not isinstance(number, Real) or not 0 <= number < inf:
            raise DataError(f"grades: found {number!r} for {name!r}, expected numbers from 0")
    if not pairs:
        raise DataError("grades: found none, expected labels and their numbers, as in {'bad': 0, 'good': 1}")
    return {text: number for text, (_, number) in zip(texts, pairs, strict=True)}


def _require_distinct(option: str, names: Sequence[str] | None) -> None:
    if isinstance(names, str):
        raise DataError(f"{option}: found the text {names!r}, expected a sequence of names, as in [{names!r}]")
    if (twice := repeated(names or ())) is not None:
        raise DataError(f"{option}: found {twice!r} twice, expected each once")
