"""Calls that `torch.compile` excludes from graphs; a separate module, since importing it loads the compiler."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _call(function: Callable[..., Tensor], *arguments: Any, **keywords: Any) -> Tensor:
    return function(*arguments, **keywords)


untraced: Callable[..., Tensor] = torch.compiler.disable(_call)  # type: ignore[no-untyped-call]
"""Call a function with the given arguments outside any graph."""
