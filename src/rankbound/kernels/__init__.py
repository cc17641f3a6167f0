"""Compiled kernels: the value and the gradient of a loss of each list in one pass.

The losses' formulas in PyTorch are the reference. On a CPU, kernels need the extra `fast`; the formulas are used for
second derivatives, with weights of items, and where Numba is missing or its cache can't be written. On a GPU, some
losses have kernels in Triton, which is installed with PyTorch's builds for GPUs (`rankbound.kernels.gpu`).

Compiled code is kept in a folder of the user's, named by the sources that it was made of: whatever has the same sources
shares it, another checkout or virtual environment too. It is `rankbound` in `$XDG_CACHE_HOME`, by default `~/.cache`
(`~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows), or `$RANKBOUND_CACHE`. It is only used if nobody else can
write to it, since compiled code is run.

The environment's `RANKBOUND_FAST=0` switches all of them off. With `RANKBOUND_FAST=triton`, tensors on a CPU take the
kernels in Triton, too; these then need its interpreter, `TRITON_INTERPRET=1`.
"""

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
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

# Sums may be reordered and zeros lose their signs, but NaN and infinities keep their meaning. A loop that both sums and
# writes is only compiled to vector instructions for arrays that lie apart, so that its sum would depend on addresses:
# sums and writes have loops of their own, here and in all kernels.
_ARITHMETIC = {"reassoc", "contract", "nsz", "arcp"}

# Compiling sets Numba's folder and the function's file.
_ONE_AT_A_TIME = Lock()


def usable() -> bool:
    """Return true where kernels can be compiled and kept, and are not switched off."""
    return os.environ.get("RANKBOUND_FAST", "1") not in ("0", "triton") and cache_folder() is not None and has("numba")


def usable_on_gpu(is_gpu: bool) -> bool:
    """Return true where Triton's kernels can be used for tensors on a GPU, or on a CPU, and are not switched off."""
    choice = os.environ.get("RANKBOUND_FAST", "1")
    return (choice == "triton" or (is_gpu and choice != "0")) and has("triton")


@cache
def has(package: str) -> bool:
    """Return true for a package that can be imported; Numba may be there and refuse the version of NumPy."""
    try:
        import_module(package)
    except ImportError:
        return False
    return True


class Compiled:
    """A function that is compiled for argument types at its first call, or loaded from the cache.

    Compiling takes up to ten seconds; it is announced on a terminal.
    """

    def __init__(self, function: Callable[..., Any], signature: str, arithmetic: set[str]) -> None:
        self._function, self._signature, self._arithmetic = function, signature, arithmetic
        self._code: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._code or self.load())(*arguments)

    def load(self) -> Callable[..., Any]:
        """Return the compiled function."""
        numba: Any = import_module("numba")
        folder, function = cache_folder(), self._function
        assert folder is not None
        module = function.__module__.rpartition(".")[2]
        if sys.stderr.isatty() and not any(folder.rglob(f"{module}.{function.__name__}-*.nbi")):
            print("rankbound: compiling a kernel for this machine, once", file=sys.stderr)
        with _ONE_AT_A_TIME:
            # Numba finds compiled code by the path of its source. By that of a copy in the folder of compiled code, all
            # checkouts and environments with the same sources share it.
            content = Path(function.__code__.co_filename).read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:16]
            copy = folder / f"{function.__module__}-{digest}" / f"{module}.py"
            if not copy.exists():
                copy.parent.mkdir(exist_ok=True)
                with tempfile.NamedTemporaryFile(dir=copy.parent, delete=False) as file:
                    file.write(content)
                Path(file.name).replace(copy)
            function.__code__ = function.__code__.replace(co_filename=str(copy))
            before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
            try:
                options = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": self._arithmetic}
                code: Callable[..., Any] = numba.njit(self._signature, **options)(function)
            finally:
                numba.config.CACHE_DIR = before
        self._code = code
        return code


def compiled(signature: str, exact: bool = False) -> Callable[[Callable[..., Any]], Compiled]:
    """Return a decorator that compiles a function for argument types, with the arithmetic of its text if `exact`."""
    return lambda function: Compiled(function, signature, set() if exact else _ARITHMETIC)


def _parts(arithmetic: set[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a function callable from compiled ones, into which it is compiled."""

    def part(function: Callable[..., Any]) -> Callable[..., Any]:
        numba: Any = import_module("numba")
        options = {"nogil": True, "error_model": "numpy", "fastmath": arithmetic}
        # A call would go to code optimised by itself in the process that compiles, and to other code, from the cache,
        # in later ones: the last digits of the first run would differ.
        options |= {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        made: Callable[..., Any] = numba.njit(**options)(function)
        return made

    return part


part = _parts(_ARITHMETIC)
# Sums keep their order.
ordered_part = _parts({"contract", "nsz"})
# The arithmetic is that of the text.
exact_part = _parts(set())


@cache
def cache_folder() -> Path | None:
    """Return the folder of the compiled kernels, which is made; None if it can't be written or isn't the user's own."""
    try:
        # Numba itself doesn't notice changes of functions that another calls.
        sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
        if sys.platform == "win32":
            caches = os.environ.get("LOCALAPPDATA") or tempfile.gettempdir()
        else:
            caches = "~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        of_user = Path(os.environ.get("RANKBOUND_CACHE") or caches).expanduser().absolute()
        folder = of_user / "rankbound" / f"kernels-{hashlib.sha256(sources).hexdigest()[:16]}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid"):
            found = folder.stat()
            if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):
        # RuntimeError: there is no home folder.
        return None
    return folder
