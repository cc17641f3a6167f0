"""Sums and multiples of losses, which are losses."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankbound.lists import Lists
from rankbound.losses.base import RankingLoss


class WeightedSum(RankingLoss):
    r"""The sum $\sum_k a_k L_k$ of losses, written as `0.7 * rb.loss("nDCG") + 0.3 * rb.loss("RankNet")`.

    A list is informative if it is so for one of the losses.

    Args:
        terms: pairs of a factor $a_k \ge 0$ and a loss; a sum among them is replaced by its terms.

    Raises:
        ValueError: for a factor that is negative, NaN or infinite, or without terms.
    """

    def __init__(self, terms: Sequence[tuple[float, RankingLoss]]) -> None:
        super().__init__()
        flat = [
            (factor * inner, part)
            for factor, term in terms
            for inner, part in (term.terms if isinstance(term, WeightedSum) else [(1.0, term)])
        ]
        wrong = [factor for factor, _ in flat if not 0 <= factor < float("inf")]
        if wrong or not flat:
            raise ValueError(f"terms: found {[*wrong, 'none'][0]}, expected losses with finite factors from 0")
        self.factors = tuple(float(factor) for factor, _ in flat)
        self.losses = nn.ModuleList(part for _, part in flat)

    @property
    def terms(self) -> list[tuple[float, RankingLoss]]:
        """The factors with their losses."""
        return [(factor, part) for factor, part in zip(self.factors, self.losses, strict=True)]  # type: ignore[misc]

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        return torch.stack([factor * part.of_batch(scores, relevance, lists) for factor, part in self.terms]).sum(0)

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor) -> Tensor:
        parts = [factor * part.of_weighted_lists(scores, relevance, lists, weights) for factor, part in self.terms]
        return torch.stack(parts).sum(0)

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor | None:
        """Return the sum of the terms' curvatures; None unless all have one."""
        parts = [(factor, part.curvature(scores, relevance, lists)) for factor, part in self.terms]
        known = [factor * curvature for factor, curvature in parts if curvature is not None]
        return torch.stack(known).sum(0) if len(known) == len(parts) else None

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        masks = [part.informative(relevance, lists) for factor, part in self.terms if factor]
        return torch.stack(masks).any(0) if masks else torch.zeros(len(lists), dtype=torch.bool, device=lists.device)

    @property
    def text(self) -> str:
        """The terms with their factors, for people; `rankbound.loss` doesn't read sums."""
        texts = [(factor, part.full_text) for factor, part in self.terms]
        return " + ".join(text if factor == 1 else f"{factor:g} * {text}" for factor, text in texts)

    @property
    def temperature(self) -> float:
        """The smallest temperature of the terms; 1 for terms without one."""
        return min((getattr(part, "temperature", 1.0) for factor, part in self.terms if factor), default=1.0)
