"""The topics and items that a factorisation knows, by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rankbound.errors import DataError
from rankbound.io.files import needs_extra
from rankbound.io.judged import Names, Qrels
from rankbound.printable import quoted
from rankbound.quantities import quantity
from rankbound.seeds import Indices

if TYPE_CHECKING:
    import polars as pl

UNSEEN = -1
"""The index of a name that is not known."""

_PREFIX = "known."


@dataclass(frozen=True)
class Vocabulary:
    """Names of topics and items, each distinct and sorted: a name's place is the index of its factors."""

    topics: "pl.Series"
    items: "pl.Series"

    @classmethod
    def of_lists(cls, lists: Qrels) -> "Vocabulary":
        """Return the vocabulary of all topics and items of some lists."""
        return cls(_names(lists.topics).sort(), _names(lists.items).unique().sort())

    def indices(self, lists: Qrels) -> tuple[Indices, Indices]:
        """Return the indices of the lists' topics `(n_lists,)` and of their items `(n_items,)`; unknown ones are -1."""
        return _places(self.topics, lists.topics), _places(self.items, lists.items)

    def count_unknown(self, lists: Qrels) -> int:
        """Return the number of the lists' items that are unknown, or whose topic is."""
        topics, items = self.indices(lists)
        return int(((np.repeat(topics, np.diff(lists.offsets)) == UNSEEN) | (items == UNSEEN)).sum())

    def known_indices(self, lists: Qrels, unknown: str, where: str = "") -> tuple[Indices, Indices]:
        """Return `indices`; DataError for unknown names, unless `unknown` is `mean` and at least one item is known.

        `where` precedes the message.
        """
        topics, items = self.indices(lists)
        if unknown == "refuse" and (message := _first_unknown(lists, topics, items)):
            raise DataError(
                f"{where}{message}, which the ranker was not trained on: train it on a table with all topics and "
                "items, or score unknown ones by the mean of the others with unknown='mean' (on the command line: "
                "--unknown mean)"
            )
        if len(items) and (items == UNSEEN).all():
            raise DataError(
                f"{where}none of the {len(items)} items is one that the ranker was trained on: found "
                f"{quoted(lists.items[0])}, expected names such as {quoted(self.items[0])}"
            )
        return topics, items

    def tensors(self) -> dict[str, Tensor]:
        """Return the names as tensors, to be saved: their text in UTF-8, and where each name ends in it."""
        tensors = {}
        for kind, names in (("topics", self.topics), ("items", self.items)):
            text = np.frombuffer(bytearray(names.str.join("").item().encode()), np.uint8)
            tensors[f"{_PREFIX}{kind}.text"] = torch.from_numpy(text)
            ends = names.str.len_bytes().cast(int).cum_sum().to_numpy()
            tensors[f"{_PREFIX}{kind}.ends"] = torch.from_numpy(ends.copy())
        return tensors

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Vocabulary":
        """Restore the names that `tensors` returned; ValueError if they are damaged."""
        topics, items = (
            _restored(tensors[f"{_PREFIX}{kind}.text"], tensors[f"{_PREFIX}{kind}.ends"], kind)
            for kind in ("topics", "items")
        )
        return cls(topics, items)


def _first_unknown(lists: Qrels, topics: Indices, items: Indices) -> str:
    """Name the first unknown topic, or else the first unknown item, with the number of others."""
    if (unseen := np.flatnonzero(topics == UNSEEN)).size:
        others = f" (and {quantity(len(unseen) - 1, 'other topic')})" if len(unseen) > 1 else ""
        return f"found topic {quoted(lists.topics[unseen[0]])}{others}"
    if (unseen := np.flatnonzero(items == UNSEEN)).size:
        topic = lists.topics[int(np.searchsorted(lists.offsets, unseen[0], side="right")) - 1]
        others = f" (and {quantity(len(unseen) - 1, 'other row')} of unknown items)" if len(unseen) > 1 else ""
        return f"found item {quoted(lists.items[int(unseen[0])])} of topic {quoted(topic)}{others}"
    return ""


def _names(names: Names) -> "pl.Series":
    with needs_extra("data"):
        from rankbound.io.table_columns import name_column
    return name_column(names)


def _places(known: "pl.Series", names: Names) -> Indices:
    places: Indices = _names(names).replace_strict(known, np.arange(len(known)), default=UNSEEN).to_numpy()
    return places.astype(np.int64)


def _restored(text: Tensor, ends: Tensor, kind: str) -> "pl.Series":
    with needs_extra("data"):
        import polars as pl
        import pyarrow as pa
    if text.dtype != torch.uint8 or ends.dtype != torch.int64 or text.dim() != 1 or ends.dim() != 1:
        raise ValueError(f"the names of its {kind} should be bytes, and whole numbers where they end")
    buffers = [None, pa.py_buffer(np.append(0, ends.numpy())), pa.py_buffer(text.numpy())]
    array = pa.Array.from_buffers(pa.large_string(), len(ends), buffers)
    array.validate(full=True)
    names = pl.Series(kind, pl.from_arrow(array), dtype=pl.String)
    if len(text) != (int(ends[-1]) if len(ends) else 0) or not bool((names[1:] > names[:-1]).all()):
        raise ValueError(f"the names of its {kind} should be distinct and sorted")
    return names
