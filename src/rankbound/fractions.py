"""A warning of relevance between 0 and 1, such as a share of judges: losses and metrics of binary relevance count none.

They count items from grade 1 on, so that without a word all losses would be 0, and most metrics NaN.
"""

import warnings
from collections.abc import Callable

from torch import Tensor


def are_fractions(relevance: Tensor) -> bool:
    """Return true if some relevance is above 0 and none reaches 1."""
    return bool(len(relevance) and relevance.is_floating_point() and 0 < float(relevance.max()) < 1)


def warn_of_fractions(name: str, relevance: Tensor, counts: Callable[[Tensor], Tensor]) -> None:
    """Warn that the loss or metric of this name counts none of these fractions, if it would count grades of 1.

    `counts` returns a mask that is true somewhere if any of the relevance counts.
    """
    ones = (relevance > 0).to(relevance.dtype)
    if bool(counts(relevance).any()) or not bool(counts(ones).any()):
        return
    warnings.warn(
        f"relevance: found numbers below 1 alone, which {name} does not count as relevant, so that it finds no "
        "relevant item in any list; use grades of 0 and 1, or a loss or metric of gains (nDCG(gain=linear), softmax)",
        stacklevel=3,
    )
