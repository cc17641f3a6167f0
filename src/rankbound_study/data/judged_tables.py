"""Judged lists from a CSV or parquet file with a row per item."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rankbound.errors import DataError
from rankbound.io.files import read_lists
from rankbound.io.letor_lines import LARGEST_LABEL
from rankbound_study.config.sections.description import ColumnKeys, DescriptionKeys
from rankbound_study.data.plain_files import Raw, as_file


def read_table(raw: Raw, described: DescriptionKeys, name: str) -> Iterator[pa.Table]:
    """Yield the lists of a file, which has to fit into memory, as a table of the lists contract."""
    named = described.columns or ColumnKeys.model_validate({"topic": "topic"})
    relevance = named.relevance or "relevance"
    with as_file(raw, name) as path:
        try:
            lists = read_lists(path, topic=named.topic, item=named.item, relevance=relevance, features=named.features)
        except DataError as error:
            raise DataError(str(error).replace(str(path), raw.where(name))) from error
    largest = described.largest_label or LARGEST_LABEL
    wrong = (lists.relevance != np.floor(lists.relevance)) | (lists.relevance > largest)
    if wrong.any():
        raise DataError(
            f"{raw.where(name)}: found relevance {lists.relevance[wrong][0]:g}, expected whole numbers 0 .. {largest}"
        )
    columns = {
        "items": pa.array(list(lists.items), pa.string()),
        "relevance": pa.array(lists.relevance.astype(np.int8)),
        "features": pa.FixedSizeListArray.from_arrays(pa.array(lists.features.ravel()), lists.features.shape[1]),
    }
    offsets = pa.array(lists.offsets.astype(np.int32))
    made = {key: pa.ListArray.from_arrays(offsets, column) for key, column in columns.items()}
    yield pa.table({"topic": pa.array(list(lists.topics), pa.string()), **made})
