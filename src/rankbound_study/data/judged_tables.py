"""Judged lists from CSV or parquet files with a row per item, in a stream."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from rankbound.errors import DataError
from rankbound.io.files import kind_of, read_lists
from rankbound.io.judged import JudgedLists, doubt, listed
from rankbound.io.letor import LARGEST_LABEL
from rankbound.io.table_columns import Columns
from rankbound.io.tables import TableStream
from rankbound_study.config.sections.description import ColumnKeys, DescriptionKeys
from rankbound_study.data.plain_files import Raw, as_file


@dataclass
class TableReader:
    """A reader of the files of a data set, which finds the features of the first one in the others by name."""

    raw: Raw
    described: DescriptionKeys
    _features: Sequence[str] | None = None

    def read(self, name: str) -> Iterator[pa.Table]:
        """Yield the lists of a file as tables of the lists contract; DataError names its line, or row.

        What is left out, and doubtful features, are printed.
        """
        largest = self.described.largest_label or LARGEST_LABEL
        with as_file(self.raw, name) as path:
            try:
                lists = self._lists(path)
                for part in lists:
                    self._features = part.feature_names
                    yield _table(part, largest, str(path))
            except DataError as error:
                raise DataError(str(error).replace(str(path), self.raw.where(name))) from error
        if isinstance(lists, TableStream):
            _note(lists, self.raw.where(name))

    def _lists(self, path: Path) -> Iterable[JudgedLists]:
        """Return the lists of a file; packed ones, and LETOR text, are read whole."""
        named = self.described.columns or ColumnKeys.model_validate({"topic": "topic"})
        columns = Columns(named.topic, named.item, named.relevance or "relevance")
        features = named.features if self._features is None else self._features
        is_rows = kind_of(path) == "rows"
        return TableStream(path, columns, features) if is_rows else [read_lists(path, features=features)]


def _note(stream: TableStream, where: str) -> None:
    if stream.left_out:
        print(f"note: {where}: left out, as `features` does not name them: {listed(stream.left_out)}")
    if stream.doubtful:
        print(f"note: {where}: {doubt(stream.doubtful)}")


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
