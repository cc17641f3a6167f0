"""Scale features to a common range before a model reads them."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rankbound.lists import Lists

SCALES = ("standard", "query", "none")


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
    def fitted(cls, kind: str, features: Tensor) -> "Scaling":
        """Fit a scaling of `kind`, one of `SCALES`, to features `(n_items, d)`."""
        if kind != "standard":
            return cls(kind, features.new_zeros(0), features.new_zeros(0))
        mean = features.mean(0, dtype=torch.float64)
        # In double precision, since a large mean cancels a small spread; one feature at a time, to save memory.
        deviations = [
            (column.to(torch.float64) - mean[at]).square().mean().sqrt() for at, column in enumerate(features.T)
        ]
        deviation = torch.stack(deviations) if deviations else mean
        constant = (features == features[:1]).all(0)
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
        if self.kind == "none":
            return features
        if self.kind == "standard":
            return (features - self.shift.to(features)) * self.factor.to(features)
        if lists is None:
            raise ValueError("offsets: found none, expected those of the lists: features are scaled within each list")
        low, high = lists.min(features), lists.max(features)
        spread = high - low
        factor = torch.where(spread > 0, 1 / spread, 0.0)
        return (features - lists.spread(low)) * lists.spread(factor)
