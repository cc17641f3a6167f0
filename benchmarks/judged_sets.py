"""Generated LETOR text with the size of a known data set: its queries, rows, features, and shares of labels."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

_KEPT_SIGNAL = 0.5
"""By how many deviations a label shifts a third of the features; twice as many for another third."""
_QUERIES_AT_ONCE = 50


@dataclass(frozen=True)
class JudgedSet:
    """What is published of a data set of judged lists.

    Attributes:
        topics, rows, width: numbers of queries, rows and features.
        labels: numbers, or shares, of the rows with the labels 0, 1, ...
        counts: number of integer features, like the counts of words; the others have six decimals.
        dense: share of nonzero values.
        spread: standard deviation of the logarithm of the lists' sizes.
        zeros: write the values that are zero.
        query_ids: write `qid:` into each line.
    """

    topics: int
    rows: int
    width: int
    labels: tuple[float, ...]
    counts: int = 0
    dense: float = 0.75
    spread: float = 0.6
    zeros: bool = True
    query_ids: bool = True


MSLR_WEB10K = JudgedSet(10_000, 1_200_192, 136, (624_263, 386_280, 159_451, 21_317, 8_881), counts=66)
MSLR_WEB30K = JudgedSet(31_531, 3_771_125, 136, MSLR_WEB10K.labels, counts=66)
MQ2008 = JudgedSet(784, 15_211, 46, (12_279, 2_001, 931), spread=1.0)
# The training and the test file of LightGBM's example of lambdarank; the shares of its labels are about these.
LIGHTGBM_TRAIN = JudgedSet(201, 3_005, 300, (40, 32, 20, 6, 2), dense=0.25, zeros=False, query_ids=False)
LIGHTGBM_TEST = JudgedSet(50, 768, 300, LIGHTGBM_TRAIN.labels, dense=0.25, zeros=False, query_ids=False)


def sizes_of(random: np.random.Generator, topics: int, rows: int, spread: float) -> npt.NDArray[np.int64]:
    """Return uneven list sizes with the sum `rows`."""
    weight = np.exp(spread * random.standard_normal(topics))
    ends = np.round(np.cumsum(weight) / weight.sum() * (rows - topics)).astype(np.int64)
    sizes: npt.NDArray[np.int64] = np.diff(ends, prepend=0) + 1
    return sizes


def write_queries(
    file: BinaryIO,
    random: np.random.Generator,
    judged: JudgedSet,
    queries: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> None:
    """Write the lines of some queries of a data set, whose lists have these sizes."""
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        file.writelines(_lines(random, judged, queries[start : start + _QUERIES_AT_ONCE], sizes))


def _lines(
    random: np.random.Generator, judged: JudgedSet, queries: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> Iterator[bytes]:
    """Yield the lines of some queries, with labels that depend weakly on the features, and without comments."""
    query, feature = np.repeat(queries, sizes[queries]), np.arange(judged.width)
    label = np.searchsorted(np.cumsum(judged.labels) / sum(judged.labels), random.random(len(query)), side="right")
    noise = np.abs(random.standard_normal((len(query), judged.width)) + _KEPT_SIGNAL * label[:, None] * (feature % 3))
    values = np.where(random.random(noise.shape) < judged.dense, noise * 10.0 ** (feature % 4), 0)
    is_count = (feature % 2 == 0) & (feature < 2 * judged.counts)
    kinds = [f"{index}:%d" if count else f"{index}:%.6f" for index, count in enumerate(is_count.tolist(), 1)]
    whole = " ".join(kinds)
    for grade, topic, row in zip(label.tolist(), query.tolist(), values.tolist(), strict=True):
        key = f"qid:{topic + 1} " if judged.query_ids else ""
        text = (
            whole % tuple(row)
            if judged.zeros
            else " ".join(kind % value for kind, value in zip(kinds, row, strict=True) if value)
        )
        yield f"{grade} {key}{text} \n".encode()
