"""Convert tables with a row per system, topic, fold and seed, such as the runs table, to `PairedScores`."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from rankbound.compare.scores import NO_TRAININGS, Floats, Integers, PairedScores
from rankbound.errors import DataError

SYSTEM = "system"
TRAINING = ("fold", "seed")
_UNTRAINED = "none"


def scores_of_runs(
    runs: pl.DataFrame, metric: str, by: Sequence[str] = ("model", "loss", "bounding"), *, members: bool = False
) -> PairedScores:
    """Return the scores of systems in the runs table on one metric; the columns `by`, joined by " / ", name a system.

    The rows should have one data set and protocol, one selection of epochs and one set of options per system. Controls
    (loss `none`) are not trained: their single run is paired with every seed of the others. With `members`, topics name
    the two members of a pair (`face1 face2`).

    Raises:
        DataError: a system has a topic twice in one training; the message names the columns in which the rows differ.
    """
    named = runs.with_columns(
        pl.concat_str([pl.col(name).cast(pl.String) for name in by], separator=" / ").alias(SYSTEM)
    )
    return scores_of_frame(named, metric, members=members)


def scores_of_frame(frame: pl.DataFrame, metric: str, *, members: bool = False) -> PairedScores:
    """Return the scores of rows with the columns `system`, `topic`, the metric and, if known, `fold` and `seed`.

    Null and NaN are undefined scores. Errors are those of `scores_of_runs`.
    """
    key = [SYSTEM, "topic", *(name for name in TRAINING if name in frame.columns)]
    _refuse_doubles(frame, key)
    systems, system = _coded(frame[SYSTEM])
    units, unit = _coded(frame["topic"])
    folds, fold = _coded(frame["fold"]) if "fold" in key else (NO_TRAININGS, np.zeros(len(frame), np.int64))
    seeds, seed = _coded(frame["seed"]) if "seed" in key else (NO_TRAININGS, np.zeros(len(frame), np.int64))
    values: Floats = np.full((len(systems), len(units), len(folds), len(seeds)), np.nan)
    values[system, unit, fold, seed] = frame[metric].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    if "loss" in frame.columns:
        untrained = set(frame.filter(pl.col("loss") == _UNTRAINED)[SYSTEM])
        for place in [place for place, name in enumerate(systems) if name in untrained]:
            values[place] = _beside_every_seed(values[place])
    return PairedScores(systems, units, values, folds, seeds, _members(units) if members else None)


def names_pairs(frame: pl.DataFrame) -> bool:
    """Return True if every row of the runs table is a pair whose topic names both members."""
    if "n" not in frame.columns or frame.is_empty():
        return False
    return bool((frame["n"] == 2).all()) and bool((frame["topic"].str.count_matches(" ") == 1).all())


def _refuse_doubles(frame: pl.DataFrame, key: Sequence[str]) -> None:
    twice = frame.filter(pl.struct(key).is_duplicated())
    if twice.is_empty():
        return
    first = twice.select(key).row(0, named=True)
    same = twice.filter(*(pl.col(name) == value for name, value in first.items()))
    texts = [name for name in same.columns if name not in key and not same[name].dtype.is_float()]
    differing = {name: same[name].unique().sort().to_list() for name in texts if same[name].n_unique() > 1}
    what = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in differing.items())
    raise DataError(
        f"{', '.join(f'{name} {value}' for name, value in first.items())}: found {len(same)} scores, expected one; "
        + (f"the rows differ in {what}: choose one" if what else "the rows differ only in their scores")
    )


def _coded(column: pl.Series) -> tuple[list[str], Integers]:
    """Return the sorted distinct values as text, and the index of each row's value."""
    names = column.unique().sort()
    places = column.replace_strict(names, pl.Series(np.arange(len(names))), return_dtype=pl.Int64)
    return names.cast(pl.String).to_list(), places.to_numpy()


def _beside_every_seed(values: Floats) -> Floats:
    """Repeat the scores of the only seed that has any for all seeds; unchanged if several have scores."""
    scored = np.flatnonzero(np.isfinite(values).any((0, 1)))
    return np.repeat(values[:, :, scored], values.shape[2], 2) if len(scored) == 1 else values


def _members(units: Sequence[str]) -> Integers:
    pairs = np.array([unit.split(" ") for unit in units])
    _, places = np.unique(pairs, return_inverse=True)
    return places.reshape(-1, 2).astype(np.int64)
