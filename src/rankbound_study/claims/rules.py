r"""Rules that turn many tests into one verdict, their words, and the sample that would decide an open claim.

Families of differences are corrected by Holm. An inconclusive verdict states how many topics, or how many seeds, would
decide it. The variance of a mean difference has a part from $n$ topics and one from $S$ seeds of training,
$v = v_t / n + v_s / S$. A sample decides for the margin $\Delta$ if, with a power of 80 % each, a true difference of
$\Delta$ is significant at 5 % (two-sided) and a true difference of zero is alike within $\Delta$ (two one-sided tests):

$$\sqrt{v} \le \Delta / \max(z_{0.975} + z_{0.8},\; z_{0.95} + z_{0.9})$$

One of the two numbers changes while the other stays as it is. The test is one of its own: Holm's correction over many
takes more.
"""

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import NormalDist
from typing import Any, Generic, TypeVar

import numpy as np

from rankbound.compare.comparison import LEVEL, POWER
from rankbound.compare.statistics import CONFIDENCE, corrected
from rankbound_study.claims.evidence import COLLAPSE, CUT_OFFS, Contrast
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, REFUTED, each_way
from rankbound_study.results.study_files import signed

Key = TypeVar("Key", bound=Hashable)
Test = Callable[[Contrast], float]  # returns the p-value of one difference

FLAT = 0.1  # coefficient of variation below which weights of lists count as equal


@dataclass(frozen=True)
class Family(Generic[Key]):
    """Differences (or slopes, correlations), and the rules on them, after Holm's correction over all of them.

    Attributes:
        contrasts: the differences.
        limit: with which some rules compare them; NaN: with the smallest effect of each.
    """

    contrasts: Mapping[Key, Contrast]
    limit: float = math.nan

    def adjusted(self, test: Test) -> dict[Key, float]:
        """Return the adjusted p-values of a test of every difference."""
        return adjusted({key: test(one) for key, one in self.contrasts.items()})

    def shown(self, test: Test) -> list[Key]:
        """Return the keys of the differences for which a test is significant."""
        return [key for key, p_value in self.adjusted(test).items() if p_value <= LEVEL]

    @cached_property
    def p_values(self) -> Mapping[Key, float]:
        """The adjusted p-values of no difference."""
        return self.adjusted(lambda one: one.p_value())

    @cached_property
    def higher(self) -> list[Key]:
        """The keys of differences significantly above zero."""
        return [key for key, one in self.contrasts.items() if self.p_values[key] <= LEVEL and one.mean > 0]

    @cached_property
    def lower(self) -> list[Key]:
        """The keys of differences significantly below zero."""
        return [key for key, one in self.contrasts.items() if self.p_values[key] <= LEVEL and one.mean < 0]

    @cached_property
    def alike(self) -> list[Key]:
        """The keys of differences that are neither, and smaller than what matters."""
        return [key for key in self.shown(lambda one: one.p_within()) if self.p_values[key] > LEVEL]

    @cached_property
    def above(self) -> list[Key]:
        """The keys of differences significantly above the limit."""
        return self.shown(lambda one: one.p_above(self.limit))

    @cached_property
    def below(self) -> list[Key]:
        """The keys of differences significantly below the limit."""
        return self.shown(lambda one: one.p_below(self.limit))

    @cached_property
    def within(self) -> list[Key]:
        """The keys of differences within the limit on both sides of zero, each by two one-sided tests of its own."""
        return [key for key, one in self.contrasts.items() if one.p_within(self.limit) <= LEVEL]

    @cached_property
    def beyond(self) -> list[Key]:
        """The keys of differences significantly beyond the limit on either side, largest first."""
        beyond = self.shown(lambda one: one.p_beyond(self.limit))
        return sorted(beyond, key=lambda key: -abs(self.contrasts[key].mean))

    def __len__(self) -> int:
        return len(self.contrasts)

    @property
    def means(self) -> list[float]:
        """The mean differences."""
        return [one.mean for one in self.contrasts.values()]

    def without(self, keys: Collection[Key]) -> "Family[Key]":
        """Return the other differences, as a family of their own."""
        return replace(self, contrasts={key: one for key, one in self.contrasts.items() if key not in keys})

    @cached_property
    def gains(self) -> list[Key]:
        """The keys (cells) that gain significantly more than what matters.

        nDCG and the cut-offs are two families, by Holm at half the level each: ten cut-offs do not hide a gain in nDCG.
        """
        parts: dict[bool, dict[Key, float]] = {False: {}, True: {}}
        for key, one in self.contrasts.items():
            parts[getattr(key, "metric", "") in CUT_OFFS][key] = one.p_above(one.margin)
        return [key for part in parts.values() for key, p_value in adjusted(part).items() if p_value <= LEVEL / 2]

    def facts(self, more: Mapping[str, object]) -> dict[str, Any]:
        """Return what a sentence about the differences can name: `FACTS`, deciding differences, and more."""
        return _Facts(self, more)


def _rule(holds: Callable[[Family[Any]], bool], fails: Callable[[Family[Any]], bool]) -> Callable[[Family[Any]], str]:
    return lambda family: each_way(holds(family), fails(family))


def _all(family: Family[Any], side: int, size: int = 0) -> str:
    """Decide whether all are above zero (1) or below (-1): refuted by one significantly short of what matters.

    With a `size` of 0, only one on the other side of zero refutes it (Holm). Both sides are tested at half the level,
    as by a two-sided test.
    """
    limits = [(one, side * size * one.margin if size else 0.0) for one in family.contrasts.values()]
    against = min(corrected([one.p_below(at) if side > 0 else one.p_above(at) for one, at in limits]))
    wanted = family.higher if side > 0 else family.lower
    return CONFIRMED if len(wanted) == len(family) else REFUTED if against <= LEVEL / 2 else INCONCLUSIVE


def _mostly(family: Family[Any], size: int) -> str:
    """Decide whether more than half are above zero, or above minus what matters (partial conjunction)."""
    limits = [(one, size * one.margin if size else 0.0) for one in family.contrasts.values()]
    tests = [one.p_above(at) for one, at in limits], [one.p_below(at) for one, at in limits]
    return share_of(*tests, len(family) // 2 + 1)


def _without_nrbp(family: Family[Any]) -> Family[Any]:
    return family.without([cell for cell in family.contrasts if cell.loss == "nRBP"])


def _without_fallen(family: Family[Any]) -> str:
    fallen = collapsed(family.contrasts)
    others = family.without(fallen)
    return f", without the {len(fallen)} that collapse {FACTS['mean'](others)}" if len(others) and fallen else ""


RULES: Mapping[str, Callable[[Family[Any]], str]] = {
    # Refuted by one that is shown to rise, or to fall, by less than what matters.
    "all rise": partial(_all, side=1, size=1),
    "all fall": partial(_all, side=-1, size=1),
    "all are higher": partial(_all, side=1),
    "all are lower": partial(_all, side=-1),
    "none is lower": _rule(lambda one: len(one.higher) == len(one), lambda one: bool(one.lower)),
    # Refuted by one on the other side of the limit.
    "all are above": _rule(lambda one: 0 < len(one.above) == len(one), lambda one: bool(one.below)),
    "all are below": _rule(lambda one: 0 < len(one.below) == len(one), lambda one: bool(one.above)),
    "all are within": _rule(lambda one: 0 < len(one.within) == len(one), lambda one: bool(one.beyond)),
    # Confirmed if none can have fallen by what matters, refuted by one that fell by more.
    "none falls": _rule(
        lambda one: all(each.is_repeated and each.p_above(-each.margin) <= LEVEL for each in one.contrasts.values()),
        lambda one: bool(one.shown(lambda each: each.p_below(-each.margin))),
    ),
    # Refuted by one below zero, or if all are alike.
    "all tend to be higher": _rule(
        lambda one: len(one.higher) == len(one), lambda one: bool(one.lower) or len(one.alike) == len(one)
    ),
    "most rise": partial(_mostly, size=0),
    "most are no worse": partial(_mostly, size=-1),
    # Confirmed if all are significantly below the smallest gain that matters, refuted if one is above it.
    "none gains": _rule(
        lambda one: all(each.p_below(each.margin) <= LEVEL for each in one.contrasts.values()),
        lambda one: bool(one.gains),
    ),
    # Refuted if all are below zero or alike.
    "some are higher": _rule(
        lambda one: bool(one.higher), lambda one: not one.higher and len(one.lower) + len(one.alike) == len(one)
    ),
    # Refuted by the reverse, or if all are alike.
    "some are higher, none lower": _rule(
        lambda one: bool(one.higher) and not one.lower,
        lambda one: not one.higher and (bool(one.lower) or len(one.alike) == len(one)),
    ),
}
"""The rules that an entry of `claims.yaml` may name."""

DECIDING: Mapping[str, Callable[[Family[Any]], Any]] = {
    "least": lambda family: min(family.contrasts, key=lambda key: family.contrasts[key].mean),
    # Of equal ones, the last.
    "most": lambda family: sorted(family.contrasts, key=lambda key: family.contrasts[key].mean)[-1],
    "widest": lambda family: max(family.contrasts, key=lambda key: abs(family.contrasts[key].mean)),
    # The smallest difference if some are below zero and none above, else the largest.
    "clearest": lambda family: DECIDING["least" if family.lower and not family.higher else "most"](family),
}
"""What picks the deciding difference, by its key. Sentences name these differences, and their keys: `at_least`."""

FACTS: Mapping[str, Callable[[Family[Any]], object]] = {
    "count": len,
    "positive": lambda family: sum(mean > 0 for mean in family.means),
    "at_below": lambda family: among([f"{key} {family.contrasts[key].mean:+.2f}" for key in family.below]),
    "at_beyond": lambda family: among([f"{key} {family.contrasts[key].mean:+.2f}" for key in family.beyond]),
    "short": lambda family: sum(p <= LEVEL / 2 for p in family.adjusted(lambda one: one.p_below(one.margin)).values()),
    "no_worse": lambda family: sum(one.p_above(-one.margin) <= LEVEL for one in family.contrasts.values()),
    "worse": lambda family: sum(one.p_below(-one.margin) <= LEVEL for one in family.contrasts.values()),
    "at_gains": lambda family: among(list(map(str, family.gains))),
    "at_against": lambda family: among([str(key) for key in family.lower]),
    "margin": lambda family: max(one.margin for one in family.contrasts.values()),
    "mean": lambda family: signed(float(np.mean(family.means))),
    "changes": lambda family: ", ".join(map(str, family.contrasts.values())),
    "points": lambda family: ", ".join(one.points for one in family.contrasts.values()),
    "by_column": lambda family: ", ".join(f"{one} on {key.column}" for key, one in family.contrasts.items()),
    "each": lambda family: ", ".join(f"{key} {one}" for key, one in family.contrasts.items()),
    "without_fallen": _without_fallen,
    "others": lambda family: len(_without_nrbp(family)),
    "others_positive": lambda family: FACTS["positive"](_without_nrbp(family)),
    "verdict_on_others": lambda family: RULES["most rise"](_without_nrbp(family)),
}
"""What a sentence about differences can name beside the attributes of `Family`, whose lists of keys count as numbers:
other counts, and texts."""


class _Facts(dict[str, object]):
    """Facts that are worked out when a sentence names them."""

    def __init__(self, family: Family[Any], more: Mapping[str, object]) -> None:
        super().__init__(more)
        self._family = family

    def __missing__(self, name: str) -> object:
        if name in FACTS:
            return FACTS[name](self._family)
        if name.removeprefix("at_") in DECIDING:
            key = DECIDING[name.removeprefix("at_")](self._family)
            return key if name.startswith("at_") else self._family.contrasts[key]
        if not hasattr(self._family, name):
            raise KeyError(name)
        found = getattr(self._family, name)
        return len(found) if isinstance(found, list) else found


def adjusted(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Return Holm's adjusted p-values, by the same keys."""
    return dict(zip(p_values, corrected(list(p_values.values())), strict=True))


def share_of(p_for: Sequence[float], p_against: Sequence[float], count: int) -> str:
    """Return the verdict that something holds in at least `count` cases, by partial conjunction tests.

    Confirmed if it is shown in so many of them, refuted if its opposite is shown in so many that fewer remain. Counting
    signs, or a binomial test of the count, would take dependent cells for independent ones.

    Args:
        p_for, p_against: for every case, the p-values that are small where it holds, and where its opposite does.
        count: the number of cases.
    """
    return by_p(partial_conjunction(p_for, count), partial_conjunction(p_against, len(p_for) - count + 1))


def partial_conjunction(p_values: Sequence[float], count: int) -> float:
    r"""Return the p-value of "fewer than `count` of these null hypotheses are false".

    A small value shows that at least `count` of the $n$ effects exist. With the p-values in ascending order,

    $$p = \min(1, (n - r + 1) p_{(r)}), \qquad r = \text{count}$$

    which is valid whatever the dependence between the tests: the cells of one table share topics, models and baselines.
    For r = 1 it is Bonferroni's test that any effect exists, for r = n the intersection-union test that all do.

    Source: Benjamini and Heller 2008, "Screening for partial conjunction hypotheses".

    Raises:
        ValueError: `count` is not between 1 and the number of p-values.

    >>> partial_conjunction([0.001, 0.002, 0.9], 2)
    0.004
    """
    if not 1 <= count <= len(p_values):
        raise ValueError(f"count: found {count}, expected a number from 1 to {len(p_values)}, that of the p-values")
    return min(1.0, (len(p_values) - count + 1) * sorted(p_values)[count - 1])


def collapsed(contrasts: Mapping[Key, Contrast]) -> list[Key]:
    """Return the keys of differences that are significantly below a collapse (Holm): their trainings failed."""
    p_values = adjusted({key: one.p_below(-COLLAPSE) for key, one in contrasts.items()})
    return [key for key, p_value in p_values.items() if p_value <= LEVEL]


def together(*verdicts: str) -> str:
    """Return the verdict on a claim with several parts, all of which must hold."""
    if REFUTED in verdicts:
        return REFUTED
    return CONFIRMED if all(one == CONFIRMED for one in verdicts) else INCONCLUSIVE


def by_p(p_value: float, p_against: float) -> str:
    """Return refuted if the test against the claim is significant, confirmed if the one for it is."""
    return each_way(p_value <= LEVEL, p_against <= LEVEL)


def among(names: Sequence[str]) -> str:
    """Join the first names in brackets, and count the rest: ` (a; b; c; and 2 more)`; empty without names."""
    rest = f"; and {len(names) - 3} more" if len(names) > 3 else ""
    return f" ({'; '.join(names[:3])}{rest})" if names else ""


_Z = NormalDist().inv_cdf

REACH = max(_Z(1 - LEVEL / 2) + _Z(POWER), _Z(1 - LEVEL) + _Z((1 + POWER) / 2))
"""The smallest margin that a sample decides for, in standard errors of the difference."""


@dataclass(frozen=True)
class Sample:
    """The sample behind a difference, and the margin that it should decide for.

    Attributes:
        margin: the smallest difference that matters.
        topics, seeds: the numbers behind the difference; seeds is 1 if trainings are not a source of its error.
        of_topics, of_trainings: the parts of its variance.
    """

    margin: float
    topics: int
    seeds: int
    of_topics: float
    of_trainings: float = 0.0

    @classmethod
    def of(cls, contrast: Contrast, margin: float = math.nan) -> "Sample":
        """Return the sample of a contrast, for a margin other than its own if one is given."""
        margin = contrast.margin if math.isnan(margin) else margin
        of_trainings = contrast.training_variance
        of_topics = max(contrast.standard_error**2 - of_trainings, 0.0)
        return cls(margin, contrast.n, contrast.seeds, of_topics, of_trainings)

    @classmethod
    def of_interval(cls, low: float, high: float, topics: int, margin: float) -> "Sample":
        """Return the sample of a difference of single trainings, from its 95 % interval."""
        return cls(margin, topics, 1, ((high - low) / 2 / _Z((1 + CONFIDENCE) / 2)) ** 2)

    @property
    def topics_needed(self) -> int | None:
        """The number of topics that would decide with the present seeds; None if no number does."""
        return self._needed(self.topics, self.of_topics, self.of_trainings)

    @property
    def seeds_needed(self) -> int | None:
        """The number of seeds that would decide with the present topics; None if no number does."""
        return self._needed(self.seeds, self.of_trainings, self.of_topics) if self.of_trainings else None

    def _needed(self, count: int, variance: float, other_variance: float) -> int | None:
        room = (self.margin / REACH) ** 2 - other_variance
        return math.ceil(count * variance / room) if room > 0 else None


def sample_of_most(contrasts: Mapping[Key, Contrast]) -> Sample:
    """Return the sample of the difference that decides whether most are significant: the median by its precision."""
    ordered = sorted(contrasts.values(), key=lambda one: one.standard_error)
    return Sample.of(ordered[len(ordered) // 2])
