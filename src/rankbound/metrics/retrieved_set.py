"""Precision, recall and F-measure of the set of retrieved items, whatever its order."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.metrics.base import Thresholded, ratio
from rankbound.metrics.run_metric import JudgedRun, RunMetric

# The squares of smaller numbers are finite.
LARGEST_BETA = 1e150


@dataclass(frozen=True, kw_only=True)
class SetMetric(Thresholded, RunMetric):
    """A metric of the numbers of retrieved items, relevant items and those that are both."""

    def of_run(self, run: JudgedRun) -> Tensor:
        relevant, count = self.relevant(run.relevance), run.lists.sum
        return self.of_counts(count(relevant & run.retrieved), count(run.retrieved), count(relevant))

    @abstractmethod
    def of_counts(self, found: Tensor, retrieved: Tensor, relevant: Tensor) -> Tensor:
        """Return the value of runs with `found` of `relevant` items among `retrieved`; float64 `(n_lists,)`."""


@dataclass(frozen=True, kw_only=True)
class SetPrecision(SetMetric):
    """Precision of the retrieved set (Manning, Raghavan and Schütze 2008, eq. 8.1).

    The relevant retrieved items over the retrieved ones; 0 if nothing is retrieved.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1, and when called with lists; use `rankbound.evaluate_run`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, "SetP").means()
    {'SetP': 0.5}
    """

    name: ClassVar[str] = "SetP"

    def of_counts(self, found: Tensor, retrieved: Tensor, relevant: Tensor) -> Tensor:
        return found / retrieved.clamp(min=1)


@dataclass(frozen=True, kw_only=True)
class SetRecall(SetMetric):
    """Recall of the retrieved set (Manning, Raghavan and Schütze 2008, eq. 8.2).

    The relevant retrieved items over the relevant ones; NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1, and when called with lists; use `rankbound.evaluate_run`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, "SetR").means()
    {'SetR': 1.0}
    """

    name: ClassVar[str] = "SetR"

    def of_counts(self, found: Tensor, retrieved: Tensor, relevant: Tensor) -> Tensor:
        return ratio(found, relevant)


@dataclass(frozen=True, kw_only=True)
class SetF(SetMetric):
    r"""F-measure of the retrieved set (Manning, Raghavan and Schütze 2008, eq. 8.5), from SetP and SetR.

    $$F_\beta = \frac{(1 + \beta^2)\, \mathrm{SetP}\, \mathrm{SetR}}{\beta^2\, \mathrm{SetP} + \mathrm{SetR}}$$

    0 if no relevant item is retrieved; NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1.
        beta: $\beta > 0$; values above 1 emphasise recall. The parameter of trec_eval and of ir_measures is $\beta^2$.

    Raises:
        ValueError: for `rel` below 1 or `beta` out of range, and when called with lists; use `rankbound.evaluate_run`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0, "c": 0.5}}, {"q": {"b": 1}}, "SetF").means()
    {'SetF': 0.5}
    """

    name: ClassVar[str] = "SetF"

    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.beta < LARGEST_BETA:
            raise ValueError(
                f"metric {self.name}: found beta={self.beta}, expected a finite number above 0, below {LARGEST_BETA:g}"
            )

    def of_counts(self, found: Tensor, retrieved: Tensor, relevant: Tensor) -> Tensor:
        weight = self.beta**2
        return torch.where(relevant == 0, torch.nan, (1 + weight) * found / (weight * relevant + retrieved))
