"""Coefficients of linear models of pixels, read from their weights files."""

from pathlib import Path
from typing import Any

import numpy as np

from rankbound.compare.scores import Floats
from rankbound.io.models import check_seal


def coefficients(path: Path, shape: tuple[int, int, int]) -> Floats | None:
    """Read the coefficients `shape` of the first fold and seed in a weights file; None if it holds no linear model.

    They refer to pixels from 0 to 1, whatever the model's own scale; those of a regression are in years.
    """
    from safetensors import safe_open

    check_seal(path)
    with safe_open(path, framework="numpy") as weights:
        names = sorted(weights.keys())
        found = [name for name in names if name.endswith("weight") and _size(weights, name) == int(np.prod(shape))]
        if not found:
            return None
        first = found[0].rsplit("/", 1)[0]
        own = {name.removeprefix(f"{first}/"): weights.get_tensor(name) for name in names if name.startswith(first)}
        values = np.asarray(weights.get_tensor(found[0]), dtype=np.float64).reshape(shape)
    deviation = np.asarray(own.get("scale.deviation", 1.0), dtype=np.float64).reshape(-1, 1, 1)
    scaled: Floats = values / deviation * float(own.get("target.deviation", 1.0))
    return scaled


def _size(weights: Any, name: str) -> int:
    return int(np.prod(weights.get_slice(name).get_shape()))
