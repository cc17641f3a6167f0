"""Inferred average precision, for judgements of a sample of the pool."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics.base import POOLED, Thresholded, Unjudged, ratio
from rankbound.ranks import Ranks

# The smoothing of Yilmaz and Aslam, as trec_eval has it.
EPSILON = 1e-5


@dataclass(frozen=True, kw_only=True)
class InferredAveragePrecision(Thresholded):
    r"""Inferred average precision (Yilmaz and Aslam, CIKM 2006), as in trec_eval.

    $$\mathrm{infAP} = \frac{1}{P} \sum_{i: y_i \ge \mathrm{rel}} \frac{1}{R_i}
      \left(1 + D_i\, \frac{A_i + \epsilon}{J_i + 2 \epsilon}\right)$$

    with, among the items above item i, the pooled ones $D_i$, the judged ones $J_i$ and the relevant ones $A_i$, and
    $\epsilon = 10^{-5}$. In the evaluation of a run, items that the qrels hold are pooled, and judged unless their
    relevance is negative; a relevant item that the run lacks adds 0. In a list, all items are pooled and judged, and
    the value is AP but for $\epsilon$. NaN without relevant items. The mean over the orders of tied items is exact for
    up to 200 distinct orders of grades in a list, otherwise the mean over 200 random ones.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1.

    >>> rb.metric("infAP")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3]).round(4)
    array([0.8333])
    """

    name: ClassVar[str] = "infAP"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)
    unjudged: ClassVar[Unjudged] = "marked"

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return self.relevant(relevance), relevance >= 0, relevance >= POOLED

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        above, judged, pooled = ranks.above
        relevant = self.relevant(relevance).to(ranks.position)
        precision = (above + EPSILON) / (judged + 2 * EPSILON)
        return ratio(lists.sum(relevant * (1 + pooled * precision) / ranks.position), lists.sum(relevant))
