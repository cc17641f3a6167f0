"""Score distributions that are computed when a profile first occurs, and cached."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from rankbound.bounds._score_distribution import SAMPLES, Gain, ScoreDistribution
from rankbound.bounds._tilted import UNIFORM
from rankbound.bounds._ways import Method, distributions
from rankbound.bounds.profiles import Profile, Profiles
from rankbound.bounds.tables import DistributionTables
from rankbound.metrics import Metric, metric

GRADED_SAMPLES = 20_000
"""Random orders per graded list; fewer than for binary lists, as nearly every list needs its own distribution."""

KEPT = 16_384
"""Distributions that are kept, of at most 16 KiB each."""


class DistributionsOnDemand:
    """The score distributions of a metric for any lists, usable as the `tables` of a loss.

    Args:
        of: the metric or its text.
        method: `auto`, `exact` or `sampled`, as in `score_distribution`.
        samples: the number of random orders of a binary list, drawn or assumed in the gain of eq. 3.13.
        graded_samples: the same for a graded list.
        seed: the seed of the random orders.
        tilt: as in `score_distribution`, for binary relevance only.
        kept: the number of distributions that are kept, if one batch doesn't need more. The first ones are dropped,
            and computed again when they are needed again.
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
        kept: int = KEPT,
    ) -> None:
        self._metric = metric(of)
        self._method, self._seed = method, seed
        self.tilt = tilt
        self._samples, self._graded_samples = samples, graded_samples
        self._kept = kept
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

        The scores of each list must differ between orders. New distributions are computed first, with progress on a
        terminal if that takes seconds.
        """
        if len(profiles) == 0:
            return values
        tables, needed = self._tables, set(profiles.keys.tolist())
        if tables is None or not tables.has(needed):
            tables = self._extended(profiles, needed)
        return tables.smooth(values, profiles, gain)

    def _extended(self, profiles: Profiles, needed: set[int]) -> DistributionTables:
        """Return tables with all profiles, whose keys are `needed`, and keep them.

        What is known changes at the end, as a whole: other threads may use it, and the computation may be interrupted.
        """
        known = dict(self._known)
        missing = [one for one in profiles.distinct()[0] if one.key not in known]
        with _progress(len(missing)) as done:
            known.update((one.profile.key, one.binned()) for one in self._of(missing, done))
        # The first distributions beyond the number that is kept are dropped, but none of the needed ones.
        surplus = max(0, len(known) - self._kept)
        for key in [key for key in known if key not in needed][:surplus]:
            del known[key]
        tables = DistributionTables.collect(known.values())
        self._known, self._tables = known, tables
        return tables

    def _of(
        self, profiles: list[Profile], done: Callable[[int], object] = lambda count: None
    ) -> list[ScoreDistribution]:
        computed: dict[Profile, ScoreDistribution] = {}
        for samples, part in (
            (self._samples, [profile for profile in profiles if profile.grades is None]),
            (self._graded_samples, [profile for profile in profiles if profile.grades is not None]),
        ):
            ways = distributions(self._metric, part, self._method, samples, self._seed, done, tilt=self.tilt)
            computed.update(zip(part, ways, strict=True))
        return [computed[profile] for profile in profiles]


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], object]]:
    """Count distributions on a terminal if they take seconds and tqdm (extra `data`) is installed."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield lambda count: None
        return
    with tqdm(total=total, unit="list", desc="score distributions", disable=None, delay=2, leave=False) as bar:
        yield bar.update
