"""Compatibility with an ideal ranking, by rank-biased overlap."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rankbound.kernels.formulas import Floats
from rankbound.lazy import Lists, Ranks, Tensor, torch
from rankbound.metrics.base import Metric, ratio


@dataclass(frozen=True, kw_only=True)
class Compatibility(Metric):
    r"""Compatibility (Clarke, Vtyurina and Smucker, TOIS 2021): rank-biased overlap with the ideal ranking.

    $$\mathrm{Compat@}k = \frac{\sum_{d=1}^k p^{d-1} |I_d \cap S_d| / d}{\sum_{d=1}^k p^{d-1} \min(d, P) / d}
      = \frac{\sum_i w(\max(R_i, Q_i))}{\sum_i w(Q_i)}, \qquad w(r) = \sum_{d=r}^k p^{d-1} / d$$

    with $S_d$ the first d items of the list and $I_d$ those of the ideal ranking of the P items with a grade above 0:
    by descending grade, items of one grade in the order of the list, which is the ideal ranking of largest overlap.
    $Q_i$ is the rank of item i in it. The sums over i are over these P items. The published program has k = 1000;
    ir_measures has the length of the list or of the ideal ranking, whichever is longer, as here by default. NaN without
    relevant items.

    With smooth ranks, $w$ is linear between whole ranks and $Q$ is that of the order of the ranks. The mean over the
    orders of tied items is exact for up to 200 distinct orders of grades in a list, otherwise the mean over 200 random
    ones.

    Args:
        p: the persistence, $0 \le p < 1$.
        cutoff: k, the depth, which may exceed the list.

    Raises:
        ValueError: for `cutoff` below 1 or above 10,000,000, or a persistence out of range.

    >>> rb.metric("Compat(p=0.5)")([0.9, 0.5, 0.1], [1, 2, 0], [0, 3])
    array([0.4])
    """

    name = "Compat"
    span = (0.0, 1.0)
    p: float = 0.95
    cutoff: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("p", 0 <= self.p < 1, "a persistence in [0, 1)")
        self._require_summed()

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        from rankbound.ranks import descending_order

        relevant, found = relevance > 0, ~torch.isinf(ranks.position)
        # In the ideal ranking, items of one grade are in the order of the list.
        order = descending_order(-ranks.position.detach(), lists)
        order = order[descending_order(relevance.to(torch.float64)[order], lists)]
        ideal = torch.empty_like(ranks.position).index_copy(0, order, (lists.position + 1).to(ranks.position))
        if self.cutoff is None:
            lengths = ranks.sizes - lists.sum((~found).to(torch.float64)), lists.sum(relevant.to(torch.float64))
            depth = torch.maximum(*lengths)
        else:
            depth = torch.full((len(lists),), float(self.cutoff), dtype=torch.float64, device=lists.device)
        deepest = int(depth.max()) if len(lists) else 0
        sums = torch.from_numpy(_sums(self.p, deepest)).to(ranks.position)
        whole = lists.spread(sums[depth.to(torch.int64)])

        def weight(rank: Tensor) -> Tensor:
            above = (rank - 1).clamp(max=deepest)
            low = above.detach().to(torch.int64)
            return (whole - sums[low] - (above - low) * (sums[low + 1] - sums[low])).clamp(min=0)

        reached = torch.maximum(torch.where(found, ranks.position, 1.0), ideal)
        total = lists.sum(torch.where(relevant & found, weight(reached), 0.0))
        return ratio(total, lists.sum(torch.where(relevant, weight(ideal), 0.0)))


@lru_cache(maxsize=16)
def _sums(p: float, depth: int) -> Floats:
    """Return the sums of p^(d - 1) / d over d = 1 .. x, for x = 0 .. depth, and the last one again."""
    terms = p ** np.arange(float(depth)) / np.arange(1, depth + 1)
    return np.concatenate(([0.0], np.cumsum(np.append(terms, 0.0))))
