"""Features by which a ranker may look too good: the order of the rows, or the relevance label in other units."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound.io.table_columns import Table

_FEWEST_ROWS = 8
"""Fewer rows are in some order, and have some labels, by chance."""

_FIRST_ROWS = 1024
"""Rows at the beginning of a batch that settle most columns."""


class Shadows:
    """Features that are the order of the rows, or the relevance label in other units, found in one pass over the rows.

    By such a feature, a ranker may look much better than it is. Whole numbers number the rows if they rise or fall from
    each row to the next, or if those of each topic are successive, in any order.
    """

    def __init__(self, names: Sequence[str], categories: Collection[str] = ()) -> None:
        self._names, self._n_rows, self._n_within = list(names), 0, 0
        self._within = {name: place for place, name in enumerate(names) if name not in categories}
        # The last value of a column, and the signs of its steps from row to row.
        self._steps = {name: (np.empty(0), set[float]()) for name in self._within}
        self._values: dict[str, dict[float, float]] = {name: {} for name in self._within}

    def read_rows(self, table: Table, relevance: npt.NDArray[Any]) -> None:
        """Take the next rows into account, in the order of the table."""
        self._n_rows += len(relevance)
        # The first rows settle most columns.
        for rows in (slice(0, _FIRST_ROWS), slice(_FIRST_ROWS, None)):
            if not len(relevance[rows]) or not (self._steps or self._values):
                continue
            labels, firsts, label_of_row = np.unique(relevance[rows], return_index=True, return_inverse=True)
            for name in {**self._steps, **self._values}:
                values = table.frame[name][rows].cast(pl.Float64).to_numpy()
                if name in self._steps:
                    last, signs = self._steps.pop(name)
                    signs |= {*np.unique(np.sign(np.diff(values, prepend=last))).tolist()}
                    if (signs <= {1.0} or signs <= {-1.0}) and (values == np.floor(values)).all():
                        self._steps[name] = values[-1:], signs
                if (known := self._values.get(name)) is not None:
                    by_label = dict(zip(labels.tolist(), values[firsts].tolist(), strict=True)) | known
                    if (values == np.array([by_label[label] for label in labels.tolist()])[label_of_row]).all():
                        known.update(by_label)
                    else:
                        del self._values[name]

    def read_topics(self, features: npt.NDArray[np.float32], offsets: npt.NDArray[np.int64]) -> None:
        """Take whole topics into account, with all features."""
        self._n_within += int(offsets[-1]) - len(offsets) + 1
        some = min(int(np.searchsorted(offsets, _FIRST_ROWS)), len(offsets) - 1)
        for limits in (offsets[: some + 1], offsets[some:]):
            rows = slice(int(limits[0]), int(limits[-1]))
            self._within = {
                name: place for name, place in self._within.items() if _number_lists(features[rows, place], limits)
            }

    def found(self) -> dict[str, str]:
        """Return such features after all rows, with what they do."""
        reasons: dict[str, str] = {}
        if self._n_within >= _FEWEST_ROWS:
            reasons |= dict.fromkeys(self._within, "numbers the rows of each topic")
        if self._n_rows >= _FEWEST_ROWS:
            reasons |= dict.fromkeys(self._steps, "numbers the rows")
            steps = {name: np.diff([known[label] for label in sorted(known)]) for name, known in self._values.items()}
            monotone = [name for name, step in steps.items() if len(step) and ((step > 0).all() or (step < 0).all())]
            reasons |= dict.fromkeys(monotone, "is the relevance label in other units")
        return {name: reasons[name] for name in self._names if name in reasons}


def _number_lists(values: npt.NDArray[np.float32], offsets: npt.NDArray[np.int64]) -> bool:
    """Return whether the values of each list are successive whole numbers, in any order."""
    if (values != np.floor(values)).any():
        return False
    list_of_row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    steps = np.diff(values[np.lexsort((values, list_of_row))])
    return bool((steps[np.diff(list_of_row) == 0] == 1).all())
