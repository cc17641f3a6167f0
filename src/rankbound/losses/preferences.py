"""The preferences of a batch: the pairs of items of one list with different grades."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.losses.item_sums import times
from rankbound.ranks import tie_blocks

PAIR_WEIGHTS = ("uniform", "difference")

# Distinct integer grades below this are found by counting, others by sorting.
TABLED_GRADES = 1024

# Up to this many cells per item, counting in a table of lists by grades is faster than sorting.
CELLS_PER_ITEM = 64


@dataclass(frozen=True)
class Preferences:
    """The pairs $(i, j)$ with $y_i > y_j$, of weight 1 (`uniform`) or $y_i - y_j$ (`difference`).

    The weights `of_better` `(n_items,)`, if given, multiply those of the pairs in which the item is the better one.
    """

    relevance: Tensor
    lists: Lists
    weight: str = "uniform"
    of_better: Tensor | None = None

    def of_some(self, lists: Tensor, items: Tensor) -> "Preferences":
        """Return the pairs of the lists of a mask `(n_lists,)`, whose items are those of the mask `items`."""
        better = None if self.of_better is None else self.of_better[items]
        return Preferences(self.relevance[items], Lists.of_sizes(self.lists.sizes[lists]), self.weight, better)

    @cached_property
    def grades(self) -> Tensor:
        """`relevance` in double precision."""
        # Contiguous, without which searches warn.
        return self.relevance.to(torch.float64).contiguous()

    @cached_property
    def distinct(self) -> Tensor:
        """The grades that occur in the batch, ascending."""
        if len(self.grades) and float(self.grades.max()) < TABLED_GRADES:
            whole = self.grades.to(torch.int64)
            if torch.equal(whole.to(torch.float64), self.grades):
                return torch.nonzero(torch.bincount(whole)).squeeze(1).to(torch.float64)
        distinct: Tensor = torch.unique(self.grades)
        return distinct

    @cached_property
    def some(self) -> Tensor:
        """A mask of the lists with a pair, `(n_lists,)`."""
        return self.lists.max(self.grades) > self.lists.min(self.grades)

    @cached_property
    def count(self) -> Tensor:
        """The number of pairs of each list, `(n_lists,)`, double precision."""
        n_cells = len(self.lists) * len(self.distinct)
        if n_cells > CELLS_PER_ITEM * (len(self.grades) + len(self.lists)):
            blocks = tie_blocks(self.grades, self.lists)
            of_equals = blocks.lists.sum(blocks.size.to(torch.float64).square())
        else:
            cell = self.lists.segment * len(self.distinct) + torch.searchsorted(self.distinct, self.grades)
            held = torch.bincount(cell, minlength=n_cells).view(len(self.lists), len(self.distinct))
            of_equals = held.to(torch.float64).square().sum(1)
        return (self.lists.sizes.to(torch.float64).square() - of_equals) / 2

    @cached_property
    def better(self) -> Tensor:
        """The indices of the items with a higher grade than another item of their list."""
        return torch.nonzero(self.grades > self.lists.spread(self.lists.min(self.grades))).squeeze(1)

    def of_grade(self, grade: float) -> Tensor:
        """Return the indices of the items of this grade."""
        return torch.nonzero(self.grades == grade).squeeze(1)

    def between(self, better: Tensor, worse: Tensor) -> Tensor:
        """Return the weight of pairs of items, given by index; 0 unless `better` has the higher grade."""
        weights = self._weight(self.grades.index_select(0, better) - self.grades.index_select(0, worse))
        return times(weights, self.weight_of(better))

    def over(self, grade: float) -> Tensor:
        """Return the weight of an item of this grade over each item, `(n_items,)`; 0 for items that aren't lower.

        The items' own weights, `of_better`, are left out.
        """
        return self._weight(grade - self.grades)

    def under(self, grade: float) -> Tensor:
        """Return the weight of each item over one of this grade, `(n_items,)`; 0 for items that aren't higher."""
        return times(self._weight(self.grades - grade), self.of_better)

    def weight_of(self, items: Tensor) -> Tensor | None:
        """Return the weights `of_better` of items, given by index; None without any."""
        return None if self.of_better is None else self.of_better.index_select(0, items)

    def _weight(self, difference: Tensor) -> Tensor:
        return difference.clamp(min=0) if self.weight == "difference" else (difference > 0).to(difference)
