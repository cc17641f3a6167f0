"""Calls that the compiler leaves to Python. A module of its own, for loading it loads the compiler."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _call(function: Callable[..., Tensor], *arguments: Any, **keywords: Any) -> Tensor:
    return function(*arguments, **keywords)


untraced: Callable[..., Tensor] = torch.compiler.disable(_call)  # type: ignore[no-untyped-call]
"""Of a function and its arguments: the function's value, computed outside any graph."""
