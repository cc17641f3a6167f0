"""Compiled kernels: the value and the gradient of a loss of each list in one pass.

The losses' formulas in PyTorch are the reference. On a CPU, kernels need the extra `fast`; the formulas are used for
second derivatives, with weights of items, and where Numba is missing or its cache can't be written. On a GPU, some
losses have kernels in Triton, which is installed with PyTorch's builds for GPUs (`rankbound.kernels.gpu`).

The environment's `RANKBOUND_FAST=0` switches all of them off. With `RANKBOUND_FAST=triton`, tensors on a CPU take the
kernels in Triton, too; these then need its interpreter, `TRITON_INTERPRET=1`.
"""

import os
from collections.abc import Callable
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


GpuKernel = tuple[Callable[..., tuple[Any, Any]], float]
"""A function of scores, relevance, lists and weights of items (or None), and the number of items of its longest list.

It returns the losses `(n_lists,)` and their derivatives by the scores `(n_items,)`, without reading a GPU's numbers.
"""


def usable() -> bool:
    """Return true where kernels can be compiled and kept, and are not switched off."""
    return os.environ.get("RANKBOUND_FAST", "1") not in ("0", "triton") and _is_installed()


def usable_on_gpu(is_gpu: bool) -> bool:
    """Return true where Triton's kernels can be used for tensors on a GPU, or on a CPU, and are not switched off."""
    choice = os.environ.get("RANKBOUND_FAST", "1")
    return (choice == "triton" or (is_gpu and choice != "0")) and _has_triton()


@cache
def _has_triton() -> bool:
    try:
        import_module("triton")
    except ImportError:
        return False
    return True


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
