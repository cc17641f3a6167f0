"""Scale features to a common range before a model reads them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rankbound.lists import Lists

SCALES = ("standard", "query", "none")

ROWS_AT_ONCE = 2**16
"""The number of rows of features that are copied at once."""


@dataclass(frozen=True)
class Scaling:
    """A feature scaling.

    `standard`: $(x - shift) \\cdot factor$ per feature; `query`: to 0 .. 1 within each list; `none`: unchanged.
    Constant features become 0, except under `none`.
    """

    kind: str
    shift: Tensor
    factor: Tensor

    @classmethod
    def fitted(cls, kind: str, features: Tensor, rows: Tensor | None = None) -> "Scaling":
        """Fit a scaling of `kind`, one of `SCALES`, to features `(n_items, d)`, or to some of their rows.

        The features are read in blocks of rows, twice: they may be larger than memory.
        """
        if kind != "standard":
            return cls(kind, features.new_zeros(0), features.new_zeros(0))
        chosen = torch.arange(len(features), device=features.device) if rows is None else rows
        # In double precision, since a large mean cancels a small spread.
        total = features.new_zeros(features.shape[1], dtype=torch.float64)
        for block in _blocks(features, chosen):
            total += block.sum(0, dtype=torch.float64)
        mean, squares = total / len(chosen), torch.zeros_like(total)
        first, constant = features[chosen[:1]], torch.ones_like(total, dtype=torch.bool)
        for block in _blocks(features, chosen):
            squares += (block.to(torch.float64) - mean).square().sum(0)
            constant &= (block == first).all(0)
        deviation = (squares / len(chosen)).sqrt()
        factor = torch.where(constant | (deviation == 0), 0.0, 1 / deviation)
        return cls(kind, mean.to(features.dtype), factor.to(features.dtype))

    @classmethod
    def from_tensors(cls, kind: str, tensors: Mapping[str, Tensor]) -> "Scaling":
        """Restore a scaling from the tensors that `tensors` returned."""
        return cls(kind, tensors["scaling.shift"], tensors["scaling.factor"])

    def tensors(self) -> dict[str, Tensor]:
        """Return the scaling as named tensors, to be saved."""
        return {"scaling.shift": self.shift.cpu(), "scaling.factor": self.factor.cpu()}

    def __call__(self, features: Tensor, lists: Lists | None) -> Tensor:
        """Return scaled features `(n_items, d)`; ValueError for `query` scaling without lists."""
        return ScaledFeatures(self, features, lists).of_rows(slice(None))


class ScaledFeatures:
    """Features `(n_items, d)` that are scaled when some of them are taken; they may be larger than memory.

    ValueError for `query` scaling without the `lists` of all rows.
    """

    def __init__(self, scaling: Scaling, features: Tensor, lists: Lists | None) -> None:
        self._kind, self._features, self._list = scaling.kind, features, None
        self._shift, self._factor = scaling.shift.to(features), scaling.factor.to(features)
        if scaling.kind == "query":
            if lists is None:
                raise ValueError("offsets: found none, expected those of the lists, within which features are scaled")
            low, high = lists.min(features), lists.max(features)
            self._shift, self._factor = low, torch.where(high > low, 1 / (high - low), 0.0)
            self._list = lists.segment

    def __len__(self) -> int:
        return len(self._features)

    def of_rows(self, rows: Tensor | slice) -> Tensor:
        """Return the scaled features of some rows, as indices or a slice."""
        features = self._features[rows] if isinstance(rows, slice) else self._features.index_select(0, rows)
        if self._kind == "none":
            return features
        if self._list is None:
            return (features - self._shift) * self._factor
        own = self._list[rows]
        return (features - self._shift.index_select(0, own)) * self._factor.index_select(0, own)


def _blocks(features: Tensor, rows: Tensor) -> Iterator[Tensor]:
    """Yield the features of `rows`, a block at a time."""
    for chosen in torch.split(rows, ROWS_AT_ONCE):
        yield features.index_select(0, chosen)
