"""Weights of training lists, computed from their relevance labels, and the influence of lists under them.

In all functions, `relevance` has the items' grades from 0, `(n_items,)`, of which those above 0 are relevant, and
`offsets` the lists' limits, `(n_lists + 1,)`; ValueError for other ones, or for a text that names no metric or bound.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from rankbound.bounds.base import Affine, Bound, Unbounded, bound
from rankbound.bounds.extremes import Facts, checked_lists
from rankbound.errors import ConfigError
from rankbound.kernels.formulas import Floats
from rankbound.lists import ArrayLike, Lists, as_tensor
from rankbound.metrics import Metric, metric
from rankbound.texts import derive_seed
from rankbound_study.data.reader import FoldedLists
from rankbound_study.vocabulary import JUDGED_BY, LIST_WEIGHTS, ListWeights


def list_weights(
    weights: ListWeights, loss: str, relevance: ArrayLike, offsets: ArrayLike, random: np.random.Generator
) -> Floats:
    r"""Return the weight of each list `(n_lists,)`: mean 1 over the informative lists, 0 for the others.

    $$w_t = \frac{v_t}{\frac{1}{n} \sum_{u=1}^{n} v_u}$$

    over the n informative lists, with $v_t$ the weight of a bound of the loss' metric, $1 / u_t$, or a power of
    $P_t (N_t - P_t)$, $P_t$ or $N_t$. Lists without two different labels are not informative.

    Args:
        weights: the kind of weights.
        loss: the loss, whose metric has the bound.
        relevance, offsets: the lists.
        random: permutes the weights between the informative lists, if that is asked for.

    Raises:
        ConfigError: no list is informative.
    """
    if weights.bound:
        raw = bound_weights(loss, weights.bound, relevance, offsets)
    else:
        grades = as_tensor(relevance, "relevance")
        lists = Lists.checked(offsets, len(grades))
        items, relevant = lists.sizes.numpy().astype(np.float64), lists.sum(grades > 0).numpy()
        pairs = relevant * (items - relevant)
        numbers = {"pairs": pairs, "relevant": relevant, "items": items}[weights.quantity]
        raw = np.where(pairs > 0, np.power(np.where(pairs > 0, numbers, 1.0), weights.power), 0.0)
    informative = raw > 0
    if not informative.any():
        raise ConfigError(f"{LIST_WEIGHTS}: {weights} has no weights for {loss}: no training list is informative")
    known = raw[informative] / raw[informative].mean()
    found = np.zeros_like(raw)
    found[informative] = random.permutation(known) if weights.permuted else known
    return found


def list_ranges(of: str | Metric, relevance: ArrayLike, offsets: ArrayLike) -> Floats:
    """Return the largest minus the smallest value of each list over all its orders, `(n_lists,)`.

    It is 0 where the metric is undefined or no order differs from another one in it. `of` is the metric or its text;
    `nRBP` is the loss of eq. 2.12, whose range is P(N - P).

    >>> list_ranges("nRBP", [0, 1, 0, 1], [0, 3, 4])
    array([2., 0.])
    """
    facts = Facts(metric(of), *checked_lists(relevance, offsets))
    ranges: Floats = torch.nan_to_num(facts.maximum - facts.minimum).to(torch.float64).numpy()
    return ranges


def bound_weights(of: str | Metric, by: str | Bound, relevance: ArrayLike, offsets: ArrayLike) -> Floats:
    r"""Return the list weights $1 / u_t$ of an affine bound, `(n_lists,)`.

    They are 0 for lists whose orders do not differ in the metric `of`, which a bound leaves out. `by` is `none`, whose
    weights are ones, `min-max`, `expectation` or `expectation-max`; ValueError for a bound that is not affine.

    >>> bound_weights("nRBP", "expectation", [0, 1, 0, 1], [0, 3, 4])
    array([1., 0.])
    """
    kind, facts = bound(by), Facts(metric(of), *checked_lists(relevance, offsets))
    informative = (facts.informative & facts.orders_differ).numpy()
    if isinstance(kind, Unbounded):
        return informative.astype(np.float64)
    if not isinstance(kind, Affine):
        raise ValueError(f"bound {kind}: found no list weights; expected an affine bound, such as min-max")
    origin, size = kind.origin_and_unit(facts)
    unit = size.abs().to(torch.float64).numpy()
    usable = informative & kind.is_usable(origin, size).numpy()
    weights: Floats = np.divide(1.0, unit, out=np.zeros_like(unit), where=usable)
    return weights


DRAWS = 20  # random permutations over which the facts of permuted weights are averaged


class Weighting(NamedTuple):
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
    return Weighting(*(float(np.mean(values)) for values in zip(*several, strict=True)))


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
        of_weights, of_influence, of_mismatch = (float(values.std() / values.mean()) for values in every)
        n = len(weights)
        return Weighting(n, of_weights, of_influence, of_mismatch, n / (1 + of_influence**2))
