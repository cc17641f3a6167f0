"""Rules that turn many tests into one verdict: families of differences, corrected by Holm."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rankbound.compare.effects import LEVEL
from rankbound.compare.randomisation import holm
from rankbound_study.claims.cells import Contrast
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Family(Generic[Key]):
    """Differences by the results of their tests, after Holm's correction over all of them.

    Attributes:
        contrasts: the differences.
        higher, lower: the keys of those significantly above and below zero.
        alike: the keys of those that are neither, and within the noise margin.
        p_values: the adjusted p-values of no difference.
    """

    contrasts: Mapping[Key, Contrast]
    higher: Sequence[Key]
    lower: Sequence[Key]
    alike: Sequence[Key]
    p_values: Mapping[Key, float]

    @classmethod
    def of(cls, contrasts: Mapping[Key, Contrast]) -> "Family[Key]":
        """Test all differences."""
        keys = list(contrasts)
        p_values = dict(zip(keys, holm([contrasts[key].estimate.p_value() for key in keys]), strict=True))
        p_alike = dict(zip(keys, holm([contrasts[key].p_alike for key in keys]), strict=True))
        differ = [key for key in keys if p_values[key] <= LEVEL]
        return cls(
            contrasts,
            higher=[key for key in differ if contrasts[key].mean > 0],
            lower=[key for key in differ if contrasts[key].mean < 0],
            alike=[key for key in keys if key not in differ and p_alike[key] <= LEVEL],
            p_values=p_values,
        )

    @property
    def means(self) -> list[float]:
        """The mean differences."""
        return [one.mean for one in self.contrasts.values()]

    @property
    def extremes(self) -> tuple[Key, Key]:
        """The keys of the smallest and the largest difference."""
        order = sorted(self.contrasts, key=lambda key: self.contrasts[key].mean)
        return order[0], order[-1]

    @property
    def worst_p(self) -> float:
        """The largest p-value, which decides a claim that all of them differ."""
        return max(self.p_values.values())

    def all_higher(self) -> str:
        """Return the verdict that all are above zero: refuted by one that is below, or alike."""
        return _every(self, self.higher, [*self.lower, *self.alike])

    def tend_higher(self) -> str:
        """Return the verdict that they tend to be above zero: refuted by one below, or if all are alike."""
        if self.lower or len(self.alike) == len(self.contrasts):
            return REFUTED
        return CONFIRMED if len(self.higher) == len(self.contrasts) else INCONCLUSIVE

    def all_lower(self) -> str:
        """Return the verdict that all are below zero: refuted by one that is above, or alike."""
        return _every(self, self.lower, [*self.higher, *self.alike])


def together(*verdicts: str) -> str:
    """Return the verdict on a claim with several parts, all of which must hold."""
    if REFUTED in verdicts:
        return REFUTED
    return CONFIRMED if all(one == CONFIRMED for one in verdicts) else INCONCLUSIVE


def by_interval(low: float, high: float, limit: float) -> str:
    """Return the verdict that a value exceeds a limit: inconclusive if the interval contains the limit."""
    return CONFIRMED if low > limit else REFUTED if high < limit else INCONCLUSIVE


def all_alike(contrasts: Sequence[Contrast]) -> str:
    """Return the verdict that all are within the noise margin: refuted by one beyond it (Bonferroni)."""
    if any(one.is_beyond(len(contrasts)) for one in contrasts):
        return REFUTED
    return CONFIRMED if all(one.is_alike for one in contrasts) else INCONCLUSIVE


def _every(family: Family[Key], wanted: Sequence[Key], against: Sequence[Key]) -> str:
    if against:
        return REFUTED
    return CONFIRMED if len(wanted) == len(family.contrasts) else INCONCLUSIVE
