"""Zero-copy conversion of NumPy, Arrow, polars and pandas columns to tensors, without importing those libraries.

Data are copied only where the layout requires it: several chunks, bit-packed booleans, negative strides. Sequences of
Python's numbers keep their double precision: in single precision, different scores could become ties.
"""

import warnings
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from rankbound.texts import LARGEST_EXACT

# Arrow's types whose names differ from NumPy's.
_ARROW_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


class Column(Protocol):
    """A flat column of numbers: a polars or pandas Series, an Arrow Array or ChunkedArray."""

    def __len__(self) -> int: ...

    def to_numpy(self, *arguments: Any, **keywords: Any) -> Any: ...


def column_tensor(values: Any, name: str) -> Tensor:
    """Return the numbers of `values` as a tensor that shares their memory where possible.

    Args:
        values: a NumPy array, Arrow array, polars or pandas Series or data frame, sequence of numbers, or
            anything with `__dlpack__`.
        name: the name of the argument in error messages.

    Raises:
        ValueError: for nulls and for values that aren't numbers.
    """
    try:
        if hasattr(values, "chunks") or hasattr(values, "buffers"):
            return _of_arrow(values, name)
        if isinstance(values, np.ndarray):
            if isinstance(values, np.ma.MaskedArray):
                _require_no_nulls(int(np.ma.getmaskarray(values).sum()), name)
            return _of_numpy(values)
        if hasattr(values, "to_numpy"):
            # Of polars or pandas; `to_numpy` of both returns a view where possible.
            nulls = values.null_count() if hasattr(values, "null_count") else values.isna()
            _require_no_nulls(int(np.sum(np.asarray(nulls))), name)
            return _of_numpy(values.to_numpy())
        if hasattr(values, "__dlpack__"):
            tensor: Tensor = from_dlpack(values)
            return tensor
        tensor = _of_numpy(values)
        is_flat = tensor.dtype == torch.float64 and tensor.dim() == 1
        for place in torch.nonzero(tensor.abs() >= LARGEST_EXACT).squeeze(1).tolist() if is_flat else ():
            if isinstance(values[place], int) and values[place] != tensor[place].item():
                raise ValueError(
                    f"{name}: found {values[place]} at {place} beside numbers with a fraction, expected whole numbers "
                    f"up to 2^53 ({LARGEST_EXACT}), which double precision holds: pass whole numbers alone"
                )
        return tensor
    except (TypeError, RuntimeError) as error:
        kind = getattr(values, "dtype", getattr(values, "type", type(values).__name__))
        raise ValueError(f"{name}: found {kind}, expected numbers ({error})") from None


def from_list_column(column: Any) -> tuple[Tensor, Tensor]:
    """Return the flat values and the offsets of a column of lists.

    Args:
        column: an Arrow `ListArray` or `LargeListArray` (or a `ChunkedArray` of one), or a polars or pandas Series of
            such lists. Lists of fixed-size lists give a matrix.

    Returns:
        Values `(n_items,)` or `(n_items, d)`, and offsets `(n_lists + 1,)` that start at 0. Both are views of the
        column's memory if it has one chunk; the offsets of a slice are copied.

    Raises:
        ValueError: for nulls and for a column that isn't of lists.

    >>> import polars as pl
    >>> rb.from_list_column(pl.Series([[0.5, 0.1], [0.2]]))
    (tensor([0.5000, 0.1000, 0.2000], dtype=torch.float64), tensor([0, 2, 3]))
    """
    if hasattr(column, "to_arrow"):
        column = column.to_arrow()
    elif hasattr(column, "array") and hasattr(column.array, "__arrow_array__"):
        column = column.array.__arrow_array__()
    lists = _one_chunk(column)
    if not hasattr(lists, "flatten") or not hasattr(lists, "offsets"):
        raise ValueError(f"column: found {getattr(lists, 'type', type(column).__name__)}, expected lists of numbers")
    _require_no_nulls(lists.null_count, "column")
    values, shape = lists.flatten(), [-1]
    while hasattr(values.type, "list_size"):
        _require_no_nulls(values.null_count, "column")
        shape.append(values.type.list_size)
        values = values.flatten()
    offsets = column_tensor(lists.offsets, "column")
    if len(offsets) == 0:
        offsets = torch.zeros(1, dtype=torch.int64, device="cpu")
    elif int(offsets[0]) != 0:
        offsets = offsets - offsets[0]
    flat = column_tensor(values, "column")
    return flat.reshape(shape) if len(shape) > 1 else flat, offsets


def _of_numpy(values: Any) -> Tensor:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise TypeError(str(error)) from None
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{array.dtype} is not a numeric type")
    if any(stride < 0 for stride in array.strides):
        array = array.copy()
    with warnings.catch_warnings():
        # Other libraries' arrays are often read-only, for which torch warns; no function here writes to its arguments.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        try:
            # Unlike `torch.as_tensor`, it stays on the CPU whatever the default device.
            return torch.from_numpy(array)
        except ValueError as error:
            raise TypeError(str(error)) from None


def _of_arrow(values: Any, name: str) -> Tensor:
    # Arrow's own conversion would import pandas.
    _require_no_nulls(values.null_count, name)
    array = _one_chunk(values)
    if str(array.type) == "bool":
        return _of_arrow(array.cast("int8"), name).to(torch.bool)
    dtype = np.dtype(_ARROW_NAMES.get(str(array.type), str(array.type)))
    if dtype.kind not in "biuf":
        raise TypeError(f"{array.type} is not a numeric type")
    if len(array) == 0:
        return _of_numpy(np.empty(0, dtype))
    return _of_numpy(np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize))


def _one_chunk(column: Any) -> Any:
    if hasattr(column, "chunks"):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def _require_no_nulls(count: int, name: str) -> None:
    if count:
        raise ValueError(f"{name}: found {count} nulls, expected a number for every item")
