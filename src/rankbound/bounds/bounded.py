"""A bounded metric: the bounded value of hard orders, for evaluation and figures. Losses are in `rankbound.losses`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.bounds.distribution import score_distribution
from rankbound.bounds.extremes import Counts
from rankbound.bounds.kinds import Bound, Distribution, Facts, bound
from rankbound.lists import ArrayLike, Lists, as_tensor
from rankbound.metrics import Metric, metric


@dataclass(frozen=True)
class BoundedMetric:
    """A metric and a bound; call it as a metric. The value is not negated: for the nRBP loss lower stays better."""

    metric: Metric
    bound: Bound

    def __call__(self, scores: ArrayLike, relevance: ArrayLike, offsets: ArrayLike) -> Any:
        """The bounded metric of each list, float64 `(n_lists,)`; NaN where metric or bound are undefined."""
        value = torch.as_tensor(self.metric(scores, relevance, offsets))
        grades = as_tensor(relevance, "relevance")
        facts = Facts.of_lists(self.metric, grades, Lists.checked(offsets, len(grades)))
        bounded = self._of(value, facts)
        return bounded if isinstance(scores, Tensor) else bounded.numpy()

    def from_value(self, value: ArrayLike | float, n: Counts, p: Counts) -> npt.NDArray[np.float64]:
        """The bounded value of lists with `n` items, `p` of them relevant, whose metric is `value` (broadcast)."""
        arrays = np.broadcast_arrays(np.asarray(value, np.float64), np.asarray(n, np.int64), np.asarray(p, np.int64))
        values, sizes, counts = (torch.from_numpy(np.ascontiguousarray(array).ravel()) for array in arrays)
        bounded: npt.NDArray[np.float64] = self._of(values, Facts(self.metric, sizes, counts)).numpy()
        return bounded.reshape(arrays[0].shape)

    def _of(self, value: Tensor, facts: Facts) -> Tensor:
        if isinstance(self.bound, Distribution):
            return self.bound.through(self._discrete_cdf, value, facts)
        return self.bound(value, facts)

    def _discrete_cdf(self, values: Tensor, n: Tensor, p: Tensor) -> Tensor:
        """Algorithm 1 of the thesis, one distribution per distinct pair of sizes."""
        pairs, which = torch.unique(torch.stack([n, p], 1), dim=0, return_inverse=True)
        result = torch.empty_like(values)
        for index, (size, count) in enumerate(pairs.tolist()):
            distribution = score_distribution(str(self.metric), size, count)
            result[which == index] = torch.from_numpy(distribution.cdf(values[which == index].numpy()))
        return result

    def __str__(self) -> str:
        return f"{self.metric} {self.bound}"


def bounded(of: str | Metric, by: str | Bound) -> BoundedMetric:
    """The metric `of` bounded `by`: `bounded("nDCG", "min-max")`."""
    return BoundedMetric(metric(of), bound(by))
