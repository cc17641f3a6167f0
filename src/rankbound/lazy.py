"""PyTorch, loaded at its first use, and the types of tensors for annotations.

Modules that import these names from here work without PyTorch as long as they make no tensor.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from rankbound.lists import ArrayLike, Lists
    from rankbound.ranks import Ranks, TieBlocks
else:

    class _Lazy(ModuleType):
        def __getattr__(self, name: str) -> Any:
            import torch

            value = getattr(torch, name)
            setattr(self, name, value)
            return value

    torch = _Lazy("torch")
    ArrayLike = Lists = Ranks = TieBlocks = Tensor = Any

__all__ = ["ArrayLike", "Lists", "Ranks", "Tensor", "TieBlocks", "torch"]
