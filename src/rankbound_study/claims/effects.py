"""The effects of bounding in the cells of Table 5.1, and their means over groups of cells.

A cell is a loss under a bounding on a data set; identical boundings (the affine ones of nRBP) are one cell. The errors
of two cells are correlated if they share topics or the trainings of an unbounded loss: their covariance is that of a
bootstrap that draws topics and trainings for all cells together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from rankbound.compare import Pair
from rankbound.compare.scores import Floats
from rankbound_study.claims.cells import Cell, Contrast, contrast, is_distinct, judge, pair
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.pooled import Pooled, pooled
from rankbound_study.claims.resampled import resampled_means
from rankbound_study.claims.rules import adjusted
from rankbound_study.claims.verdict import MissingEvidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.vocabulary import AFFINE, BOUNDED, LOSSES

KINDS = {"affine": AFFINE, "distribution": tuple(name for name in BOUNDED if name not in AFFINE)}
"""Bounds by what they do to a list: affine ones weigh it, the others reshape its loss."""

EVERY = "all"
"""In the place of a loss: all losses."""

_READINGS = ("-label1", "-label2")
"""Ends of the names of two readings of the same queries, of which means contain the first."""


@dataclass(frozen=True)
class Effects:
    """The scores of all cells, with and without bounding."""

    pairs: Mapping[Cell, Pair]

    @cached_property
    def contrasts(self) -> Mapping[Cell, Contrast]:
        """The effect of every cell: bounded minus unbounded."""
        return {cell: contrast(one) for cell, one in self.pairs.items()}

    @cached_property
    def p_values(self) -> Mapping[Cell, float]:
        """The p-values of no effect, after Holm's correction over all cells."""
        return adjusted({cell: one.estimate.p_value() for cell, one in self.contrasts.items()})

    @cached_property
    def covariance(self) -> Floats:
        """The covariance matrix of the cells' errors."""
        return np.atleast_2d(np.cov(resampled_means(self.pairs), rowvar=False))

    def means(self) -> Iterator[tuple[str, str, Pooled]]:
        """Yield a kind of bounds, a loss (or `EVERY`), and their mean effect, for groups of two or more cells."""
        cells = list(self.contrasts)
        for kind, loss in product(KINDS, (EVERY, *LOSSES)):
            chosen = [
                place
                for place, cell in enumerate(cells)
                if cell.bounding in KINDS[kind] and loss in (EVERY, cell.loss) and self._counts(cell)
            ]
            if len(chosen) > 1:
                effects = np.array([self.contrasts[cells[place]].mean for place in chosen])
                yield kind, loss, pooled(effects, self.covariance[np.ix_(chosen, chosen)])

    def _counts(self, cell: Cell) -> bool:
        """Return False for the second of two readings of the same queries."""
        first, second = _READINGS
        name = cell.column.dataset
        other = name.removesuffix(second) + first
        return not name.endswith(second) or all(one.column.dataset != other for one in self.pairs)


def effects(evidence: Evidence) -> Effects:
    """Return all cells of a study whose bounded and unbounded losses ran and trained."""
    return Effects(dict(_pairs(evidence, evidence.data_sets)))


def _pairs(evidence: Evidence, columns: Sequence[DataSet]) -> Iterator[tuple[Cell, Pair]]:
    for loss, column, bounding in product(LOSSES, columns, BOUNDED):
        if is_distinct(loss, bounding):
            cell = Cell(loss, bounding, column, judge(loss))
            try:
                yield cell, pair(evidence, cell)
            except MissingEvidence:
                continue
