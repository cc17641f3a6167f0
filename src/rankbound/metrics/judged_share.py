"""The share of judged items at the top of a run."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.metrics.base import ratio, require_cutoff
from rankbound.metrics.run_metric import JudgedRun, RunMetric


@dataclass(frozen=True, kw_only=True)
class Judged(RunMetric):
    r"""The share of judged items among the first k: how much of a value at k rests on judgements.

    $$\mathrm{Judged@}k = \frac{|\{i : i \text{ judged},\ R_i \le k\}|}{\min(k, n)}$$

    with n the number of retrieved items. NaN if nothing is retrieved. Items of negative relevance in the qrels are not
    judged (ir_measures counts them). In the mean over its orders, a block of ties counts by its judged items times the
    share of its ranks up to k.

    Args:
        cutoff: k; by default n.

    Raises:
        ValueError: for `cutoff` below 1, and when called with lists; use `rankbound.evaluate_run`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, "Judged@10").means()
    {'Judged@10': 0.5}
    """

    name: ClassVar[str] = "Judged"

    cutoff: int | None = None

    def __post_init__(self) -> None:
        require_cutoff(self.name, self.cutoff)

    def of_run(self, run: JudgedRun) -> Tensor:
        blocks, depth = run.blocks, run.lists.sum(run.retrieved)
        if self.cutoff is not None:
            depth = depth.clamp(max=self.cutoff)
        places = torch.minimum(blocks.size, (blocks.lists.spread(depth) - blocks.first + 1).clamp(min=0))
        judged = blocks.sum((run.relevance >= 0) & run.retrieved)
        return ratio(blocks.lists.sum(judged * places / blocks.size), depth)
