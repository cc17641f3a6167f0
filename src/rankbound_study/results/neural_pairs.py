"""Means of the neural-ranking study's methods: over lists, over pairs of faces, and by what models see of a face.

Pairs are as the methods scored them: the older face, both scores, and the classifiers' labels. Means have the intervals
and tests of `rankbound.compare`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare.scores import Floats, Integers, mean_of_known
from rankbound.compare.statistics import RESAMPLES, bootstrap, drawn_means, interval_of_mean, p_value_of_mean
from rankbound.errors import DataError
from rankbound.io.models import check_seal
from rankbound_study.data.images import read_faces
from rankbound_study.results.study_files import read_frame, schema
from rankbound_study.vocabulary import STUDY

PAIR_ACCURACY = "PairAccuracy"

GAPS = ((6, 10), (11, 20), (21, 30), (31, 99))
"""Groups of age differences, in years, with their own accuracy; only pairs more than 5 years apart are drawn."""

GAP_COLUMNS = schema("text: method; int: from_years to_years n; float: accuracy low high")

_CONSTANT = 1e-12
"""A variance below this share of the mean square is that of a constant."""

READINGS = ("BothRight", "SameLabel", "BothWrong", "Ties")
"""Shares of pairs. A classifier labels a face "older" if that is more likely than not: both labels are right, equal or
wrong. `Ties` have equal scores and count as half a correct pair each."""

_KEY = ("dataset", "method", "fold", "seed", "topic")


@dataclass(frozen=True)
class MethodMeans:
    """Means of `values` `(n_methods, n_lists)`, NaN where undefined; lists that are pairs have `faces` `(n_lists, 2)`.

    Differences and combinations are over the lists with a score of all their methods. They agree with
    `rankbound.compare.compare` to the last digit.
    """

    values: Floats
    faces: Integers | None = None

    @property
    def means(self) -> Floats:
        """The mean of each method."""
        return mean_of_known(self.values)

    def interval(self, method: int) -> tuple[float, float]:
        """Return the 95 % interval of a method's mean, clipped to 0 .. 1 for pairs."""
        _, low, high = self._around(self.values[method])
        return (low, high) if self.faces is None else (max(low, 0.0), min(high, 1.0))

    def difference(self, method: int, other: int) -> tuple[float, float, float]:
        """Return the mean difference of two methods, with its 95 % interval."""
        return self._around(self.values[method] - self.values[other])

    def p_value(self, method: int, other: int) -> float:
        """Return the two-sided p-value of equal means of two methods."""
        return p_value_of_mean(self.values[method] - self.values[other], self.faces)

    def combination(self, weights: Floats) -> tuple[float, float, float, float]:
        """Return the weighted sum of all methods' means, its 95 % interval and the two-sided p-value of a zero sum."""
        used = np.flatnonzero(weights)
        values = weights[used] @ self.values[used]
        return *self._around(values), p_value_of_mean(values, self.faces)

    def _around(self, values: Floats) -> tuple[float, float, float]:
        """Return the mean and its interval: the value of a single list, NaN for several pairs of too few faces."""
        mean = float(mean_of_known(values))
        low, high = interval_of_mean(values, self.faces)
        return (mean, mean, mean) if np.isfinite(values).sum() < 2 else (mean, low, high)


def read_pairs(predictions: Sequence[Path], images: Path) -> pl.DataFrame:
    """Read one row per method, fold, seed and pair.

    The columns are the key, `older` and `younger` (rows of the images file), their ages and scores, the `years` between
    them, and 0 or 1 for each of `READINGS` and for `PairAccuracy`, in which a tie counts half.

    Raises:
        DataError: a list of the predictions is not a pair of faces of different ages.
    """
    ages = read_faces(images).ages.astype(np.int64)
    return pl.concat([_pairs_of(path, ages) for path in predictions]).sort(_KEY)


def _pairs_of(path: Path, ages: Integers) -> pl.DataFrame:
    columns = ["study", "dataset", "model", "loss", "fold", "seed", "topic", "items", "scores"]
    frame = read_frame(path, "predictions", columns).filter(pl.col("study") == STUDY)
    items, scores = (frame[name].explode().to_numpy() for name in ("items", "scores"))
    if not (frame["items"].list.len() == 2).all() or (len(items) and not 0 <= items.min() <= items.max() < len(ages)):
        raise DataError(f"{path}: column 'items' should hold pairs of rows of the images file, which has {len(ages)}")
    pairs, scored = items.reshape(-1, 2), scores.reshape(-1, 2).astype(np.float64)
    years = ages[pairs[:, 0]] - ages[pairs[:, 1]]
    if not years.all():
        topic = frame["topic"][int(np.flatnonzero(years == 0)[0])]
        raise DataError(f"{path}: the faces of {topic!r} have the same age")
    order = np.where(years[:, None] > 0, [0, 1], [1, 0])
    faces, of_faces = (np.take_along_axis(values, order, 1).T for values in (pairs, scored))
    sides = {
        f"{side}{part}": values[place]
        for part, values in (("", faces), ("_age", ages[faces]), ("_score", of_faces))
        for place, side in enumerate(("older", "younger"))
    }
    older, younger = of_faces
    # Scores of a squared loss are shares, 0 .. 1; all other classifiers' are log-odds.
    even = 0.5 * frame["loss"].str.starts_with("squared").to_numpy()
    right, wrong, tied = (older > even) & (younger < even), (older < even) & (younger > even), older == younger
    readings = (right, ~right & ~wrong, wrong, tied)
    return frame.select("dataset", pl.col("model").alias("method"), "fold", "seed", "topic").with_columns(
        *(pl.Series(name, values) for name, values in sides.items()),
        pl.Series("years", np.abs(years)),
        pl.Series(PAIR_ACCURACY, (older > younger) + 0.5 * tied),
        *(pl.Series(name, values.astype(np.float64)) for name, values in zip(READINGS, readings, strict=True)),
    )


def compared(pairs: pl.DataFrame, value: str) -> tuple[tuple[str, ...], MethodMeans]:
    """Return the methods of one data set and their means of a column over the pairs, averaged over seeds.

    Their errors allow for shared faces; a face in two folds counts once.
    """
    methods, wide = _by_method(pairs, value, ("older", "younger"))
    missing = [method for method in methods if wide[method].null_count()]
    if missing:
        raise DataError(f"predictions: {missing[0]} scored other pairs than the other methods; train it again")
    faces = wide.select("older", "younger").to_numpy().astype(np.int64)
    return methods, MethodMeans(wide.select(methods).to_numpy().T.astype(np.float64), faces)


def method_means(frame: pl.DataFrame, metric: str, pairs: pl.DataFrame | None) -> tuple[tuple[str, ...], MethodMeans]:
    """Return the methods and their per-list means; those of faces allow for pairs that share a face."""
    if metric == PAIR_ACCURACY and pairs is not None:
        return compared(pairs, PAIR_ACCURACY)
    methods, wide = _by_method(frame, metric)
    return methods, MethodMeans(wide.select(pl.col(methods).cast(pl.Float64).fill_null(math.nan)).to_numpy().T)


def _by_method(frame: pl.DataFrame, value: str, fixed: Sequence[str] = ()) -> tuple[tuple[str, ...], pl.DataFrame]:
    """Return the methods, and a column of means over seeds for each of them, a row per list."""
    columns = [pl.col(name).first() for name in fixed]
    averaged = frame.group_by("method", "fold", "topic").agg(*columns, pl.col(value).mean())
    wide = averaged.pivot("method", index=["fold", "topic", *fixed], values=value).sort("fold", "topic")
    return tuple(sorted(set(wide.columns) - {"fold", "topic", *fixed})), wide


def explained(pairs: pl.DataFrame) -> dict[str, tuple[float, float, float, int]]:
    """Return R^2 of each method's scores as ages, its interval, and the number of test faces, each once per fold."""
    columns = {"": "face", "_age": "age", "_score": "score"}
    sides = [
        pairs.select("method", "fold", *(pl.col(f"{side}{part}").alias(name) for part, name in columns.items()))
        for side in ("older", "younger")
    ]
    faces = pl.concat(sides).group_by("method", "fold", "face").agg(pl.col("age").first(), pl.col("score").mean())
    found = {}
    for (method,), own in faces.sort("method", "fold", "face").group_by("method", maintain_order=True):
        true: Floats = own["age"].to_numpy().astype(np.float64)
        found[str(method)] = (*r_squared(own["score"].to_numpy(), true), len(true))
    return found


def r_squared(predicted: Floats, true: Floats, resamples: int = RESAMPLES, seed: int = 0) -> tuple[float, float, float]:
    r"""Return the coefficient of determination of predictions, and the limits of its bootstrap interval over units.

    $$R^2 = 1 - \frac{\sum_u (t_u - p_u)^2}{\sum_u (t_u - \bar t)^2}$$

    is 1 for perfect predictions, 0 for the mean $\bar t$ (recomputed in each resample), and negative for worse ones.
    Both arrays are `(n_units,)`. NaN if the true values are constant.
    """
    if not len(true) or np.ptp(true) == 0:
        return math.nan, math.nan, math.nan

    def explained(missed: Any, centred: Any, squares: Any) -> Any:
        """Return R^2 from means over units; NaN for constant true values."""
        variance = squares - centred**2
        varies = variance > _CONSTANT * squares
        return 1 - np.divide(missed, variance, out=np.full(np.shape(variance), np.nan), where=varies)

    def of_units(*sample: Any, axis: int = -1) -> Any:
        return explained(*(column.mean(axis) for column in sample))

    centred = true - true.mean()
    columns = np.stack([(true - predicted) ** 2, centred, centred**2])
    resampled = explained(*drawn_means(columns, resamples, seed))
    interval = bootstrap(of_units, columns, resampled=resampled)
    return float(explained(*columns.mean(1))), *interval


def by_gap(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy by method and group of age differences, with the number of pairs and its interval."""
    rows = []
    for low, high in GAPS:
        within = pairs.filter(pl.col("years").is_between(low, high))
        if within.is_empty():
            continue
        methods, means = compared(within, PAIR_ACCURACY)
        count = means.values.shape[1]
        for place, method in enumerate(methods):
            rows.append((method, low, high, count, float(means.means[place]), *means.interval(place)))
    return pl.DataFrame(rows, schema=GAP_COLUMNS, orient="row").sort("method", "from_years")


def coefficients(path: Path, shape: tuple[int, int, int]) -> Floats | None:
    """Read the coefficients `shape` of the first fold and seed in a weights file; None if it holds no linear model.

    They refer to pixels from 0 to 1, whatever the model's own scale; those of a regression are in years.
    """
    from safetensors import safe_open

    check_seal(path)
    with safe_open(path, framework="numpy") as weights:
        names = sorted(weights.keys())
        sizes = {name: math.prod(weights.get_slice(name).get_shape()) for name in names if name.endswith("weight")}
        found = [name for name, size in sizes.items() if size == math.prod(shape)]
        if not found:
            return None
        first = found[0].rsplit("/", 1)[0]
        own = {name.removeprefix(f"{first}/"): weights.get_tensor(name) for name in names if name.startswith(first)}
        values = np.asarray(weights.get_tensor(found[0]), dtype=np.float64).reshape(shape)
    deviation = np.asarray(own.get("scale.deviation", 1.0), dtype=np.float64).reshape(-1, 1, 1)
    scaled: Floats = values / deviation * float(own.get("target.deviation", 1.0))
    return scaled
