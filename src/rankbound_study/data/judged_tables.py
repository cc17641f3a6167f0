"""Judged lists from a CSV or parquet file with a row per item, in a stream."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from rankbound.errors import DataError
from rankbound.io.files import has_rows, read_lists
from rankbound.io.judged import JudgedLists
from rankbound.io.letor_lines import LARGEST_LABEL
from rankbound.io.table_columns import Columns
from rankbound.io.table_stream import TableStream
from rankbound_study.config.sections.description import ColumnKeys, DescriptionKeys
from rankbound_study.data.plain_files import Raw, as_file


def read_table(raw: Raw, described: DescriptionKeys, name: str) -> Iterator[pa.Table]:
    """Yield the lists of a file as tables of the lists contract; DataError names its line, or row."""
    largest = described.largest_label or LARGEST_LABEL
    with as_file(raw, name) as path:
        try:
            for lists in _lists(path, described):
                yield _table(lists, largest, str(path))
        except DataError as error:
            raise DataError(str(error).replace(str(path), raw.where(name))) from error


def _lists(path: Path, described: DescriptionKeys) -> Iterable[JudgedLists]:
    """Return the lists of a file; packed ones, and LETOR text, are read whole."""
    named = described.columns or ColumnKeys.model_validate({"topic": "topic"})
    columns = Columns(named.topic, named.item, named.relevance or "relevance")
    if has_rows(path):
        return TableStream(path, columns, named.features)
    return [read_lists(path, features=named.features)]


def _table(lists: JudgedLists, largest_label: int, where: str) -> pa.Table:
    wrong = (lists.relevance != np.floor(lists.relevance)) | (lists.relevance > largest_label)
    if wrong.any():
        raise DataError(
            f"{where}: found relevance {lists.relevance[wrong][0]:g}, expected whole numbers 0 .. {largest_label}: "
            "write grades as such, for example 0, 0.5 and 1 as 0, 1 and 2"
        )
    columns = {
        "items": pa.array(list(lists.items), pa.string()),
        "relevance": pa.array(lists.relevance.astype(np.int8)),
        "features": pa.FixedSizeListArray.from_arrays(pa.array(lists.features.ravel()), lists.features.shape[1]),
    }
    offsets = pa.array(lists.offsets.astype(np.int32))
    made = {key: pa.ListArray.from_arrays(offsets, column) for key, column in columns.items()}
    return pa.table({"topic": pa.array(list(lists.topics), pa.string()), **made})
