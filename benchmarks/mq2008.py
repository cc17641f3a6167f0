"""MQ2008's five published folds, and differences between rankers that are paired by topic."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from rankbound_study.config.sections.known_sets import known_set
from rankbound_study.data.contracts import read_table
from rankbound_study.data.fetch import fetch
from rankbound_study.data.instances import SPLITS
from rankbound_study.data.judged_files import convert
from rankbound_study.data.list_splits import ListSplitting, split_lists
from rankbound_study.data.publishers import PUBLISHERS
from rankbound_study.data.reader import read_features
from rankbound_study.data.sources import SOURCES, RawFile

Array = npt.NDArray[Any]
Part = tuple[Array, Array, Array]
"""Features, relevance labels, and the sizes of the lists."""


def folds_of(folder: Path) -> list[dict[str, Part]]:
    """Return the splits of the five folds, by name; the archive is read from the mirror, or downloaded."""
    lists, folds = folder / "lists.parquet", folder / "folds.parquet"
    if not folds.exists():
        raw = fetch(PUBLISHERS["mq2008"], folder / "MQ2008.zip")
        convert(RawFile(SOURCES["mq2008"], raw), known_set("mq2008"), lists)
        split_lists(lists, folds, ListSplitting("mq2008"))
    features = read_features(lists).astype(np.float64)
    labels = read_table(lists, "lists", ["relevance"]).column("relevance").to_pylist()
    offsets = np.concatenate([[0], np.cumsum([len(list_labels) for list_labels in labels])])
    splits = read_table(folds, "list-splits")
    fold, split = splits.column("fold").to_numpy(), np.array(splits.column("split").to_pylist())
    rows_of_splits = splits.column("list").to_numpy()

    def select(topics: Array) -> Part:
        rows = np.concatenate([np.arange(offsets[topic], offsets[topic + 1]) for topic in topics])
        return features[rows], np.concatenate([labels[topic] for topic in topics]), np.diff(offsets)[topics]

    return [
        {name: select(rows_of_splits[(fold == number) & (split == name)]) for name in SPLITS} for number in range(1, 6)
    ]


def difference(paired: Array) -> list[str]:
    """Return the mean with its 95 % interval over topics, and the p-value of a sign-flip test."""
    test = stats.permutation_test(
        (paired,), np.mean, permutation_type="samples", n_resamples=9_999, vectorized=True, rng=0
    )
    interval = stats.bootstrap((paired,), np.mean, n_resamples=9_999, method="percentile", rng=0).confidence_interval
    return [f"{paired.mean():+.4f} ({interval.low:+.4f} to {interval.high:+.4f})", f"{test.pvalue:.2f}"]
