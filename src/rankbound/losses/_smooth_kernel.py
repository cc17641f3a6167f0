"""The compiled kernel of a metric at smooth ranks."""

from functools import lru_cache

import torch

from rankbound.interpolation import SIGMOID, SIGMOID_SLOPE, kernel_matrix
from rankbound.kernels import Kernel, usable, with_numbers
from rankbound.kernels.formulas import METHODS, RANK_SUM, Formula
from rankbound.metrics import Metric
from rankbound.metrics.base import formula_of
from rankbound.metrics.cumulative_gain import largest_grade


def smooth_kernel(
    of: Metric,
    temperature: float,
    method: str,
    dtype: torch.dtype,
    *,
    sign: float = 1.0,
    undefined: float = 0.0,
) -> Kernel | None:
    """Return the kernel of `sign` times the metric, `undefined` in lists without relevant items; None without one."""
    formula = smooth_formula_of(of)
    if formula is None or not usable():
        return None
    return _with_parameters(formula, temperature, METHODS.index(method), dtype, sign, undefined)


def smooth_formula_of(of: Metric) -> Formula | None:
    """Return the formula of a metric, if kernels of smooth ranks know it."""
    formula = formula_of(of)
    return formula if formula is not None and formula.kind <= RANK_SUM else None


@lru_cache(maxsize=256)
def _with_parameters(
    formula: Formula,
    temperature: float,
    method: int,
    dtype: torch.dtype,
    sign: float,
    undefined: float,
) -> Kernel:
    from rankbound.kernels.smooth import smooth_metric

    cpu = torch.device("cpu")
    matrices = tuple(kernel_matrix(one, cpu).numpy() for one in (SIGMOID, SIGMOID_SLOPE))
    numbers = formula.numbers, _largest(formula, dtype), float(temperature), method, matrices
    return with_numbers(smooth_metric, *numbers, sign, undefined)


def _largest(formula: Formula, dtype: torch.dtype) -> float:
    """Return the largest grade whose gain is finite in the scores' precision, at least single."""
    if formula.gain != "exp2":
        return torch.finfo(torch.float64).max
    return float(largest_grade(torch.promote_types(dtype, torch.float32)))
