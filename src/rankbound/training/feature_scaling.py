"""Features brought to one scale, as a model reads them."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rankbound.lists import Lists

SCALES = ("standard", "query", "none")


@dataclass(frozen=True)
class Scaling:
    """`standard`: $(x - shift) \\cdot factor$ per feature; `query`: 0 .. 1 within each list; `none`: as they are.

    A feature that is the same everywhere becomes 0.
    """

    kind: str
    shift: Tensor
    factor: Tensor

    @classmethod
    def fitted(cls, kind: str, features: Tensor) -> "Scaling":
        """The scaling of `kind`, one of `SCALES`, for features `(n_items, d)`."""
        if kind != "standard":
            return cls(kind, features.new_zeros(0), features.new_zeros(0))
        mean = features.mean(0, dtype=torch.float64)
        # In double precision, one feature at a time: a large mean leaves little of a small spread in single.
        deviations = [
            (column.to(torch.float64) - mean[at]).square().mean().sqrt() for at, column in enumerate(features.T)
        ]
        deviation = torch.stack(deviations) if deviations else mean
        constant = (features == features[:1]).all(0)
        factor = torch.where(constant | (deviation == 0), 0.0, 1 / deviation)
        return cls(kind, mean.to(features.dtype), factor.to(features.dtype))

    @classmethod
    def from_tensors(cls, kind: str, tensors: Mapping[str, Tensor]) -> "Scaling":
        """What `tensors` gave."""
        return cls(kind, tensors["scaling.shift"], tensors["scaling.factor"])

    def tensors(self) -> dict[str, Tensor]:
        """For a file of tensors."""
        return {"scaling.shift": self.shift.cpu(), "scaling.factor": self.factor.cpu()}

    def __call__(self, features: Tensor, lists: Lists | None) -> Tensor:
        """Scaled features `(n_items, d)`; `ValueError` where `query` has no lists."""
        if self.kind == "none":
            return features
        if self.kind == "standard":
            return (features - self.shift.to(features)) * self.factor.to(features)
        if lists is None:
            raise ValueError("offsets: found none, expected the lists' limits: features are scaled within each list")
        low, high = lists.min(features), lists.max(features)
        spread = high - low
        factor = torch.where(spread > 0, 1 / spread, 0.0)
        return (features - lists.spread(low)) * lists.spread(factor)
