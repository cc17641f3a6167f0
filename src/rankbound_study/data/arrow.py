"""NumPy and Arrow arrays over the same memory.

Arrow's own conversions import pandas if it is installed, which takes longer than a small step's whole work.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """Return a flat array of numbers as an Arrow array of the same type, without a copy if it is contiguous."""
    contiguous = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(contiguous.dtype)
    return pa.Array.from_buffers(kind, len(contiguous), [None, pa.py_buffer(contiguous)])


def strings_to_arrow(texts: Sequence[str]) -> pa.Array:
    """Return an Arrow array of `texts`."""
    encoded = [text.encode() for text in texts]
    offsets = np.fromiter(accumulate(map(len, encoded), initial=0), np.int32, len(encoded) + 1)
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def repeated(value: str | int | None, kind: pa.DataType, count: int) -> pa.Array:
    """Return an Arrow array of `count` times the same value; None gives nulls."""
    if value is None:
        return pa.nulls(count, kind)
    if isinstance(value, str):
        return strings_to_arrow([value] * count)
    return to_arrow(np.full(count, value, _dtype(kind)))


def to_numpy(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the numbers of an Arrow array without nulls; a read-only view of its memory if it has one chunk."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    views = [_view(chunk) for chunk in chunks]
    return views[0] if len(views) == 1 else np.concatenate([np.empty(0, _dtype(array.type)), *views])


def list_to_numpy(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return the offsets, from 0, and the numbers of a column of lists; views if it has one chunk."""
    lists = one_chunk(column)
    offsets = to_numpy(lists.offsets).astype(np.int64)
    return offsets - offsets[0], to_numpy(lists.flatten())


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a copy if it has one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _view(array: pa.Array) -> npt.NDArray[Any]:
    if array.null_count:
        raise ValueError(f"found {array.null_count} nulls, expected numbers only")
    buffer, dtype = array.buffers()[1], _dtype(array.type)
    if len(array) == 0:
        return np.empty(0, dtype)
    view = np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)
    view.flags.writeable = False
    return view


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype
