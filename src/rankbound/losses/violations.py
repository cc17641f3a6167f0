"""Counts of, and sums over, the items whose scores violate a margin, by sorting instead of pairs."""

import torch
from torch import Tensor

from rankbound.interpolation import running_sums
from rankbound.lists import Lists
from rankbound.ranks import descending_order


class Violations:
    """The violators of each item `i`: the items `j` of its list whose hinge `margin - (s_i - s_j)` is above 0.

    In ascending order of score, they are the items from some place to the end of the list; sums over them are running
    totals of the list, in float64.
    """

    def __init__(self, scores: Tensor, lists: Lists, margin: float) -> None:
        # Scores relative to each list's highest, so that running totals of large scores keep their digits.
        top = lists.max(scores)
        self._height = scores.to(torch.float64) - lists.spread(top).to(torch.float64)
        self._lists, self._margin = lists, margin
        self._order = descending_order(-scores, lists)
        self._place = torch.empty_like(self._order)
        self._place[self._order] = torch.arange(len(scores), device=scores.device)
        self._first = torch.empty_like(self._order)
        self._first[self._order] = self._search(self._height.index_select(0, self._order))

    def of(self, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the total of `weights` `(n_items,)` over each target's violators, `(n_targets,)`."""
        sorted_weights = weights.to(torch.float64).index_select(0, self._order)
        totals = sorted_weights + self._running_sums(sorted_weights)[1]
        ends = self._lists.offsets[1:].index_select(0, self._lists.segment.index_select(0, targets))
        first = self._first.index_select(0, targets)
        return torch.where(first < ends, totals.index_select(0, first.clamp(max=len(totals) - 1)), 0.0)

    def hinges_of(self, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weighted sum of the hinges of each target's violators, and the violators' total weight."""
        weight = self.of(targets, weights)
        height = self._height.index_select(0, targets)
        return (self._margin - height) * weight + self.of(targets, weights * self._height), weight

    def by(self, items: Tensor, weights: Tensor) -> Tensor:
        """Return the total of `weights` `(n_items,)` over the items that each of the `items` violates."""
        ends = self._lists.spread(self._lists.offsets[1:])
        violated = self._first < ends
        begun = torch.zeros_like(self._height)
        begun.index_add_(0, self._first[violated], weights.to(torch.float64)[violated])
        totals = begun + self._running_sums(begun)[0]
        return totals.index_select(0, self._place.index_select(0, items))

    def _running_sums(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums of its list's values before and behind each place."""
        before, behind = running_sums(values[None], self._lists.position == 0)
        return before[0], behind[0]

    def _search(self, height: Tensor) -> Tensor:
        """Return the place of each sorted item's first violator, by bisection of its list; exact for any scores."""
        ends = self._lists.spread(self._lists.offsets[1:])
        last = self._lists.spread(self._lists.offsets[:-1]) - 1  # the last place that is known not to violate
        longest = int(self._lists.sizes.max()) if len(self._lists) else 0
        for power in reversed(range(longest.bit_length())):
            probe = last + 2**power
            there = height.index_select(0, probe.clamp(max=len(height) - 1))
            violates = (there - height) + self._margin > 0
            last = torch.where((probe >= ends) | violates, last, probe)
        return last + 1
