"""A bootstrap of many cells: topics and trainings are drawn with replacement, the same ones for all cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankbound.compare import Pair
from rankbound.compare.draws import draws
from rankbound.compare.intervals import percentiles
from rankbound.compare.scores import Floats, any_over, mean_of_known
from rankbound_study.claims.cells import Cell
from rankbound_study.claims.rules import HALF, by_interval

RESAMPLES = 1999


@dataclass(frozen=True)
class Share:
    """The number of `n` cells with a positive mean difference, and the 95 % interval of their share."""

    count: int
    n: int
    low: float
    high: float

    @property
    def measured(self) -> tuple[float, float, float]:
        """The share and its interval: `value`, `low` and `high` of a verdict."""
        return self.count / self.n, self.low, self.high

    @property
    def verdict(self) -> str:
        """The verdict that most cells have a positive difference."""
        return by_interval(self.low, self.high, HALF)

    @property
    def interval(self) -> str:
        """The interval as text."""
        return f"{100 * self.low:.0f} to {100 * self.high:.0f} %"

    def __str__(self) -> str:
        return f"{self.count} of {self.n} (95 % interval over topics and trainings: {self.interval})"


def shares_above_zero(pairs: Mapping[Cell, Pair], *groups: Sequence[Cell]) -> list[Share]:
    """Return the share of each group of cells."""
    resampled = dict(zip(pairs, (resampled_means(pairs) > 0).T, strict=True))
    found = []
    for group in groups:
        low, high = percentiles(np.mean([resampled[cell] for cell in group], axis=0))
        count = sum(float(mean_of_known(pairs[cell].differences)) > 0 for cell in group)
        found.append(Share(count, len(group), low, high))
    return found


def resampled_means(pairs: Mapping[Cell, Pair], resamples: int = RESAMPLES) -> Floats:
    """Return resampled mean differences `(resamples, n_cells)`.

    A topic of a data set is drawn for all its cells, with all its lists, at every ratio. A training is a seed in a fold
    of a column, shared by boundings and losses. Drawing both is conservative: the variance of a topic within one
    training counts up to three times (Owen 2007, "The pigeonhole bootstrap").
    """
    random = np.random.default_rng(0)
    datasets = sorted({cell.column.dataset for cell in pairs})
    names = {
        dataset: sorted({unit for cell, one in pairs.items() if cell.column.dataset == dataset for unit in one.units})
        for dataset in datasets
    }
    drawn = {dataset: draws(random, len(names[dataset]), resamples) for dataset in datasets}
    places = {dataset: {name: place for place, name in enumerate(names[dataset])} for dataset in datasets}
    of_seeds: dict[object, Floats] = {}
    means = np.empty((resamples, len(pairs)))
    for number, (cell, one) in enumerate(pairs.items()):
        differences = one.a - one.b
        trained = any_over(np.isfinite(differences), 0)
        key = (cell.column, trained.tobytes())
        if key not in of_seeds:
            of_seeds[key] = _drawn_seeds(random, trained, resamples)
        dataset = cell.column.dataset
        topics = drawn[dataset][:, [places[dataset][name] for name in one.units]]
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
