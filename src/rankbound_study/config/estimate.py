"""A rough estimate of what a study takes: the sizes of its data, and the time and memory of its methods.

The constants were fitted to the records of the study on MQ2008's queries and on 100 x 100 pixels of faces, by one
thread of an AMD EPYC processor. An estimate is right within a factor of about two.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from rankbound_study.config.data_sets import FULL, SYNTHETIC, SampledName
from rankbound_study.config.sections.data import ImageKeys
from rankbound_study.config.sections.description import own_files
from rankbound_study.config.sections.training import ConvolutionKeys, MatrixFactorizationKeys, PenalisedKeys, TreeKeys
from rankbound_study.config.study import Job, Study


class Sizes(NamedTuple):
    """About the sizes of a data set: topics, rows (ratings, judged items, pictures) and features of an item."""

    topics: int
    rows: int
    width: int


OTHER_LISTS, ITEMS, OF_A_USER, FEATURES = 1_000, 20, 100, 100
"""Topics, items of a list, ratings of a user, and features, of data sets of which nothing is known before they are
converted."""

KNOWN = {
    "movielens": Sizes(412, 100_836, FEATURES),
    "mq2008": Sizes(784, 15_211, 46),
    "mslr-web10k": Sizes(10_000, 1_200_192, 136),
}
"""The fetched data sets whose descriptions don't state their sizes."""

FACES = 12_936
"""Pictures of All-Age-Faces."""

PIXELS, OF_VGG16, SIDE = 3 * 100 * 100, 4_096, 224
"""Values of a picture, and of the network's penultimate layer; the side of its input pictures."""

SECONDS = {
    "job": 2.0,
    "list": 80e-6,  # in an epoch, measured on short lists with small models (MovieLens, MQ2008)
    "batch": 1.5e-3,  # an optimiser's step on a small model
    "tree": 4e-3,
    "visit": 20e-9,  # one value of one item, for each tree
    "bin": 230e-9,  # one value of one item, once, to find its bin
    "features": 0.5,  # those of VGG16, of a picture of the side `SIDE`
}
"""Processor time."""

BYTES = {
    "job": 0.5e9,  # a training with its libraries, before it reads anything
    "weight": 20,  # in single precision, with its gradient, Adam's two means and the kept best weights
    "line": 25,  # text with a rating
    "rating": 90,  # its conversion
    "features": 2e9,  # VGG16 and some pictures
    # Of one value of one picture, beside the byte that it is: a network takes its batches out of the bytes.
    "pixel of trees": 5,
    "pixel of penalised models": 11,
}
BYTES_OF_A_CONVERSION = {"interactions": 0.15e9, "lists": 0.3e9, "images": 0.6e9}
"""Memory of the conversion of data of a kind; lists and pictures are read piece by piece."""

BYTES_OF_A_VALUE = {"interactions": 0, "lists": 12, "images": 1}
"""Of one feature of one item: of lists, as read, scaled, and in the lists of a part."""

OPERATIONS, PER_WEIGHT = 60e9, 6
"""Floating-point operations per second in products of matrices, and those per weight and item: a product and a sum,
forward, and twice as many backward."""

CNN = {"time": 20e6, "memory": 0.9e6}
"""Weights of a network that takes as long, or as much memory, as the convolutional one."""

LASSO = 10
"""A lasso's path takes about so many times as long as ridge regression."""

TOGETHER, CATALOGUE = 5, 10_000
"""Folds and seeds that are trained at once, and items of ratings, each of which has factors as users do."""

WHOLE = 50
"""Lists of the whole catalogue take about so many times as long as sampled ones."""

LOOK, PACKED = 1 << 20, (".gz", ".zip", ".rar", ".parquet")
"""Bytes of a file's beginning that are looked at, and the endings of files that are not."""

_UNITS = (("years", 365 * 24 * 3600), ("days", 24 * 3600), ("hours", 3600), ("minutes", 60))
_QUERY = re.compile(rb"qid:([^\s]+)")


def sizes_of(study: Study, source: str, features: str | None = None) -> Sizes:
    """Return about the sizes of a data set, of whose files no more than the beginning of one is read.

    `features` names the network that computes those of pictures.
    """
    section, known = study.sources[source], KNOWN.get(source.removeprefix(SYNTHETIC))
    if isinstance(section, ImageKeys):
        return Sizes(section.pairs.train, section.size or FACES, OF_VGG16 if features else PIXELS)
    width = known.width if known else FEATURES
    if source in study.generated:
        topics = section.size or OTHER_LISTS
        return Sizes(topics, ITEMS * topics, width)
    if known:
        return known
    described = study.described(source)
    if described.sizes:
        return Sizes(described.sizes.topics, described.sizes.rows, described.features or width)
    topics, rows = 0, 0
    files = [Path(name) for name in own_files(described)] if described.path else []
    if files and all(file.is_file() and file.suffix not in PACKED for file in files):
        # The files of given folds repeat the topics.
        size = sum(file.stat().st_size for file in files) / (described.n_folds if described.given_folds else 1)
        with files[0].open("rb") as file:
            beginning = file.read(LOOK)
        share = size / max(1, len(beginning))
        if described.format == "ratings":
            topics, rows = int(size / BYTES["line"] / OF_A_USER), int(size / BYTES["line"])
        elif described.format == "letor":
            topics = round(len(set(_QUERY.findall(beginning))) * share)
        else:
            topics = round(beginning.count(b"\n") * share / ITEMS)
    topics = topics or OTHER_LISTS
    return Sizes(topics, rows or ITEMS * topics, described.features or width)


class Estimate(NamedTuple):
    """Processor time in seconds of all trainings, and the memory of the largest step in gigabytes, with its name."""

    seconds: float
    gigabytes: float
    largest: str

    def __str__(self) -> str:
        # In the largest unit of which it has two, in minutes at least.
        unit, length = next((pair for pair in _UNITS if self.seconds >= 2 * pair[1]), _UNITS[-1])
        time = f"{max(1, round(self.seconds / length)):,} {unit}"
        return f"some {time} of a processor; the largest step, {self.largest}, {self.gigabytes:.1f} GB"


def estimated(study: Study, jobs: Iterable[Job]) -> Estimate:
    """Estimate trainings, the conversion of their data, and the features of pictures."""
    steps = [_of_job(study, job) for job in jobs]
    with_features = {one.source for one in study.instances.values() if one.features}
    for source, section in study.sources.items():
        kind, rows = section.kind, sizes_of(study, source).rows
        of_rows = BYTES["rating"] * rows if kind == "interactions" else 0
        made = "generation" if source in study.generated else "conversion"
        steps.append((f"the {made} of {source}", 0.0, BYTES_OF_A_CONVERSION[kind] + of_rows))
        if isinstance(section, ImageKeys) and source in with_features:
            share = ((section.vgg16_side or SIDE) / SIDE) ** 2
            steps.append((f"the features of {source}", rows * share * SECONDS["features"], share * BYTES["features"]))
    largest, _, held = max(steps, key=lambda step: step[2])
    return Estimate(sum(seconds for _, seconds, _ in steps), held / 1e9, largest)


def _of_job(study: Study, job: Job) -> tuple[str, float, float]:
    """Return the name of a job, its processor time in seconds, and its memory in bytes."""
    instances, model, settings = job.instances, job.request.model, job.request.settings
    sizes = sizes_of(study, instances.source, instances.features)
    trainings = job.request.count_trainings(study.repeats_of(instances.source))
    epochs = model.rounds if isinstance(model, TreeKeys) else settings.epochs or 0
    is_images = instances.kind == "images"
    items = 2 * sizes.topics if is_images else sizes.rows  # a list is a pair of pictures
    width = min(settings.features or sizes.width, sizes.width)
    values, pixels = items * width, sizes.rows * width if is_images else 0
    weights = sum(a * b for a, b in pairwise([width, *(getattr(model, "hidden", None) or ()), 1]))
    held = float(sizes.rows * sizes.width * BYTES_OF_A_VALUE[instances.kind])
    if not job.comparison:
        longer = WHOLE if FULL in SampledName.of(instances.data_set.dataset).sampling else 1
        seconds = epochs * sizes.topics * SECONDS["list"] * longer
        if isinstance(model, MatrixFactorizationKeys):
            weights = model.factors * (sizes.topics + CATALOGUE)
        held += min(trainings, TOGETHER) * weights * BYTES["weight"]
    elif isinstance(model, TreeKeys):
        of_round = SECONDS["tree"] + values * (model.feature_share or 1.0) * SECONDS["visit"]
        seconds = epochs * of_round + values * SECONDS["bin"]
        held += pixels * BYTES["pixel of trees"]
    elif isinstance(model, PenalisedKeys):
        # Products of the items' features, as many as the smaller side has, for all penalties.
        seconds = (LASSO if model.name == "lasso" else 1) * 2.0 * values * min(items, width) / OPERATIONS
        held += pixels * BYTES["pixel of penalised models"]
    else:
        batches = settings.batches or "lists"
        drawn = {"lists": sizes.topics, "items": items, "pairs": settings.pairs or sizes.topics}[batches]
        read = 2 * drawn if batches == "pairs" else items
        time, memory = (CNN["time"], CNN["memory"]) if isinstance(model, ConvolutionKeys) else (weights, weights)
        steps = drawn / (settings.batch_size or 1)
        seconds = epochs * (read * PER_WEIGHT * time / OPERATIONS + steps * SECONDS["batch"])
        held += BYTES["weight"] * memory
    name = f"{job.model} of {instances.name}" if job.comparison else f"a training of {instances.name}"
    return name, SECONDS["job"] + trainings * seconds, BYTES["job"] + held
