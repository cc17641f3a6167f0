r"""The sample that would decide a claim: how many topics, or how many seeds.

The variance of a mean difference has a part from $n$ topics and one from $S$ seeds of training,
$v = v_t / n + v_s / S$. A sample decides for the margin $\Delta$ if, with a power of 80 % each, a true difference of
$\Delta$ is significant at 5 % (two-sided) and a true difference of zero is alike within $\Delta$ (two one-sided tests):

$$\sqrt{v} \le \Delta / \max(z_{0.975} + z_{0.8},\; z_{0.95} + z_{0.9})$$

One of the two numbers changes while the other stays as it is. The test is one of its own: Holm's correction over many
takes more.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

from rankbound.compare.margins import LEVEL, POWER
from rankbound.compare.statistics import CONFIDENCE
from rankbound_study.claims.cells import Contrast
from rankbound_study.claims.rules import Key

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
    def of(cls, contrast: Contrast, margin: float) -> "Sample":
        """Return the sample of a contrast."""
        of_trainings = contrast.training_variance
        of_topics = max(contrast.estimate.standard_error**2 - of_trainings, 0.0)
        return cls(margin, contrast.n, contrast.seeds, of_topics, of_trainings)

    @classmethod
    def of_interval(cls, low: float, high: float, topics: int, margin: float) -> "Sample":
        """Return the sample of a difference of single trainings, from its 95 % interval."""
        return cls(margin, topics, 1, ((high - low) / 2 / _Z((1 + CONFIDENCE) / 2)) ** 2)

    @property
    def topics_needed(self) -> int | None:
        """The number of topics that would decide with the present seeds; None if no number does."""
        return _needed(self.topics, self.of_topics, self._enough - self.of_trainings)

    @property
    def seeds_needed(self) -> int | None:
        """The number of seeds that would decide with the present topics; None if no number does."""
        return _needed(self.seeds, self.of_trainings, self._enough - self.of_topics) if self.of_trainings else None

    @property
    def _enough(self) -> float:
        return (self.margin / REACH) ** 2


def _needed(count: int, variance: float, room: float) -> int | None:
    return math.ceil(count * variance / room) if room > 0 else None


def sample_of_most(contrasts: Mapping[Key, Contrast], margin: float) -> Sample:
    """Return the sample of the difference that decides whether most are significant: the median by its precision."""
    ordered = sorted(contrasts.values(), key=lambda one: one.estimate.standard_error)
    return Sample.of(ordered[len(ordered) // 2], margin)
