"""A rough estimate of what a training of the comparisons takes: by the sizes of the model and of its data.

The constants were fitted to the records of the study on MQ2008's queries and on 100 x 100 pixels of faces, by one
thread of an AMD EPYC processor. An estimate is right within a factor of about two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rankbound_study.config.data_sizes import Sizes
from rankbound_study.config.trainings import trainings_of
from rankbound_study.vocabulary import PENALISED, TREES

SECONDS_OF_A_BATCH = 1.5e-3
"""Of an optimiser's step on a small model."""

OPERATIONS = 60e9
"""Floating-point operations per second in products of matrices."""

PER_WEIGHT = 6
"""Operations per weight and item: a product and a sum, forward, and twice as many backward."""

CNN = {"time": 20e6, "memory": 0.9e6}
"""Weights of a network that takes as long, or as much memory, as the convolutional one."""

SECONDS_OF_A_TREE = 4e-3
SECONDS_OF_A_VISIT = 20e-9
"""Of one value of one item, for each tree."""
SECONDS_OF_A_BIN = 230e-9
"""Of one value of one item, once, to find its bin."""
LASSO = 10
"""A lasso's path takes about so many times as long as ridge regression."""

BYTES_OF_A_WEIGHT = 20
"""A weight in single precision, its gradient, Adam's two means and the kept best weights."""

BYTES_OF_A_VALUE = {"lists": 12}
"""Of one feature of one item, as read, scaled, and in the lists of a part."""

BYTES_OF_A_PIXEL = {"trees": 5, "penalised": 11, "network": 0}
"""Of one value of one picture, beside the byte that it is: a network takes its batches out of the bytes."""

CONVOLUTIONAL = "cnn"


@dataclass(frozen=True)
class Cost:
    """Processor time in seconds and memory in bytes, without what every job takes."""

    seconds: float
    bytes: float


def cost_of_method(options: Mapping[str, Any], sizes: Sizes, kind: str, repeats: int) -> Cost:
    """Return the cost of a job with these options.

    `kind` is the section that defines its data set, and `repeats` the number of times that the folds are drawn.
    """
    model, settings = options["model"], options["settings"]
    items = 2 * sizes.topics if kind == "images" else sizes.rows  # a list is a pair of pictures
    width = min(settings.get("features", sizes.width), sizes.width)
    trainings = trainings_of(options, repeats)
    family = "trees" if model["name"] in TREES else "penalised" if model["name"] in PENALISED else "network"
    held: float = BYTES_OF_A_VALUE.get(kind, 0) * sizes.rows * sizes.width
    if kind == "images":
        held = sizes.rows * (sizes.width + BYTES_OF_A_PIXEL[family] * width)
    if family == "trees":
        return Cost(trainings * _seconds_of_trees(model, items, width), held)
    if family == "penalised":
        return Cost(trainings * _seconds_of_regression(model, items, width), held)
    seconds = _seconds_of_network(model, settings, sizes.topics, items, width)
    return Cost(trainings * seconds, held + _bytes_of_weights(model, width))


def weights_of(model: Mapping[str, Any], inputs: int) -> int:
    """Return the number of weights of fully connected layers, biases left out."""
    return sum(a * b for a, b in pairwise([inputs, *model.get("hidden", ()), 1]))


def _seconds_of_trees(model: Mapping[str, Any], rows: int, width: int) -> float:
    visits = rows * width * model.get("feature_share", 1.0)
    return float(model["rounds"] * (SECONDS_OF_A_TREE + visits * SECONDS_OF_A_VISIT) + rows * width * SECONDS_OF_A_BIN)


def _seconds_of_regression(model: Mapping[str, Any], rows: int, width: int) -> float:
    """Return the time of products of the items' features, as many as the smaller side has, for all penalties."""
    times = LASSO if model["name"] == "lasso" else 1
    return times * 2.0 * rows * width * min(rows, width) / OPERATIONS


def _seconds_of_network(
    model: Mapping[str, Any], settings: Mapping[str, Any], lists: int, items: int, width: int
) -> float:
    batches = settings.get("batches", "lists")
    drawn = {"lists": lists, "items": items, "pairs": settings.get("pairs", lists)}[batches]
    if batches == "pairs":
        items = 2 * drawn
    weights = CNN["time"] if model["name"] == CONVOLUTIONAL else weights_of(model, width)
    steps = drawn / settings["batch_size"]
    return float(settings["epochs"] * (items * PER_WEIGHT * weights / OPERATIONS + steps * SECONDS_OF_A_BATCH))


def _bytes_of_weights(model: Mapping[str, Any], width: int) -> float:
    weights = CNN["memory"] if model["name"] == CONVOLUTIONAL else weights_of(model, width)
    return BYTES_OF_A_WEIGHT * weights
