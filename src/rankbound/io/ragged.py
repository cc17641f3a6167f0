"""Items of chosen lists, in NumPy arrays."""

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def rows_of_lists(offsets: Indices, chosen: Indices) -> tuple[Indices, Indices]:
    """Return the rows of the chosen lists' items, one list after another, and the limits of these lists."""
    sizes = np.diff(offsets)[chosen]
    limits = np.append(0, np.cumsum(sizes))
    return np.repeat(np.asarray(offsets)[chosen] - limits[:-1], sizes) + np.arange(limits[-1]), limits
