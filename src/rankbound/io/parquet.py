"""Opening parquet files from anywhere: damage, absurd sizes and foreign files are errors that name the file."""

import os

import pyarrow as pa
import pyarrow.parquet as pq

from rankbound.errors import DataError
from rankbound.io.seals import check_seal

# ValueError: names and texts that are not UTF-8, and sizes that are none.
DAMAGE = (pa.ArrowException, OSError, ValueError, MemoryError)

_PLACE_BYTES = 4


def open_parquet(path: str | os.PathLike[str]) -> pq.ParquetFile:
    """Open a file and check its seal, if it has one.

    Raises:
        DataError: there is no such file, its bytes are not those that were sealed, or it is no parquet file.
    """
    try:
        check_seal(path)
        return pq.ParquetFile(path, memory_map=False)
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; run the step that makes it first") from error
    except DAMAGE as error:
        raise unreadable(path, error) from error


def check_memory(file: pq.ParquetFile, path: str | os.PathLike[str]) -> None:
    """Refuse what no memory of this machine holds: a column of one value takes no space in a file, however long.

    Raises:
        DataError: the rows take more memory than there is.
    """
    # By the rows and types alone: a damaged footer makes Arrow end the process where it is asked about its columns.
    width = sum(_least_bytes(column.type) for column in file.schema_arrow)
    size = file.metadata.num_rows * width
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if not 0 <= size <= memory:
        raise DataError(
            f"{path}: its {file.metadata.num_rows} rows take {size / 2**30:.0f} GiB at least, and this machine has "
            f"{memory / 2**30:.0f}: if that cannot be, it is damaged: delete it and run the step that makes it again"
        )


def count_nulls(column: pa.ChunkedArray) -> int:
    """How many nulls a column holds, those inside its lists included."""
    nulls: int = column.null_count
    while nulls == 0 and (pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)):
        column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
        nulls = column.null_count
    return nulls


def unreadable(path: str | os.PathLike[str], error: Exception) -> DataError:
    """The error for a file that Arrow cannot read."""
    reason = str(error).split(". ")[0]
    return DataError(
        f"{path}: not a readable parquet file ({reason}); it may be cut off or damaged: "
        "delete it and run the step that makes it again"
    )


def _least_bytes(column: pa.DataType) -> int:
    """The least bytes of a value in memory: of texts and lists that of its place."""
    try:
        return int(column.byte_width)
    except ValueError:
        return _PLACE_BYTES
