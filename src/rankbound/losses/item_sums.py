"""Losses that are sums of terms, one per item, which weights of items multiply."""

from abc import abstractmethod

from torch import Tensor

from rankbound.lists import Lists
from rankbound.losses.base import RankingLoss


class ItemSum(RankingLoss):
    r"""A loss $\sum_i w_i L_i$ over the items of a list, where $w_i = 1$ without weights.

    The weights are in no normaliser, so that the loss is linear in them: with the inverse propensities of clicks, its
    expectation is the loss of the relevance that the clicks show. A subclass says what its terms are.
    """

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        return self.of_weighted_lists(scores, relevance, lists, None)

    @abstractmethod
    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        """Return the loss of each list, `(n_lists,)`; `weights` has shape `(n_items,)`, and None means 1."""


def times(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return `values * weights`, or the values themselves without weights."""
    return values if weights is None else values * weights
