"""Score distributions that are computed when a list of a new size is first seen, and kept."""

import torch
from torch import Tensor

from rankbound.bounds.distribution import Gain, ScoreDistribution, score_distributions
from rankbound.bounds.tables import DistributionTables


class TablesOnDemand:
    """The exact score distributions of `metric`, for any sizes; `DistributionTables` holds those seen so far."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._known: dict[tuple[int, int], ScoreDistribution] = {}
        self._tables: DistributionTables | None = None

    def smooth_cdf(self, values: Tensor, n: Tensor, p: Tensor, gain: Gain = "distinct") -> Tensor:
        """As `DistributionTables.smooth_cdf`, for sizes with 0 < P < N."""
        pairs = {(size, count) for size, count in torch.stack([n, p], 1).tolist()}
        missing = sorted(pairs - self._known.keys())
        if missing or self._tables is None:
            new = [one.binned() for one in score_distributions(self._metric, missing)]
            self._known.update(zip(missing, new, strict=True))
            if not self._known:
                return values
            self._tables = DistributionTables.collect(self._known.values())
        return self._tables.smooth_cdf(values, n, p, gain)
