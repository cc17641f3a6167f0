"""Compiled kernels: the value and the gradient of a loss of each list in one pass, on a CPU; needs the extra `fast`.

The losses' formulas in PyTorch are the reference. They are used on other devices, for second derivatives, with weights
of items, and where Numba is missing, its cache can't be written, or the environment has `RANKBOUND_FAST=0`.
"""

import os
from functools import cache
from importlib import import_module
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

Kernel = tuple[Any, ...]
"""A kernel and its parameters, called as `kernel(scores, relevance, offsets, *parameters, losses, slopes)`.

All arrays are float64 but for the offsets, which are int64. It writes the loss of each list and its derivative by each
score, 0 in uninformative lists, and returns the number of informative lists. Invalid input, whose error the reference
reports, is -1. Single lists can be left to the reference, by the list alone: their losses are `LEFT`, and the number n
of informative lists is returned as -2 - n.
"""

LEFT = float("inf")
"""The loss of a list that a kernel leaves to the reference."""


def usable() -> bool:
    """Return true where kernels can be compiled and kept, and are not switched off."""
    return os.environ.get("RANKBOUND_FAST", "1") != "0" and _is_installed()


@cache
def _is_installed() -> bool:
    from rankbound.kernels.compiler import cache_folder

    if cache_folder() is None:
        return False
    try:
        # It may be there and refuse the version of NumPy.
        import_module("numba")
    except ImportError:
        return False
    return True
