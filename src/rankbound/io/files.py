"""Reading and writing one's own files: the format follows from the file's name and content.

| | `.csv`, `.tsv` | `.parquet` | anything else (text; `.gz` too) |
|---|---|---|---|
| judged lists | a row per item | a row per item, or packed: a row per topic | LETOR |
| runs | columns topic, item, score | the same | TREC run |
| qrels | as judged lists, features are ignored | the same | TREC qrels, or LETOR |
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rankbound.errors import RankboundError
from rankbound.io.judged import JudgedLists, Qrels, Run

File = str | os.PathLike[str]


def read_lists(
    source: Any,
    *,
    topic: str = "topic",
    item: str | None = None,
    relevance: str = "relevance",
    features: Sequence[str] | None = None,
    labelled: bool = True,
) -> JudgedLists:
    """Judged lists with features, from a file or from a data frame (polars, pandas or Arrow) with a row per item.

    Rows of a topic need not stand together (in LETOR files they must): topics come in the order in which they first
    appear, their items in the order of the rows.

    Args:
        source: a path, or a data frame.
        topic: the column of the topic's name.
        item: the column of the item's name; without it, the column `item` if there is one, else topic and row make one.
        relevance: the column of the grades, numbers from 0.
        features: the columns of the features, by default all others with numbers in them (text is left out).
        labelled: False accepts a table without relevance, which is then 0.

    Raises:
        DataError: for a file that cannot be read, a column that is not there, and any value that is no finite number;
            it names file, line, column and what stood there.
    """
    with needs_extra("data"):
        from rankbound.io import letor_files, packed, tables
    if isinstance(source, str | os.PathLike):
        if not _is_table(source):
            return letor_files.read_letor(source, features)
        if Path(source).suffix == ".parquet" and packed.is_packed(source):
            return packed.read_packed(source, features)
    return tables.read_judged(source, tables.Columns(topic, item, relevance), features, labelled)


def read_run(path: File) -> Run:
    """A run: TREC text, or a table with the columns topic, item and score. The order within topics is the file's."""
    with needs_extra("data"):
        from rankbound.io import tables, trec
    return tables.read_scores(path) if _is_table(path) else trec.read_run(path)


def read_qrels(path: File, *, topic: str = "topic", item: str | None = None, relevance: str = "relevance") -> Qrels:
    """Judgements: TREC qrels, where negative relevance counts as 0, or any file that `read_lists` reads."""
    with needs_extra("data"):
        from rankbound.io import letor_files, packed, tables, trec
    if not _is_table(path) and not letor_files.is_letor(path):
        return trec.read_qrels(path)
    if Path(path).suffix == ".parquet" and packed.is_packed(path):
        return packed.read_packed(path)
    if _is_table(path):
        return tables.read_judged(path, tables.Columns(topic, item, relevance), features=())
    return letor_files.read_letor(path)


def write_run(path: File, run: Run, *, tag: str = "rankbound") -> None:
    """Write a run: a table for `.csv`, `.tsv` and `.parquet`, else TREC text; text is packed for `.gz`.

    A score is written with as many digits as tell it from its neighbours in its own precision; trec_eval reads single
    precision, where float64 scores may become ties. The file appears whole or not at all.

    Raises:
        DataError: in TREC text, for a name that is empty or has white space, or a score that is not finite.
    """
    with needs_extra("data"):
        from rankbound.io import tables, trec
    if _is_table(path):
        tables.write_scores(path, run)
    else:
        trec.write_run(path, run, tag)


def write_qrels(path: File, qrels: Qrels) -> None:
    """Write judgements: a table for `.csv`, `.tsv` and `.parquet`, else TREC qrels; text is packed for `.gz`.

    Raises:
        DataError: in TREC qrels, for relevance that is no whole number, and for names as in `write_run`.
    """
    with needs_extra("data"):
        from rankbound.io import tables, trec
    if _is_table(path):
        tables.write_judged(path, qrels)
    else:
        trec.write_qrels(path, qrels)


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Say which extra to install where a library is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise RankboundError(f"{error.name} is not installed: pip install 'rankbound[{name}]' has it") from error


def _is_table(path: File) -> bool:
    return Path(path).name.removesuffix(".gz").endswith((".csv", ".tsv", ".parquet"))
