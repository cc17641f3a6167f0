"""What a ranking loss is: a module whose call gives one loss per list, to minimise."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from rankbound.lists import Lists, as_tensor, beside, require_finite, require_grades
from rankbound.losses.curvature import curvature_by_autograd


class RankingLoss(nn.Module, ABC):
    """A loss of each list of a batch, to minimise.

    One policy for all losses: a list that carries no information (`informative`) has loss 0 and gradient 0, so that
    nothing is ever NaN; who averages divides by the number of the other lists.
    """

    def forward(self, scores: Tensor, relevance: Tensor, offsets: Tensor) -> Tensor:
        """The loss of each list, `(n_lists,)`, to minimise; 0 without gradient where a list carries no information.

        Args:
            scores: `(n_items,)`, floating point and finite.
            relevance: `(n_items,)`, grades from 0.
            offsets: `(n_lists + 1,)`, the lists' limits.

        Raises:
            ValueError: for lists that don't fit, scores that are NaN or infinite, or relevance below 0.
        """
        grades = beside(as_tensor(scores, "scores"), relevance, "relevance")
        require_grades(grades)
        if not scores.is_floating_point():
            raise ValueError(f"scores: found dtype {scores.dtype}, expected floating point")
        require_finite(scores)
        return self.of_lists(scores, grades, Lists.checked(offsets, len(scores), scores.device))

    @abstractmethod
    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        """As a call, for arguments that were checked before."""

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        """The diagonal of the Hessian, `(n_items,)`: each list's loss twice by the item's own score.

        For arguments as those of `of_lists`, without a gradient, and for every loss that can be differentiated twice;
        here by as many backward passes as the longest list has items.
        """
        exact = scores.to(torch.float64)
        return curvature_by_autograd(lambda leaf, same: self.of_lists(leaf, relevance, same), exact, lists).to(scores)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Which lists the loss can learn from, `(n_lists,)`: here those with a relevant item."""
        return lists.max(relevance) > 0 if len(relevance) else torch.zeros_like(lists.sizes, dtype=torch.bool)

    @property
    @abstractmethod
    def text(self) -> str:
        """The text that names the loss; `rankbound.loss` builds it again."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Tensor:
        if torch.compiler.is_compiling():
            # Sums over ragged lists take other shapes with every batch, so a graph of them would never be used twice.
            from rankbound.losses._untraced import untraced

            return untraced(super().__call__, *arguments, **keywords)
        loss: Tensor = super().__call__(*arguments, **keywords)
        return loss
