"""The influence of a fold's training lists under a weighting, computed from instances and the library alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankbound.kernels.formulas import Floats
from rankbound.metrics import metric
from rankbound.texts import derive_seed
from rankbound_study.config.list_weights import ListWeights
from rankbound_study.data.reader import FoldedLists
from rankbound_study.jobs.weighting import coefficient_of_variation, list_ranges, list_weights
from rankbound_study.vocabulary import JUDGED_BY

DRAWS = 20
"""Random permutations over which the facts of permuted weights are averaged."""


@dataclass(frozen=True)
class Weighting:
    """How weights vary over the informative training lists of a fold.

    Attributes:
        n: the number of informative lists.
        of_weights: coefficient of variation (standard deviation over mean) of the weights $w_t$.
        of_influence: of the influence $a_t = w_t (M_{max,t} - M_{min,t})$.
        of_mismatch: of $a_t / r_t$, with $r_t$ the range of the metric that judges the loss.
        effective: the number of lists of equal influence that are worth as much, $n / (1 + CV^2)$ of $a_t$.
    """

    n: float
    of_weights: float
    of_influence: float
    of_mismatch: float
    effective: float


def mean_weighting(several: Sequence[Weighting]) -> Weighting:
    """Return the mean of every number, over folds or permutations."""
    return Weighting(**{name: float(np.mean([getattr(one, name) for one in several])) for name in _NAMES})


_NAMES = tuple(Weighting.__dataclass_fields__)


class Influence:
    """The training lists of one fold, as a loss sees them."""

    def __init__(self, instances: FoldedLists, fold: int, loss: str) -> None:
        split = instances.split(fold, "train")
        self._lists = split.relevance, split.offsets
        self._data, self._fold, self._loss = (instances.dataset, instances.nsr), fold, loss
        ranges = list_ranges(loss, *self._lists)
        self._informative = ranges > 0
        self._ranges = ranges[self._informative]
        judged = list_ranges(metric(JUDGED_BY.get(loss, loss)), *self._lists)[self._informative]
        self._mismatch = self._ranges / judged

    def under(self, weights: ListWeights | None) -> Weighting:
        """Return the variation under weights; None stands for ones. Of permuted weights, the mean of some draws."""
        if weights is None:
            return self._of(np.ones(len(self._ranges)))
        own = self.weights(weights)
        if not weights.permuted:
            return self._of(own)
        random = np.random.default_rng(derive_seed("influence", *self._data, self._fold))
        return mean_weighting([self._of(random.permutation(own)) for _ in range(DRAWS)])

    def weights(self, weights: ListWeights) -> Floats:
        """Return the weights of the informative lists, before any permutation."""
        fixed = replace(weights, permuted=False)
        return list_weights(fixed, self._loss, *self._lists, np.random.default_rng(0))[self._informative]

    def _of(self, weights: Floats) -> Weighting:
        every = (weights, weights * self._ranges, weights * self._mismatch)
        of_weights, of_influence, of_mismatch = map(coefficient_of_variation, every)
        n = len(weights)
        return Weighting(n, of_weights, of_influence, of_mismatch, n / (1 + of_influence**2))
