"""PyTorch and Arrow, loaded at their first use, and the types of tensors for annotations.

Modules that import these names from here work without the libraries as long as they make no tensor and no Arrow table.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rankbound.errors import RankboundError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    import torch
    from torch import Tensor

    from rankbound.lists import ArrayLike, Lists
    from rankbound.ranks import Ranks, TieBlocks
else:

    class _Lazy(ModuleType):
        def __getattr__(self, name: str) -> Any:
            try:
                value = getattr(import_module(self.__name__), name)
            except ModuleNotFoundError as error:
                raise RankboundError(f"{error.name} is not installed: run pip install 'rankbound[data]'") from error
            setattr(self, name, value)
            return value

    torch, pa = _Lazy("torch"), _Lazy("pyarrow")
    pc, pq = _Lazy("pyarrow.compute"), _Lazy("pyarrow.parquet")
    ArrayLike = Lists = Ranks = TieBlocks = Tensor = Any

__all__ = ["ArrayLike", "Lists", "Ranks", "Tensor", "TieBlocks", "pa", "pc", "pq", "torch"]
