"""Computations on the CPU whatever PyTorch's default device, for results that NumPy takes or caches hold."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def on_cpu(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function create its tensors on the CPU, after `torch.set_default_device("cuda")`, too."""

    @wraps(function)
    def call(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        if torch.get_default_device().type == "cpu":
            return function(*arguments, **keywords)
        with torch.device("cpu"):
            return function(*arguments, **keywords)

    return call
