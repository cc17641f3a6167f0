"""The base class of ranking losses: modules whose call returns one loss per list."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rankbound.lists import Lists, as_tensor, beside, require_finite, require_grades
from rankbound.losses.curvature import curvature_by_autograd
from rankbound.texts import text_of


class RankingLoss(nn.Module, ABC):
    """A ranking loss, with one value to minimise per list of a batch.

    In all losses, an uninformative list (see `informative`) has loss 0 and gradient 0, never NaN. To average, divide by
    the number of informative lists.
    """

    name: ClassVar[str]
    """The name that begins the loss's text; a class without one is not found by `rankbound.loss`."""

    def forward(self, scores: Tensor, relevance: Tensor, offsets: Tensor) -> Tensor:
        """Return the loss of each list, `(n_lists,)`; 0, without a gradient, for uninformative lists.

        Args:
            scores: `(n_items,)`, floating point and finite.
            relevance: `(n_items,)`, grades from 0.
            offsets: `(n_lists + 1,)`, the lists' limits.

        Raises:
            ValueError: for arguments of different lengths or devices, invalid offsets, scores that are NaN or infinite,
                or relevance below 0.
        """
        grades = beside(as_tensor(scores, "scores"), relevance, "relevance")
        require_grades(grades)
        if not scores.is_floating_point():
            raise ValueError(f"scores: found dtype {scores.dtype}, expected floating point")
        require_finite(scores)
        return self.of_lists(scores, grades, Lists.checked(offsets, len(scores), scores.device))

    @abstractmethod
    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the loss of each list, `(n_lists,)`, without checking the arguments."""

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the diagonal of each list's Hessian, `(n_items,)`, without a gradient.

        The arguments are those of `of_lists`. The default works for every loss that is twice differentiable, with one
        backward pass per item of the longest list.
        """
        exact = scores.to(torch.float64)
        return curvature_by_autograd(lambda leaf, same: self.of_lists(leaf, relevance, same), exact, lists).to(scores)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask `(n_lists,)` of the informative lists; by default those with a relevant item."""
        return lists.max(relevance) > 0 if len(relevance) else torch.zeros_like(lists.sizes, dtype=torch.bool)

    @property
    def text(self) -> str:
        """The text that names the loss, from which `rankbound.loss` rebuilds it."""
        return text_of(self) if hasattr(type(self), "name") else type(self).__name__

    def extra_repr(self) -> str:
        return self.text

    def __call__(self, *arguments: Any, **keywords: Any) -> Tensor:
        if torch.compiler.is_compiling():
            # Shapes of ragged lists change with every batch, so a graph would never be reused.
            from rankbound.losses._untraced import untraced

            return untraced(super().__call__, *arguments, **keywords)
        loss: Tensor = super().__call__(*arguments, **keywords)
        return loss
