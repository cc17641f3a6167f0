"""The only functions that write and read the parquet files that steps exchange.

Every file has a contract (see `rankbound_study.data.schemas`). Its name and version, such as `instances/1`, are in the
file's metadata under `rankbound.schema`. `write_table` casts a table to its contract and writes the same bytes for the
same content; `read_table` refuses a file that breaks the contract and names the wrong column. Files are sealed (see
`rankbound.io.models`): a file whose bytes have changed since is refused as well.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound.io.models import DAMAGE, UNSEALED, check_memory, count_nulls, open_parquet, seal, unreadable
from rankbound.io.models import KEY as SEAL_KEY
from rankbound_study.data.schemas import CONTRACTS, SCHEMA_KEY, Contract, same_type, type_text


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
        writer = TableWriter(temporary, Path(path), CONTRACTS[contract], metadata or {})
        try:
            yield writer
        finally:
            writer.close()
        if not writer.opened:
            raise DataError(f"{path}: nothing was written: a {contract} file needs at least one table, even if empty")
        seal(temporary)


class TableWriter:
    """Appends tables to one file, each as a row group; the first one fixes what the contract leaves open."""

    def __init__(self, temporary: Path, path: Path, contract: Contract, metadata: Mapping[str, str]) -> None:
        self._temporary, self._path, self._contract = temporary, path, contract
        self._metadata = {SCHEMA_KEY: str(contract), **metadata}
        self._writer: pq.ParquetWriter | None = None

    @property
    def opened(self) -> bool:
        """Return whether any table was written."""
        return self._writer is not None

    def __call__(self, table: pa.Table) -> None:
        """Append `table` as one row group."""
        table = _conform(table, self._contract, f"the table meant for {self._path}")
        if self._writer is None:
            schema = table.schema.with_metadata(dict(sorted(self._metadata.items())))
            # Dictionaries pay off for repeated text; for numbers they cost more than they save.
            repeating = [column.name for column in schema if pa.types.is_string(column.type)]
            self._writer = pq.ParquetWriter(
                self._temporary, schema, compression="zstd", version="2.6", use_dictionary=repeating or False
            )
        if table.schema != self._writer.schema:
            raise DataError(f"{self._path}: a later part has the columns {table.schema}, not {self._writer.schema}")
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def note(self, key: str, value: str) -> None:
        """Add text to the file's metadata that is known only after the first tables (see `read_metadata`)."""
        if self._writer is None:
            raise ValueError("write a table first")
        self._writer.add_key_value_metadata({key: value})

    def close(self) -> None:
        """Write the footer."""
        if self._writer is not None:
            self._writer.add_key_value_metadata({SEAL_KEY: UNSEALED})
            self._writer.close()


def read_table(path: str | os.PathLike[str], contract: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read `path` (all columns, or those named); check version, presence, types and nulls by the contract.

    Raises DataError, which names the file and the column, what was found and what was expected.
    """
    expected = CONTRACTS[contract]
    with _opened(path, expected) as file:
        _check_columns(file.schema_arrow, expected, str(path))
        check_memory(file, path)
        for name in columns or ():
            if name not in file.schema_arrow.names:
                raise DataError(f"{path}: there is no column {name!r}; it has {', '.join(file.schema_arrow.names)}")
        table = file.read(columns=None if columns is None else list(columns))
        table.validate(full=True)
    _check_nulls(table, expected, str(path))
    return table if columns is None else table.select(list(columns))


def read_row_groups(path: str | os.PathLike[str], contract: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the named columns one row group at a time, to save memory; checks are those of `read_table`."""
    expected = CONTRACTS[contract]
    with _opened(path, expected) as file:
        _check_columns(file.schema_arrow, expected, str(path))
        check_memory(file, path)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=list(columns)).select(list(columns))
            table.validate(full=True)
            _check_nulls(table, expected, str(path))
            yield table


def read_metadata(path: str | os.PathLike[str], contract: str) -> dict[str, str]:
    """Return the text metadata of a file of that contract, after checking its version."""
    with _opened(path, CONTRACTS[contract]) as file:
        found = file.metadata.metadata or {}
        of_file = {b"ARROW:schema", SEAL_KEY.encode()}
        return {key.decode(): value.decode() for key, value in found.items() if key not in of_file}


def count_rows(path: str | os.PathLike[str], contract: str) -> int:
    """Return the number of rows in a file of that contract."""
    with _opened(path, CONTRACTS[contract]) as file:
        return int(file.metadata.num_rows)


def contract_of(path: str | os.PathLike[str], allowed: Sequence[str]) -> str:
    """Return which of the `allowed` contracts a file has, by its metadata; DataError if none."""
    file = open_parquet(path)
    found = (file.metadata.metadata or {}).get(SCHEMA_KEY.encode(), b"none").decode(errors="replace")
    file.close()
    for name in allowed:
        if found == str(CONTRACTS[name]):
            return name
    expected = " or ".join(str(CONTRACTS[name]) for name in allowed)
    raise DataError(f"{path}: the metadata key {SCHEMA_KEY!r} should be {expected}, found {found!r}")


@contextmanager
def _opened(path: str | os.PathLike[str], contract: Contract) -> Iterator[pq.ParquetFile]:
    """Open a file and check its version; damage that is noticed while it is open is a DataError, too."""
    file = open_parquet(path)
    try:
        _check_version(file.schema_arrow, contract, path)
        yield file
    except DAMAGE as error:
        raise unreadable(path, error) from error
    finally:
        file.close()


def _check_version(schema: pa.Schema, contract: Contract, path: str | os.PathLike[str]) -> None:
    found = (schema.metadata or {}).get(SCHEMA_KEY.encode())
    if found is None or found.decode(errors="replace") != str(contract):
        text = "none" if found is None else repr(found.decode(errors="replace"))
        raise DataError(
            f"{path}: the metadata key {SCHEMA_KEY!r} should be {str(contract)!r}, found {text}; this is "
            "another kind of file or one of another version: delete it and run the step that makes it again"
        )


def _check_columns(schema: pa.Schema, contract: Contract, where: str) -> None:
    for name, expected in contract.columns.items():
        if name not in schema.names:
            raise DataError(
                f"{where}: column {name!r} is missing; {contract} requires it as {type_text(expected)}, "
                f"and the columns found are {', '.join(schema.names) or 'none'}"
            )
        if not same_type(schema.field(name).type, expected):
            raise DataError(
                f"{where}: column {name!r} is {schema.field(name).type}, but {contract} requires {type_text(expected)}"
            )
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


def _conform(table: pa.Table, contract: Contract, where: str) -> pa.Table:
    """Return the table in the contract's column order and types, or raise DataError."""
    for name in contract.columns:
        if name not in table.column_names:
            _check_columns(table.schema, contract, where)
    order = [*contract.columns, *(name for name in table.column_names if name not in contract.columns)]
    columns = {name: _cast(table.column(name), contract.columns.get(name), name, where) for name in order}
    conformed = pa.table(columns)
    _check_columns(conformed.schema, contract, where)
    _check_nulls(conformed, contract, where)
    return conformed


def _cast(column: pa.ChunkedArray, expected: pa.DataType | str | None, name: str, where: str) -> pa.ChunkedArray:
    if expected is None or isinstance(expected, str) or same_type(column.type, expected):
        return column
    try:
        return column.cast(expected)
    except pa.ArrowException as error:
        raise DataError(f"{where}: column {name!r} cannot become {type_text(expected)}: {error}") from error
