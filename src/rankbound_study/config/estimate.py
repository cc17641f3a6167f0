"""A rough estimate of what a study takes, so that a configuration that would run for years says so beforehand."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rankbound_study.config.comparisons import Compared, method_options
from rankbound_study.config.data_sizes import Sizes, sizes_of
from rankbound_study.config.method_costs import BYTES_OF_A_VALUE, BYTES_OF_A_WEIGHT, cost_of_method, weights_of
from rankbound_study.config.samplings import FULL, TEST, TRAIN, UNIFORM, SampledName
from rankbound_study.config.score_distributions import needs_distributions
from rankbound_study.config.study import Study, TrainingRun
from rankbound_study.config.trainings import trainings_of

SECONDS_OF_A_JOB = 2.0
SECONDS_OF_A_LIST = 80e-6
"""Processor time of a list in an epoch, measured on short lists with small models (MovieLens, MQ2008)."""

SIDE = 224
SECONDS_OF_FEATURES, BYTES_OF_FEATURES = 0.5, 2e9
"""Processor time of VGG16's features of a picture of that side, and memory of the network and some pictures."""

BYTES_OF_A_JOB = 0.5e9
"""Memory of a training with its libraries, before it reads anything."""

BYTES_OF_A_RATING, BYTES_OF_A_CONVERSION = 90, {"interactions": 0.15e9, "lists": 0.3e9, "images": 0.6e9}
"""Memory of the conversion of a rating, and of that of data of a kind; lists and pictures are read piece by piece."""

TOGETHER = 5
"""Folds and seeds that are trained at once."""

CATALOGUE = 10_000
"""Items of ratings, each of which has factors as users do."""

_UNITS = (("years", 365 * 24 * 3600), ("days", 24 * 3600), ("hours", 3600), ("minutes", 60))


class Estimate(NamedTuple):
    """Processor time in seconds of all trainings, and the memory of the largest step in gigabytes, with its name."""

    seconds: float
    gigabytes: float
    largest: str

    def __str__(self) -> str:
        return f"some {time(self.seconds)} of a processor; the largest step, {self.largest}, {self.gigabytes:.1f} GB"


class _Work(NamedTuple):
    name: str
    seconds: float
    bytes: float


def time(seconds: float) -> str:
    """Return a time in the largest unit of which it has two, in minutes at least."""
    unit, length = next((pair for pair in _UNITS if seconds >= 2 * pair[1]), _UNITS[-1])
    return f"{max(1, round(seconds / length)):,} {unit}"


def estimated(study: Study, runs: Iterable[TrainingRun], compared: Iterable[Compared] = ()) -> Estimate:
    """Estimate trainings of losses and boundings and of methods, and the conversion of their data."""
    trained = [*(_of_run(study, run) for run in runs), *(_of_method(study, job) for job in compared)]
    every = [*trained, *_of_data(study)]
    largest = max(every, key=lambda work: work.bytes)
    return Estimate(sum(work.seconds for work in every), largest.bytes / 1e9, largest.name)


def uncounted(runs: Iterable[TrainingRun]) -> Iterator[str]:
    """Yield what the estimate leaves out, which may be most of the time: the long lists of whole catalogues."""
    every = list(runs)
    sampling_of = {run.instances.name: SampledName.of(run.instances.data_set.dataset).sampling for run in every}
    if whole := [name for name, sampling in sampling_of.items() if FULL in sampling]:
        yield (
            f"{', '.join(whole)}: lists of the whole catalogue take longer than estimated, in proportion to their items"
        )
    slow = [run for run in every if run.loss == "AP" and needs_distributions(run.bounding)]
    for name in dict.fromkeys(run.instances.name for run in slow if sampling_of[run.instances.name].train == FULL):
        yield (
            f"{name}: tables of AP's score distributions take up to a minute for each size of whole catalogues, of "
            f"which there may be hundreds; `sampling: [{{{TRAIN}: {UNIFORM}, {TEST}: {FULL}}}]` needs none"
        )


def _of_run(study: Study, run: TrainingRun) -> _Work:
    """Estimate a job of a loss with a bounding."""
    options, sizes = study.options(run), sizes_of(study, run.instances.source)
    trainings = trainings_of(options, study.repeats_of(run.instances.source))
    seconds = trainings * _epochs(options) * sizes.topics * SECONDS_OF_A_LIST
    weights = min(trainings, TOGETHER) * _weights(options["model"], sizes) * BYTES_OF_A_WEIGHT
    held = BYTES_OF_A_VALUE.get(run.instances.kind, 0) * sizes.rows * sizes.width
    return _Work(f"a training of {run.instances.name}", SECONDS_OF_A_JOB + seconds, BYTES_OF_A_JOB + weights + held)


def _of_method(study: Study, job: Compared) -> _Work:
    """Estimate a job of a comparison."""
    instances = job.instances
    sizes = sizes_of(study, instances.source, instances.features)
    options = method_options(study.comparisons[job.comparison], instances, job.method)
    cost = cost_of_method(options, sizes, instances.kind, study.repeats_of(instances.source))
    return _Work(f"{job.method} of {instances.name}", SECONDS_OF_A_JOB + cost.seconds, BYTES_OF_A_JOB + cost.bytes)


def _of_data(study: Study) -> Iterator[_Work]:
    """Estimate the conversion of each data set, and the features of pictures."""
    for source in study.sources:
        kind, rows = study.kind_of(source), sizes_of(study, source).rows
        of_rows = BYTES_OF_A_RATING * rows if kind == "interactions" else 0
        made = "generation" if source in study.generated else "conversion"
        yield _Work(f"the {made} of {source}", 0.0, BYTES_OF_A_CONVERSION[kind] + of_rows)
    for instances in study.instances.values():
        if instances.features:
            pictures, source = sizes_of(study, instances.source).rows, instances.source
            share = ((study.sources[source].get("vgg16_side") or SIDE) / SIDE) ** 2
            seconds, held = pictures * share * SECONDS_OF_FEATURES, share * BYTES_OF_FEATURES
            yield _Work(f"the features of {source}", seconds, held)


def _epochs(options: Mapping[str, Any]) -> int:
    """Return the number of times that a training reads its lists: epochs, or trees."""
    return int(options["model"]["rounds"] if "rounds" in options["model"] else options["epochs"])


def _weights(model: Mapping[str, Any], sizes: Sizes) -> int:
    """Return about the number of weights of a model."""
    return int(model["factors"]) * (sizes.topics + CATALOGUE) if "factors" in model else weights_of(model, sizes.width)
