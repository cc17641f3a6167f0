"""Judged lists from a CSV or parquet file with a row per item, in a stream."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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

_SHOWN = 5


@dataclass
class TableReader:
    """A reader of tables with a row per item; all files of a data set have the features of the first one."""

    raw: Raw
    described: DescriptionKeys
    _features: Sequence[str] | None = None

    def __call__(self, name: str, seen: set[str], on_bytes: Callable[[int], object]) -> Iterator[pa.Table]:
        """Yield the lists of a file as tables of the lists contract; DataError names its line, or row."""
        largest = self.described.largest_label or LARGEST_LABEL
        with as_file(self.raw, name) as path:
            try:
                for lists in self._lists(path):
                    yield _table(lists, largest, str(path))
            except DataError as error:
                raise DataError(str(error).replace(str(path), self.raw.where(name))) from error

    def _lists(self, path: Path) -> Iterable[JudgedLists]:
        """Return the lists of a file, with the features in the order of the first file."""
        columns = self.described.columns
        lists = _opened(path, self.described, columns.features if columns else None)
        own = _feature_names(lists)
        first = self._features = self._features or own
        if own == first:
            return lists
        if set(own) != set(first):
            differ = ", ".join(sorted(set(own) ^ set(first))[:_SHOWN])
            raise DataError(
                f"{path}: its features are not those of the first file: {differ} in one of them alone; expected the "
                "same columns of numbers, or the names of those to read (features)"
            )
        return _opened(path, self.described, first)


def _opened(
    path: Path, described: DescriptionKeys, features: Sequence[str] | None
) -> "TableStream | list[JudgedLists]":
    """Return the lists of a file; packed ones, and LETOR text, are read whole."""
    named = described.columns or ColumnKeys.model_validate({"topic": "topic"})
    columns = Columns(named.topic, named.item, named.relevance or "relevance")
    return TableStream(path, columns, features) if has_rows(path) else [read_lists(path, features=features)]


def _feature_names(lists: "TableStream | list[JudgedLists]") -> Sequence[str]:
    names = lists.feature_names if isinstance(lists, TableStream) else lists[0].feature_names
    return list(names or ())


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
