"""The parquet files that steps exchange: their columns, and the only functions that write and read them.

Every file has a contract of `CONTRACTS`. Its name and version, such as `instances/1`, are in the file's metadata under
`rankbound.schema`. `write_table` casts a table to its contract and writes the same bytes for the same content;
`read_table` refuses a file that breaks the contract and names the wrong column. Files are sealed (see
`rankbound.io.models`): a file whose bytes have changed since is refused as well.

The last functions convert between NumPy and Arrow over the same memory: Arrow's own conversions import pandas if it is
installed, which takes longer than a small step's whole work.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound.io.models import KEY as SEAL_KEY
from rankbound.io.models import UNSEALED, check_memory, count_nulls, damage, open_parquet, seal, unreadable

SPLITS = ("train", "validation", "test")
FOLDS = 5  # parts into which a user's relevant items, or generated lists, are cut
LARGEST_PART = 2**31 - 1  # items of all lists of a part at most: Arrow's lists have offsets of 32 bits

RATES = "rates"  # the table of what every rate of a grid reached
SIDECARS = ("epochs", "predictions", RATES)  # the tables beside the runs of a job, whose names end in these
WEIGHTS = "weights.safetensors"  # how the name of the weights beside them ends
CONTROLS_FILE = "controls.parquet"  # the file name of the runs of models without training

# Keys of the files' metadata.
SCHEMA_KEY = "rankbound.schema"  # of every file: its contract's name and version
DATASET_KEY = "rankbound.dataset"  # the data set of a file, or from which it was made
SYNTHETIC_KEY = "rankbound.synthetic"  # of synthetic files, and all made from them: how it was generated, sorted JSON
PARTS_KEY = "rankbound.parts"  # of a lists file: JSON object of the raw files' ranges of lists, [first, past last]
OPTIONS_KEY = "rankbound.folds"  # of a folds file of interactions or images: options it was made with, sorted JSON
TOPICS_KEY = "rankbound.topics"  # of a splits file: a digest of the topics of the lists that it splits
ITEM_COUNT_KEY = "rankbound.item_count"  # of an instances file: items are indices 0 .. this number - 1
# Of sampled instances, by index, and of interactions whose items are texts: JSON list of the item ids. (For judged
# lists, items are rows of the lists file.)
ITEM_NAMES_KEY = "rankbound.item_names"
TOPIC_NAMES_KEY = "rankbound.topic_names"  # of interactions whose users are texts: JSON list of them by number
LEFT_OUT_KEY = "rankbound.left_out"  # of sampled instances: JSON of the numbers of users and lists left out, if any
REPEATS_KEY = "rankbound.repeats"  # of sampled instances whose folds are drawn several times: how often


class Contract(NamedTuple):
    """Columns in order; those in `nullable` may hold nulls; `metrics` allows further columns of type float64."""

    name: str
    columns: Mapping[str, pa.DataType | str]
    nullable: frozenset[str]
    metrics: bool

    def __str__(self) -> str:
        """Return the name with the version."""
        return f"{self.name}/1"


_TRAINING = (
    "study: string, protocol: string, dataset: string, nsr_train: int8?, nsr_test: int8?, model: string, "
    "options: string, loss: string, bounding: string, fold: int8, seed: int16"
)
_LIST = f"{_TRAINING}, selection: string, topic: string"
_DISTRIBUTION = "minimum maximum expectation sd count low high width error".replace(" ", ": double, ")

_COLUMNS = {
    "interactions": "topic: int32, item: int32, rating: float, timestamp: int64",
    "lists": "topic: string, items: [string], relevance: [int8], features: list<fixed_size_list<float>[d]>",
    "list-splits": "fold: int8, split: string, list: int32",
    "interaction-folds": "topic: int32, item: int32, fold: int8",
    "interaction-splits": "fold: int8, split: string, topic: int32, item: int32",
    # Pixels are the bytes of a picture, all red, then green, then blue.
    "images": "face: string, number: int32, age: int8, group: int32, pixels: fixed_size_binary[d]",
    "image-folds": "fold: int8, split: string, face: string",
    "image-features": "face: string, features: fixed_size_list<float>[d]",
    "instances": "dataset: string, nsr: int8?, fold: int8, split: string, topic: string, items: [int64], "
    "relevance: [int8]",
    "distributions": f"metric: string, n: int32, p: int32, {_DISTRIBUTION}: double, support: [double], "
    "probability: [double]",
    "runs": f"{_LIST}, drawing: int8, n: int32, p: int32, epoch: int32, metrics: ...",
    "epochs": f"{_TRAINING}, epoch: int32, part: string, mean_loss: double, gradient_norm: double, metrics: ...",
    RATES: f"{_TRAINING}, learning_rate: double, epoch: int32, score: double, test_score: double, chosen: bool",
    "predictions": f"{_LIST}, items: [int64], scores: [float]",
}
"""Columns with their types: `[int8]` is a list, `int8?` may hold nulls, `[d]` has any width, `...` is any metrics."""


def _contract(name: str, text: str) -> Contract:
    kinds = dict(column.split(": ") for column in text.split(", "))
    has_metrics = kinds.pop("metrics", None) is not None
    columns: dict[str, pa.DataType | str] = {}
    for column, kind in kinds.items():
        columns[column] = kind if "[d]" in kind else pa.type_for_alias(kind.strip("[]?"))
        if kind.startswith("["):
            columns[column] = pa.list_(columns[column])
    return Contract(name, columns, frozenset(name for name, kind in kinds.items() if kind.endswith("?")), has_metrics)


CONTRACTS: Mapping[str, Contract] = {name: _contract(name, text) for name, text in _COLUMNS.items()}


def beside(out: Path, ending: str) -> Path:
    """Return the sidecar of the runs file `out`: min-max.epochs.parquet beside min-max.parquet."""
    return out.with_name(f"{out.name.removesuffix('.parquet')}.{ending}")


def origin(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata that a file takes over from those it is made of: data set, and how it was generated."""
    return {key: metadata[key] for key in (DATASET_KEY, SYNTHETIC_KEY) if key in metadata}


def type_text(kind: pa.DataType | str) -> str:
    """Return a type in Arrow's words, without the names of fields, and with any width, as contracts name it."""
    return re.sub(r"\[\d+\]", "[d]", re.sub(r"\w+: ", "", str(kind)))


def write_table(
    table: pa.Table,
    path: str | os.PathLike[str],
    contract: str,
    row_group_sizes: Sequence[int] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write `table` under the contract of that name: zstd, the same bytes for the same content, by rename.

    Columns are put into the contract's order and cast safely to its types. `row_group_sizes`, which must add up to the
    number of rows, sets the row groups; `metadata` is added to the file's metadata. Raises DataError, naming the
    column, for a missing, unknown or uncastable column, or for nulls that the contract does not allow.
    """
    sizes = [table.num_rows] if row_group_sizes is None else list(row_group_sizes)
    if sum(sizes) != table.num_rows or min(sizes, default=0) < 0:
        raise ValueError(f"row groups of {sizes} rows do not add up to the {table.num_rows} rows of the table")
    with open_writer(path, contract, metadata) as write:
        start = 0
        for size in sizes:
            write(table.slice(start, size))
            start += size


@contextmanager
def open_writer(
    path: str | os.PathLike[str], contract: str, metadata: Mapping[str, str] | None = None
) -> Iterator["TableWriter"]:
    """Yield a function that appends a table as one row group; the file appears if the block ends without an error."""
    with atomic_path(path) as temporary:
        writer = TableWriter(temporary, path, CONTRACTS[contract], metadata or {})
        try:
            yield writer
        finally:
            if writer.file is not None:
                writer.note(SEAL_KEY, UNSEALED)
                writer.file.close()
        if writer.file is None:
            raise DataError(f"{path}: nothing was written: a {contract} file needs at least one table, even if empty")
        seal(temporary)


class TableWriter:
    """Appends tables to one file, each as a row group; the first one fixes what the contract leaves open."""

    def __init__(
        self, temporary: Path, path: str | os.PathLike[str], contract: Contract, metadata: Mapping[str, str]
    ) -> None:
        self._temporary, self._path, self._contract = temporary, path, contract
        self._metadata = {SCHEMA_KEY: str(contract), **metadata}
        self.file: pq.ParquetWriter | None = None

    def __call__(self, table: pa.Table) -> None:
        """Append `table` as one row group, in the contract's column order and types."""
        where = f"the table meant for {self._path}"
        known = {name: table.column(name) for name in self._contract.columns if name in table.column_names}
        for name, column in known.items():
            expected = self._contract.columns[name]
            if isinstance(expected, pa.DataType) and column.type != expected:
                try:
                    known[name] = column.cast(expected)
                except pa.ArrowException as error:
                    raise DataError(f"{where}: column {name!r} cannot become {type_text(expected)}: {error}") from error
        table = pa.table(known | {name: table.column(name) for name in table.column_names if name not in known})
        _check_columns(table.schema, self._contract, where)
        _check_nulls(table, self._contract, where)
        if self.file is None:
            schema = table.schema.with_metadata(dict(sorted(self._metadata.items())))
            # Dictionaries pay off for repeated text; for numbers they cost more than they save.
            repeating = [column.name for column in schema if pa.types.is_string(column.type)]
            self.file = pq.ParquetWriter(
                self._temporary, schema, compression="zstd", version="2.6", use_dictionary=repeating or False
            )
        if table.schema != self.file.schema:
            raise DataError(f"{self._path}: a later part has the columns {table.schema}, not {self.file.schema}")
        self.file.write_table(table, row_group_size=max(table.num_rows, 1))

    def note(self, key: str, value: str) -> None:
        """Add text to the file's metadata that is known only after the first tables (see `read_metadata`)."""
        if self.file is None:
            raise ValueError("write a table first")
        self.file.add_key_value_metadata({key: value})


def read_table(path: str | os.PathLike[str], contract: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read `path` (all columns, or those named); check version, presence, types and nulls by the contract.

    Raises DataError, which names the file and the column, what was found and what was expected.
    """
    with _opened(path, contract, whole=True) as file:
        names = file.schema_arrow.names
        unknown = next((name for name in columns or () if name not in names), None)
        if unknown is not None:
            raise DataError(f"{path}: there is no column {unknown!r}; it has {', '.join(names)}")
        return _checked(file.read(columns=list(columns or names)), columns or names, contract, path)


def read_row_groups(path: str | os.PathLike[str], contract: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the named columns one row group at a time, to save memory; checks are those of `read_table`."""
    with _opened(path, contract, whole=True) as file:
        for group in range(file.num_row_groups):
            yield _checked(file.read_row_group(group, columns=list(columns)), columns, contract, path)


def read_metadata(path: str | os.PathLike[str], contract: str) -> dict[str, str]:
    """Return the text metadata of a file of that contract, after checking its version."""
    with _opened(path, contract) as file:
        found = file.metadata.metadata or {}
        of_file = {b"ARROW:schema", SEAL_KEY.encode()}
        return {key.decode(): value.decode() for key, value in found.items() if key not in of_file}


def contract_of(path: str | os.PathLike[str], allowed: Sequence[str]) -> str:
    """Return which of the `allowed` contracts a file has, by its metadata; DataError if none."""
    with _opened(path, *allowed) as file:
        name: str = file.schema_arrow.metadata[SCHEMA_KEY.encode()].decode().partition("/")[0]
        return name


@contextmanager
def _opened(path: str | os.PathLike[str], *names: str, whole: bool = False) -> Iterator[pq.ParquetFile]:
    """Open a file and check its version, and for `whole` reads its columns and whether they fit into memory.

    Damage that is noticed while it is open is a DataError, too.
    """
    with closing(open_parquet(path)) as file:
        try:
            found = (file.schema_arrow.metadata or {}).get(SCHEMA_KEY.encode(), b"none").decode(errors="replace")
            if found not in (expected := [str(CONTRACTS[name]) for name in names]):
                raise DataError(
                    f"{path}: the metadata key {SCHEMA_KEY!r} should be {' or '.join(expected)}, found {found!r}; this "
                    "is another kind of file or one of another version: delete it and run the step that makes it again"
                )
            if whole:
                _check_columns(file.schema_arrow, CONTRACTS[names[0]], str(path))
                check_memory(file, path)
            yield file
        except damage() as error:
            raise unreadable(path, error) from error


def _checked(table: pa.Table, columns: Sequence[str], contract: str, path: str | os.PathLike[str]) -> pa.Table:
    """Return these columns of a table that was read."""
    table.validate(full=True)
    table = table.select(list(columns))
    _check_nulls(table, CONTRACTS[contract], str(path))
    return table


def _check_columns(schema: pa.Schema, contract: Contract, where: str) -> None:
    for name, expected in contract.columns.items():
        if name not in schema.names:
            raise DataError(
                f"{where}: column {name!r} is missing; {contract} requires it as {type_text(expected)}, "
                f"and the columns found are {', '.join(schema.names) or 'none'}"
            )
        kind = schema.field(name).type
        if (type_text(kind) if isinstance(expected, str) else kind) != expected:
            raise DataError(f"{where}: column {name!r} is {kind}, but {contract} requires {type_text(expected)}")
    for name in schema.names:
        if name in contract.columns:
            continue
        if not contract.metrics:
            raise DataError(f"{where}: column {name!r} is not one of {contract}: {', '.join(contract.columns)}")
        if schema.field(name).type != pa.float64():
            raise DataError(f"{where}: metric column {name!r} is {schema.field(name).type}, not double")


def _check_nulls(table: pa.Table, contract: Contract, where: str) -> None:
    for name in table.column_names:
        if name in contract.nullable:
            continue
        if nulls := count_nulls(table.column(name)):
            raise DataError(f"{where}: column {name!r} holds {nulls} nulls; {contract} allows none")


FoldLists = tuple[int, str, pa.Table]  # a fold, a split, and its lists by `lists_table`


def lists_table(
    names: Sequence[str], items: npt.NDArray[np.int64], relevance: npt.NDArray[np.int8], offsets: npt.NDArray[np.int64]
) -> pa.Table:
    """Return a row for each list: the topic's name, items and relevance."""
    if offsets[-1] > LARGEST_PART:
        raise DataError(f"found {offsets[-1]:,} items in the lists of a part, expected at most {LARGEST_PART:,}")
    return _table_of_lists(names, offsets, {"items": to_arrow(items), "relevance": to_arrow(relevance)})


def judged_table(
    names: Sequence[str],
    items: Sequence[str],
    relevance: npt.NDArray[np.int8],
    features: npt.NDArray[np.float32],
    offsets: npt.NDArray[np.int64],
) -> pa.Table:
    """Return a row for each judged list: the topic's name, and its items' names, relevance and features `(n, d)`."""
    vectors = pa.FixedSizeListArray.from_arrays(to_arrow(features.reshape(-1)), features.shape[1])
    columns = {"items": strings_to_arrow(items), "relevance": to_arrow(relevance), "features": vectors}
    return _table_of_lists(names, offsets, columns)


def _table_of_lists(names: Sequence[str], offsets: npt.NDArray[np.int64], columns: Mapping[str, pa.Array]) -> pa.Table:
    starts = to_arrow(offsets.astype(np.int32))
    lists = {name: pa.ListArray.from_arrays(starts, values) for name, values in columns.items()}
    return pa.table({"topic": strings_to_arrow(names), **lists})


def to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """Return a flat array of numbers as an Arrow array of the same type, without a copy if it is contiguous."""
    contiguous = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(contiguous.dtype)
    return pa.Array.from_buffers(kind, len(contiguous), [None, pa.py_buffer(contiguous)])


def strings_to_arrow(texts: Sequence[str]) -> pa.Array:
    """Return texts as an Arrow array."""
    encoded = [text.encode() for text in texts]
    offsets = np.fromiter(accumulate(map(len, encoded), initial=0), np.int32, len(encoded) + 1)
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def with_key(key: Mapping[str, Any], columns: Mapping[str, Any], contract: str, rows: int) -> pa.Table:
    """Return the columns of so many rows after those of the key, which all of them share; None gives nulls."""
    keyed, types = dict[str, pa.Array](), dict[str, Any](CONTRACTS[contract].columns)
    for name, value in key.items():
        if value is None:
            keyed[name] = pa.nulls(rows, types[name])
        elif isinstance(value, str):
            keyed[name] = strings_to_arrow([value] * rows)
        else:
            keyed[name] = to_arrow(np.full(rows, value, types[name].to_pandas_dtype()))
    return pa.table({**keyed, **columns})


def to_numpy(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the numbers of an Arrow array without nulls; a read-only view of its memory if it has one chunk."""
    view: npt.NDArray[Any] = np.from_dlpack(one_chunk(array) if isinstance(array, pa.ChunkedArray) else array)
    return view


def list_to_numpy(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return the offsets, from 0, and the numbers of a column of lists; views if it has one chunk."""
    lists = one_chunk(column)
    offsets = to_numpy(lists.offsets).astype(np.int64)
    return offsets - offsets[0], to_numpy(lists.flatten())


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a copy if it has one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
