"""Profiles of lists: the number of items of each grade, on which score distributions depend.

For binary relevance, the profile is the pair (N, P); for graded relevance, the sorted grades.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from rankbound.lists import Lists, as_floating, on_cpu
from rankbound.metrics import Metric

# Upper limit of the search for the lowest grade that a metric counts as relevant.
_MOST_GRADES = 256
# Multipliers of Stafford's 64-bit mix, written as signed integers.
_SCATTER = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_GRADED = torch.iinfo(torch.int64).min


@dataclass(frozen=True)
class Profile:
    """The profile of a list: `n` items, `p` of them relevant; `grades`, descending, if the relevance is graded."""

    n: int
    p: int
    grades: tuple[float, ...] | None = None

    @classmethod
    def of_relevance(cls, metric: Metric, relevance: Tensor) -> "Profile":
        """Return the profile of one list's relevance."""
        lists = Lists(torch.tensor([0, len(relevance)], device=relevance.device))
        return Profiles.of_lists(metric, relevance, lists).distinct()[0][0]

    def relevance(self, metric: Metric) -> Tensor:
        """Return the list's grades, descending; a binary list has the lowest grade that the metric counts, and 0."""
        if self.grades is None:
            return counted_grade(metric) * (torch.arange(self.n) < self.p).to(torch.int64)
        grades = torch.tensor(self.grades, dtype=torch.float64)
        return grades.to(torch.int64) if bool((grades == grades.trunc()).all()) else grades

    @property
    def key(self) -> int:
        """An integer that identifies the profile; `binary_keys` for a binary one."""
        return int(self.n) << 32 | int(self.p) if self.grades is None else _graded_key(self.grades)

    def __str__(self) -> str:
        if self.grades is None:
            return f"{self.n} items with {self.p} relevant"
        kinds, counts = np.unique(self.grades, return_counts=True)
        return f"{self.n} items with " + ", ".join(
            f"{count} of grade {kind:g}" for kind, count in zip(kinds[::-1], counts[::-1], strict=True)
        )


class Profiles:
    """The profiles of a batch of lists; `n` and `p` have shape `(n_lists,)`.

    `graded` is the batch's relevance and lists if some list is graded. `whole`, of profiles that were selected, are all
    profiles of that batch and the indices of the selected ones.
    """

    def __init__(
        self,
        n: Tensor,
        p: Tensor,
        graded: tuple[Tensor, Lists] | None = None,
        whole: tuple["Profiles", Tensor] | None = None,
    ) -> None:
        self.n, self.p, self.graded, self._whole = n, p, graded, whole

    @classmethod
    def of_lists(cls, metric: Metric, relevance: Tensor, lists: Lists) -> "Profiles":
        p = lists.sum(metric.relevant(relevance)).to(torch.int64)
        binary = not metric.uses_grades or bool(((relevance == 0) | (relevance == 1)).all())
        return cls(lists.sizes, p, None if binary else (relevance, lists))

    def __len__(self) -> int:
        return len(self.n)

    def select(self, index: Tensor) -> "Profiles":
        """Return the profiles of some of the lists."""
        whole, own = (self, index) if self._whole is None else (self._whole[0], self._whole[1].index_select(0, index))
        return Profiles(self.n.index_select(0, index), self.p.index_select(0, index), self.graded, (whole, own))

    def keep(self, mask: Tensor) -> "Profiles":
        """Return the profiles of the lists where `mask` `(n_lists,)` is true."""
        return self.select(torch.nonzero(mask).squeeze(1))

    @cached_property
    def keys(self) -> Tensor:
        """`Profile.key` of every list, int64 `(n_lists,)`."""
        if self._whole is not None:
            whole, own = self._whole
            return whole.keys.index_select(0, own)
        keys = binary_keys(self.n, self.p)
        if self.graded is None:
            return keys
        relevance, lists = self.graded
        is_graded = lists.sum((relevance != 0) & (relevance != 1)) > 0
        return torch.where(is_graded, _graded_keys(relevance, lists), keys)

    def distinct(self) -> tuple[list[Profile], Tensor]:
        """Return the distinct profiles, and the index of each list's profile among them `(n_lists,)`."""
        keys, which = torch.unique(self.keys, return_inverse=True)
        example = torch.empty_like(keys).scatter_(0, which, torch.arange(len(which), device=which.device))
        return [self._of(index) for index in example.tolist()], which

    def _of(self, index: int) -> Profile:
        n, p = int(self.n[index]), int(self.p[index])
        if self.graded is None or int(self.keys[index]) >= 0:
            return Profile(n, p)
        relevance, lists = self.graded
        own = index if self._whole is None else int(self._whole[1][index])
        start, stop = lists.offsets[own : own + 2].tolist()
        return Profile(n, p, tuple(sorted(as_floating(relevance[start:stop]).tolist(), reverse=True)))


def binary_keys(n: Tensor, p: Tensor) -> Tensor:
    """Return keys, at least 0, that ascend with (n, p)."""
    return n.to(torch.int64) << 32 | p


@lru_cache(maxsize=4096)
@on_cpu
def _graded_key(grades: tuple[float, ...]) -> int:
    lists = Lists(torch.tensor([0, len(grades)]))
    return int(_graded_keys(torch.tensor(grades, dtype=torch.float64), lists)[0])


def _graded_keys(relevance: Tensor, lists: Lists) -> Tensor:
    """Return a negative hash of each list's grades, independent of their order: the hashed sum of hashed grades.

    The probability of a collision among a million different lists is 1e-7.
    """
    # Adding 0 turns -0.0 into 0.0.
    bits = (relevance.to(torch.float64) + 0.0).view(torch.int64)
    total = torch.zeros_like(lists.sizes).index_add(0, lists.segment, _scattered(bits))
    return _scattered(total + lists.sizes) | _GRADED


def _scattered(bits: Tensor) -> Tensor:
    for odd in _SCATTER:
        bits = (bits ^ (bits >> 30)) * odd
    return bits ^ (bits >> 31)


@lru_cache(maxsize=256)
@on_cpu
def counted_grade(metric: Metric) -> int:
    """Return the lowest grade that the metric counts as relevant."""
    counted = torch.nonzero(metric.relevant(torch.arange(1, _MOST_GRADES)))
    return int(counted[0, 0]) + 1 if len(counted) else 1
