"""MovieLens: the ratings of its archive as interactions."""

import os

import pyarrow as pa
import pyarrow.csv

from rankbound.errors import DataError
from rankbound_study.data.contracts import write_table
from rankbound_study.data.schemas import DATASET_KEY
from rankbound_study.data.sources import RawFile

_COLUMNS = {"userId": pa.int32(), "movieId": pa.int32(), "rating": pa.float32(), "timestamp": pa.int64()}
_NAMES = {"userId": "topic", "movieId": "item", "rating": "rating", "timestamp": "timestamp"}
_LOWEST, _HIGHEST = 0.5, 5.0


def convert(raw: RawFile, out: str | os.PathLike[str]) -> None:
    """Write the interactions of the archive `raw` to `out`, sorted by user and movie.

    Raises DataError for a malformed row, a rating that is not 0.5, 1, .. 5, or a user who rates a movie twice.
    """
    name = raw.find("ratings.csv")
    where = f"{raw.path}: {name}"
    with raw.open(name) as stream:
        table = _read_csv(stream.read(), where)
    table = table.sort_by([("topic", "ascending"), ("item", "ascending")]).combine_chunks()
    _check(table, where)
    write_table(table, out, "interactions", metadata={DATASET_KEY: "movielens"})


def _read_csv(text: bytes, where: str) -> pa.Table:
    header = text.partition(b"\n")[0].decode("utf-8", "replace").removesuffix("\r")
    if header != ",".join(_COLUMNS):
        raise DataError(f"{where}, line 1: found {header[:80]!r}, expected the columns {','.join(_COLUMNS)!r}")
    try:
        table = pyarrow.csv.read_csv(
            pa.py_buffer(text),
            # Errors give the row only with a single thread.
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=max(len(text), 1)),
            convert_options=pyarrow.csv.ConvertOptions(column_types=_COLUMNS, null_values=[]),
        )
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{where}: {error}; expected rows of user, movie, rating and timestamp (rows count from 1, the header)"
        ) from error
    return table.rename_columns([_NAMES[column] for column in table.column_names])


def _check(table: pa.Table, where: str) -> None:
    if not table.num_rows:
        raise DataError(f"{where}: it has no ratings")
    rating = table.column("rating").to_numpy()
    wrong = (rating < _LOWEST) | (rating > _HIGHEST) | ((rating * 2) % 1 != 0)
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"{where}: user {table['topic'][row]} rates movie {table['item'][row]} with {rating[row]:.4g}; "
            f"expected {_LOWEST}, 1.0, .. {_HIGHEST}"
        )
    topic, item = table.column("topic").to_numpy(), table.column("item").to_numpy()
    twice = (topic[1:] == topic[:-1]) & (item[1:] == item[:-1])
    if twice.any():
        row = int(twice.argmax())
        raise DataError(f"{where}: user {topic[row]} rates movie {item[row]} more than once")
