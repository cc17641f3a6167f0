"""Parse a chunk of LETOR lines with a compiled kernel; needs the extra `fast`."""

import sys

import numpy as np
import pyarrow as pa

from rankbound import kernels
from rankbound.io.letor_lines import Chunk, Rows

_KERNEL = "rankbound.kernels.text"
_WORTH_LOADING = 2**22
"""Bytes of text whose reading line by line takes about as long as loading the kernel, half a second."""

_LONGEST_MADE_NAME = 40
"""Digits of a query and of a line, and what is between them."""


def worth_a_kernel(bytes_read: int) -> bool:
    """Return true where the kernel is usable, and loaded already or worth it after as many bytes as were read."""
    return (_KERNEL in sys.modules or bytes_read >= _WORTH_LOADING) and kernels.usable()


def parse(chunk: Chunk, width: int, largest_label: int) -> Rows | None:
    """Return the rows of whole lines, numbered from `first`; None if any of them is irregular."""
    from rankbound.kernels.text import parse as kernel

    n = chunk.n_lines
    labels, queries, lines = np.empty(n, np.int8), np.empty(n, np.int64), np.empty(n, np.int64)
    features = np.zeros((n, width), np.float32)
    names, ends = np.empty(len(chunk.text) + _LONGEST_MADE_NAME * n, np.uint8), np.zeros(n + 1, np.int32)
    # A copy, since the kernel's argument is writable.
    text = np.array(np.frombuffer(chunk.text, np.uint8))
    count = kernel(text, chunk.first, largest_label, labels, queries, lines, features, names, ends)
    if count < 0:
        return None
    made = pa.StringArray.from_buffers(
        count, pa.py_buffer(ends[: count + 1]), pa.py_buffer(names[: ends[count]].copy())
    )
    return Rows(labels[:count], queries[:count], features[:count], made, lines[:count])
