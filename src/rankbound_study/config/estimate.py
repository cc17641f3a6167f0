"""A rough estimate of what trainings take, so that a configuration that would run for years says so beforehand."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from rankbound_study.config.data_sizes import topics_of
from rankbound_study.config.samplings import FULL, TEST, TRAIN, UNIFORM, SampledName
from rankbound_study.config.study import Study, TrainingRun

SECONDS_OF_A_JOB = 2.0
SECONDS_OF_A_LIST = 80e-6
"""Processor time of a list in an epoch, measured on short lists with small models (MovieLens, MQ2008)."""

GIGABYTES_OF_A_JOB = 0.5
BYTES_OF_A_WEIGHT = 20
"""A weight in single precision, its gradient, Adam's two means and the kept best weights."""

TOGETHER = 5
"""Folds and seeds that are trained at once."""

ROWS = 10_000
"""Users and items together, each of which has factors."""

FEATURES = 100
"""Inputs of a network."""

_UNITS = (("years", 365 * 24 * 3600), ("days", 24 * 3600), ("hours", 3600), ("minutes", 60))


class Estimate(NamedTuple):
    """Processor time in seconds of all training jobs, and the memory of the largest in gigabytes."""

    seconds: float
    gigabytes: float

    def __str__(self) -> str:
        unit, length = next((pair for pair in _UNITS if self.seconds >= 2 * pair[1]), _UNITS[-1])
        return f"some {max(1, round(self.seconds / length)):,} {unit} of a processor, and {self.gigabytes:.1f} GB a job"


def estimated(study: Study, runs: Iterable[TrainingRun]) -> Estimate:
    """Estimate the trainings of losses and boundings; the times of other models and of pictures differ too much."""
    seconds, gigabytes, every = 0.0, GIGABYTES_OF_A_JOB, list(runs)
    lists_of = {source: topics_of(study, source) for source in {run.instances.source for run in every}}
    for run in every:
        options = study.options(run)
        lists = lists_of[run.instances.source]
        trainings = len(options["folds"]) * len(options["seeds"])
        seconds += SECONDS_OF_A_JOB + trainings * _epochs(options) * lists * SECONDS_OF_A_LIST
        held = min(trainings, TOGETHER) * _weights(options["model"]) * BYTES_OF_A_WEIGHT / 1e9
        gigabytes = max(gigabytes, GIGABYTES_OF_A_JOB + held)
    return Estimate(seconds, gigabytes)


def uncounted(runs: Iterable[TrainingRun]) -> Iterator[str]:
    """Yield what the estimate leaves out, which may be most of the time: the long lists of whole catalogues."""
    every = list(runs)
    sampling_of = {run.instances.name: SampledName.of(run.instances.data_set.dataset).sampling for run in every}
    if whole := [name for name, sampling in sampling_of.items() if FULL in sampling]:
        yield (
            f"{', '.join(whole)}: lists of the whole catalogue take longer than estimated, in proportion to their items"
        )
    slow = [run for run in every if run.loss == "AP" and run.bounding.startswith("distribution")]
    for name in dict.fromkeys(run.instances.name for run in slow if sampling_of[run.instances.name].train == FULL):
        yield (
            f"{name}: tables of AP's score distributions take up to a minute for each size of whole catalogues, of "
            f"which there may be hundreds; `sampling: [{{{TRAIN}: {UNIFORM}, {TEST}: {FULL}}}]` needs none"
        )


def _epochs(options: Mapping[str, Any]) -> int:
    """Return the number of times that a training reads its lists: epochs, or trees."""
    return int(options["model"]["rounds"] if "rounds" in options["model"] else options["epochs"])


def _weights(model: Mapping[str, Any]) -> int:
    """Return about the number of weights of a model."""
    if "factors" in model:
        return int(model["factors"]) * ROWS
    widths = [FEATURES, *model.get("hidden", ()), 1]
    return sum(a * b for a, b in pairwise(widths))
