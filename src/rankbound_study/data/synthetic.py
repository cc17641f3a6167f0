"""Seeded stand-ins for the licensed data sets, always labelled synthetic, for demonstrations and tests.

They have the published sizes and shares, scaled down on demand, and a planted structure that a model can learn in part:
a random ordering scores below a fitted model, and the model below an oracle, by margins that tests state.
"""

import json
import os
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import ConfigError
from rankbound.texts import derive_seed
from rankbound_study.config.data_sets import SMALLEST_GENERATED, SYNTHETIC
from rankbound_study.config.sections.planted import PlantedKeys
from rankbound_study.data.contracts import write_table
from rankbound_study.data.folds import FOLDS
from rankbound_study.data.schemas import DATASET_KEY, PARTS_KEY, SYNTHETIC_KEY
from rankbound_study.data.synthetic_faces import generate_faces
from rankbound_study.data.synthetic_ratings import like_movielens, with_planted

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SIZES = {
    "synthetic-movielens": {"demo": 60, "full": 412},
    "synthetic-mq2008": {"demo": 120, "full": 784},
    "synthetic-aaf": {"demo": 240, "full": 12_936},
}
"""Number of topics (users with enough relevant items, or queries), or of faces."""

_WIDTH = 46

# MQ2008 (INVENTORY section 1): 5 .. 121 documents, median 8, mean 19.4; labels 0, 1, 2 in shares 81, 13 and 6%; 28% of
# the queries have no label above 0; every query has some label 0.
_FEWEST_DOCUMENTS, _MOST_DOCUMENTS, _MEDIAN_MORE, _MORE_SPREAD = 5, 121, 3.5, 1.6
_EMPTY_SHARE, _POSITIVE_SHARE, _TOP_SHARE = 0.28, 0.3, 0.32
_CAUSES, _INFORMATIVE, _CONSTANT, _NOISE = 6, 30, 6, 0.8
_FIRST_QUERY = 10_001


def generate(
    dataset: str, out: str | os.PathLike[str], seed: int, size: str, planted: PlantedKeys | None = None
) -> None:
    """Write `synthetic-movielens` (interactions), `synthetic-mq2008` (judged lists) or `synthetic-aaf` (images).

    With `planted` parameters, a data set of any other name `synthetic-*` has ratings by these. `size` is a number of
    topics or faces, `demo` or `full`. Raises ConfigError for another data set or size.
    """
    if (dataset in SIZES) == (planted is not None) or not dataset.startswith(SYNTHETIC):
        raise ConfigError(
            f"there is no synthetic data set {dataset!r}; known are {', '.join(SIZES)}, and, with planted parameters, "
            f"any other name {SYNTHETIC}*"
        )
    topics = _topics(dataset, size)
    stated = {"dataset": dataset, "seed": seed, "topics": topics}
    if planted is not None:
        stated["planted"] = planted.model_dump()
    metadata = {DATASET_KEY: dataset, SYNTHETIC_KEY: json.dumps(stated, sort_keys=True)}
    if dataset == "synthetic-aaf":
        generate_faces(out, topics, seed, metadata)
        return
    if planted is not None:
        # Not by the name: two data sets that differ in one parameter share everything that it does not change.
        ratings = with_planted(np.random.default_rng(derive_seed("planted", seed, topics)), topics, planted)
        write_table(ratings, out, "interactions", metadata=metadata)
        return
    random = np.random.default_rng(derive_seed("synthetic", dataset, seed, topics))
    if dataset == "synthetic-movielens":
        write_table(like_movielens(random, topics, SIZES[dataset]["full"]), out, "interactions", metadata=metadata)
        return
    table, parts = _judged_lists(random, topics)
    write_table(table, out, "lists", parts, {**metadata, PARTS_KEY: json.dumps(_places(parts))})


def _places(sizes: list[int]) -> dict[str, list[list[int]]]:
    """Return the ranges of parts of these sizes."""
    ends = np.cumsum(sizes).tolist()
    return {f"S{part}": [[end - size, end]] for part, (size, end) in enumerate(zip(sizes, ends, strict=True), start=1)}


def _topics(dataset: str, size: str) -> int:
    sizes = SIZES.get(dataset, SIZES["synthetic-movielens"])
    if size in sizes:
        return sizes[size]
    if not size.isdigit() or int(size) < SMALLEST_GENERATED:
        raise ConfigError(f"--size is {size!r}; expected demo, full, or a number of topics from {SMALLEST_GENERATED}")
    return int(size)


def _judged_lists(random: np.random.Generator, queries: int) -> tuple[pa.Table, list[int]]:
    """Return lists whose labels follow hidden causes, partly linear; the features are noisy mixtures of these."""
    more = np.floor(_MEDIAN_MORE * np.exp(_MORE_SPREAD * random.standard_normal(queries)))
    sizes = np.clip(_FEWEST_DOCUMENTS + more, _FEWEST_DOCUMENTS, _MOST_DOCUMENTS).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    rows = int(offsets[-1])
    causes = random.standard_normal((rows, _CAUSES))
    weights = random.permutation(np.linspace(0.4, 1.2, _CAUSES)) * random.choice((-1.0, 1.0), _CAUSES)
    utility = causes @ weights + np.tanh(causes[:, 0] * causes[:, 1]) + _NOISE * random.standard_normal(rows)
    labels = np.concatenate([_labels(random, utility[start:stop]) for start, stop in pairwise(offsets)])
    features = _features(random, causes, offsets)
    topics = [str(_FIRST_QUERY + query) for query in range(queries)]
    names = [f"SYNTHETIC-{topic}-{place}" for topic, size in zip(topics, sizes, strict=True) for place in range(size)]
    starts = pa.array(offsets.astype(np.int32))
    columns = {
        "items": pa.array(names),
        "relevance": pa.array(labels),
        "features": pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), _WIDTH),
    }
    lists = {name: pa.ListArray.from_arrays(starts, values) for name, values in columns.items()}
    parts = [len(part) for part in np.array_split(np.arange(queries), FOLDS)]
    return pa.table({"topic": topics, **lists}), parts


def _labels(random: np.random.Generator, utility: Floats) -> npt.NDArray[np.int8]:
    """Return the labels of one query: 0 throughout for some, else the best get 2 and 1, and at least one stays 0."""
    labels = np.zeros(len(utility), dtype=np.int8)
    if random.random() < _EMPTY_SHARE:
        return labels
    positives = np.clip(random.binomial(len(utility), _POSITIVE_SHARE), 1, len(utility) - 1)
    order = np.argsort(-utility)[:positives]
    labels[order] = 1
    labels[order[: random.binomial(positives, _TOP_SHARE)]] = 2
    return labels


def _features(random: np.random.Generator, causes: Floats, offsets: Integers) -> npt.NDArray[np.float32]:
    """Return noisy mixtures of the causes, pure noise and constants, scaled to 0 .. 1 per query as LETOR does."""
    rows = len(causes)
    mixed = causes @ random.standard_normal((_CAUSES, _INFORMATIVE)) / np.sqrt(_CAUSES)
    noise = random.standard_normal((rows, _WIDTH - _CONSTANT))
    noise[:, :_INFORMATIVE] = mixed + _NOISE * noise[:, :_INFORMATIVE]
    lowest = np.minimum.reduceat(noise, offsets[:-1])
    spread = np.maximum.reduceat(noise, offsets[:-1]) - lowest
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    features = np.zeros((rows, _WIDTH))
    features[:, random.permutation(_WIDTH)[: _WIDTH - _CONSTANT]] = (noise - lowest[query]) / spread[query]
    return np.round(features, 6).astype(np.float32)
