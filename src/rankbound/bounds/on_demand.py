"""Score distributions that are computed when a profile first occurs, and cached."""

from torch import Tensor

from rankbound.bounds._score_distribution import SAMPLES, Gain, ScoreDistribution
from rankbound.bounds._tilted import UNIFORM
from rankbound.bounds._ways import Method, distributions
from rankbound.bounds.profiles import Profile, Profiles
from rankbound.bounds.tables import DistributionTables
from rankbound.metrics import Metric, metric

GRADED_SAMPLES = 20_000
"""Random orders per graded list; fewer than for binary lists, as nearly every list needs its own distribution."""


class DistributionsOnDemand:
    """The score distributions of a metric for any lists, usable as the `tables` of a loss.

    Args:
        of: the metric or its text.
        method: `auto`, `exact` or `sampled`, as in `score_distribution`.
        samples: the number of random orders of a binary list, drawn or assumed in the gain of eq. 3.13.
        graded_samples: the same for a graded list.
        seed: the seed of the random orders.
        tilt: as in `score_distribution`, for binary relevance only.
    """

    def __init__(
        self,
        of: str | Metric,
        *,
        method: Method = "auto",
        samples: int = SAMPLES,
        graded_samples: int = GRADED_SAMPLES,
        seed: int = 0,
        tilt: float = UNIFORM,
    ) -> None:
        self._metric = metric(of)
        self._method, self._seed = method, seed
        self.tilt = tilt
        self._samples, self._graded_samples = samples, graded_samples
        self._known: dict[int, ScoreDistribution] = {}
        self._tables: DistributionTables | None = None

    @property
    def metric(self) -> str:
        return str(self._metric)

    def of(self, profiles: Profiles) -> tuple[list[ScoreDistribution], Tensor]:
        """Return the distributions of the distinct profiles, and the index of each list's among them `(n_lists,)`."""
        distinct, which = profiles.distinct()
        return [*self._of(distinct)], which

    def smooth(self, values: Tensor, profiles: Profiles, gain: Gain = "distinct") -> Tensor:
        """Return the smooth CDF of each list's value, as `DistributionTables.smooth`.

        The scores of each list must differ between orders.
        """
        if len(profiles) == 0:
            return values
        if self._tables is None or not self._known.keys() >= set(profiles.keys.tolist()):
            missing = [one for one in profiles.distinct()[0] if one.key not in self._known]
            self._known.update((one.profile.key, one.binned()) for one in self._of(missing))
            self._tables = DistributionTables.collect(self._known.values())
        return self._tables.smooth(values, profiles, gain)

    def _of(self, profiles: list[Profile]) -> list[ScoreDistribution]:
        computed: dict[Profile, ScoreDistribution] = {}
        for samples, part in (
            (self._samples, [profile for profile in profiles if profile.grades is None]),
            (self._graded_samples, [profile for profile in profiles if profile.grades is not None]),
        ):
            ways = distributions(self._metric, part, self._method, samples, self._seed, tilt=self.tilt)
            computed.update(zip(part, ways, strict=True))
        return [computed[profile] for profile in profiles]
