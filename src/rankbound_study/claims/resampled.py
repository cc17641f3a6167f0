"""A bootstrap of many cells: topics and trainings are drawn with replacement, the same ones for all cells."""

from collections.abc import Mapping

import numpy as np

from rankbound.compare import Pair
from rankbound.compare.scores import Floats, any_over
from rankbound.compare.statistics import draws
from rankbound_study.claims.cells import Cell

RESAMPLES = 1999


def resampled_means(pairs: Mapping[Cell, Pair], resamples: int = RESAMPLES) -> Floats:
    """Return resampled mean differences `(resamples, n_cells)`.

    A topic is drawn for all cells of its source, with all its lists, at every ratio and in every reading of its labels.
    A training is a seed in a fold of a column, shared by boundings and losses. Drawing both is conservative: the
    variance of a topic within one training counts up to three times (Owen 2007, "The pigeonhole bootstrap").
    """
    random = np.random.default_rng(0)
    sources = sorted({cell.column.source for cell in pairs})
    names = {
        source: sorted({unit for cell, one in pairs.items() if cell.column.source == source for unit in one.units})
        for source in sources
    }
    drawn = {source: draws(random, len(names[source]), resamples) for source in sources}
    places = {source: {name: place for place, name in enumerate(names[source])} for source in sources}
    of_seeds: dict[object, Floats] = {}
    means = np.empty((resamples, len(pairs)))
    for number, (cell, one) in enumerate(pairs.items()):
        differences = one.a - one.b
        trained = any_over(np.isfinite(differences), 0)
        key = (cell.column, trained.tobytes())
        if key not in of_seeds:
            of_seeds[key] = _drawn_seeds(random, trained, resamples)
        source = cell.column.source
        topics = drawn[source][:, [places[source][name] for name in one.units]]
        means[:, number] = _weighted_means(differences, topics, of_seeds[key])
    return means


def _drawn_seeds(random: np.random.Generator, trained: np.ndarray, resamples: int) -> Floats:
    """Return the share of each seed among the draws of its fold, `(resamples, n_folds, n_seeds)`."""
    shares = np.zeros((resamples, *trained.shape))
    for fold, seeds in enumerate(trained):
        count = int(seeds.sum())
        if count:
            shares[:, fold, seeds] = draws(random, count, resamples) / count
    return shares


def _weighted_means(differences: Floats, topics: Floats, seeds: Floats) -> Floats:
    lists = any_over(np.isfinite(differences), 2)
    weighted = np.nan_to_num(differences) / np.maximum(lists.sum(1), 1)[:, None, None]
    sums = topics @ weighted.reshape(len(weighted), -1)
    found: Floats = (sums * seeds.reshape(len(seeds), -1)).sum(1) / np.maximum(topics.sum(1), 1)
    return found
