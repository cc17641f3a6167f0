"""From many tests to one verdict: families of differences, corrected by Holm, and what "all of them" takes."""

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
    """Differences by what their tests say, after Holm's correction over all of them.

    Attributes:
        higher, lower: those that are significantly above and below zero.
        alike: those that are neither, and lie inside the margin of noise.
        p_values: adjusted, of no difference.
    """

    contrasts: Mapping[Key, Contrast]
    higher: Sequence[Key]
    lower: Sequence[Key]
    alike: Sequence[Key]
    p_values: Mapping[Key, float]

    @classmethod
    def of(cls, contrasts: Mapping[Key, Contrast]) -> "Family[Key]":
        """Test all of them."""
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
        """The differences."""
        return [one.mean for one in self.contrasts.values()]

    @property
    def extremes(self) -> tuple[Key, Key]:
        """The keys of the smallest and the largest difference."""
        order = sorted(self.contrasts, key=lambda key: self.contrasts[key].mean)
        return order[0], order[-1]

    @property
    def worst_p(self) -> float:
        """The largest p-value, which decides whether all of them differ."""
        return max(self.p_values.values())

    def all_higher(self) -> str:
        """Whether every one is above zero: refuted by one that is below, or alike."""
        return _every(self, self.higher, [*self.lower, *self.alike])

    def tend_higher(self) -> str:
        """Of a claim that does not say "every": refuted by one that is below or if all are alike, open if mixed."""
        if self.lower or len(self.alike) == len(self.contrasts):
            return REFUTED
        return CONFIRMED if len(self.higher) == len(self.contrasts) else INCONCLUSIVE

    def all_lower(self) -> str:
        """Whether every one is below zero: refuted by one that is above, or alike."""
        return _every(self, self.lower, [*self.higher, *self.alike])


def together(*verdicts: str) -> str:
    """Of a claim with several parts: all of them have to hold."""
    if REFUTED in verdicts:
        return REFUTED
    return CONFIRMED if all(one == CONFIRMED for one in verdicts) else INCONCLUSIVE


def by_interval(low: float, high: float, limit: float) -> str:
    """Of "more than a limit": whether the interval lies above it, below it, or holds it."""
    return CONFIRMED if low > limit else REFUTED if high < limit else INCONCLUSIVE


def all_alike(contrasts: Sequence[Contrast]) -> str:
    """Whether all lie inside the noise: refuted by one that lies outside, on Bonferroni's terms."""
    if any(one.is_beyond(len(contrasts)) for one in contrasts):
        return REFUTED
    return CONFIRMED if all(one.is_alike for one in contrasts) else INCONCLUSIVE


def _every(family: Family[Key], wanted: Sequence[Key], against: Sequence[Key]) -> str:
    if against:
        return REFUTED
    return CONFIRMED if len(wanted) == len(family.contrasts) else INCONCLUSIVE
