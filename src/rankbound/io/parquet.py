"""Open untrusted parquet files: damaged, implausibly large and foreign files raise errors that name the file."""

import os

import pyarrow as pa
import pyarrow.parquet as pq

from rankbound.errors import DataError
from rankbound.io.seals import check_seal

# ValueError: names and texts that are not UTF-8, and invalid sizes.
DAMAGE = (pa.ArrowException, OSError, ValueError, MemoryError)

_PLACE_BYTES = 4


def open_parquet(path: str | os.PathLike[str]) -> pq.ParquetFile:
    """Open a file and check its seal, if it has one.

    Raises:
        DataError: the file is missing, does not match its seal, or is not a parquet file.
    """
    try:
        check_seal(path)
        return pq.ParquetFile(path, memory_map=False)
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; run the step that makes it first") from error
    except DAMAGE as error:
        raise unreadable(path, error) from error


def check_memory(file: pq.ParquetFile, path: str | os.PathLike[str]) -> None:
    """Reject a table larger than this machine's memory: a constant column takes no space in a file, however long.

    Raises:
        DataError: the rows need more memory than the machine has.
    """
    # Only rows and types are used: with a damaged footer, Arrow's column metadata may end the process.
    width = sum(_least_bytes(column.type) for column in file.schema_arrow)
    size = file.metadata.num_rows * width
    memory = memory_bytes()
    if not 0 <= size <= memory:
        raise DataError(
            f"{path}: its {file.metadata.num_rows} rows take {size / 2**30:.0f} GiB at least, and this machine has "
            f"{memory / 2**30:.0f}; if that size is implausible, the file is damaged: delete it and run the step that "
            "makes it again"
        )


def memory_bytes() -> int:
    """Return the bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def count_nulls(column: pa.ChunkedArray) -> int:
    """Return the number of nulls in a column, including those inside its lists."""
    nulls: int = column.null_count
    while nulls == 0 and (pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)):
        column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
        nulls = column.null_count
    return nulls


def unreadable(path: str | os.PathLike[str], error: Exception, kind: str = "parquet") -> DataError:
    """Return the error for a file that Arrow cannot read."""
    reason = str(error).split(". ")[0]
    return DataError(
        f"{path}: not a readable {kind} file ({reason}); it may be cut off or damaged: "
        "delete it and run the step that makes it again"
    )


def _least_bytes(column: pa.DataType) -> int:
    """Return the least number of bytes of a value in memory; for text and lists, that of an offset."""
    try:
        return int(column.byte_width)
    except ValueError:
        return _PLACE_BYTES
