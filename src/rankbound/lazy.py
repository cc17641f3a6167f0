"""PyTorch, Arrow, polars, scipy and tqdm, loaded at their first use, and the types of tensors for annotations.

Modules that import these names from here work without the libraries as long as they make no tensor and no table.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rankbound.errors import RankboundError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    import torch
    import tqdm
    from scipy import optimize, special, stats
    from torch import Tensor

    from rankbound.lists import ArrayLike, Lists
    from rankbound.ranks import Ranks, TieBlocks
else:

    class _Lazy(ModuleType):
        def __getattr__(self, name: str) -> Any:
            try:
                value = getattr(import_module(self.__name__), name)
            except ModuleNotFoundError as error:
                extra = "statistics" if error.name == "scipy" else "data"
                raise RankboundError(f"{error.name} is not installed: run pip install 'rankbound[{extra}]'") from error
            setattr(self, name, value)
            return value

    torch, pa = _Lazy("torch"), _Lazy("pyarrow")
    pc, pq = _Lazy("pyarrow.compute"), _Lazy("pyarrow.parquet")
    pl, tqdm = _Lazy("polars"), _Lazy("tqdm")
    optimize, special, stats = _Lazy("scipy.optimize"), _Lazy("scipy.special"), _Lazy("scipy.stats")
    ArrayLike = Lists = Ranks = TieBlocks = Tensor = Any

__all__ = ["ArrayLike", "Lists", "Ranks", "Tensor", "TieBlocks", "torch"]
__all__ += ["optimize", "pa", "pc", "pl", "pq", "special", "stats", "tqdm"]
