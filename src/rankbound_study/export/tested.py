"""The test lists of a data set, under names that TREC files can hold, and the relevance of their items."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound.errors import DataError
from rankbound.io.table_columns import require_distinct_items
from rankbound_study.config.data_sets import VGG16
from rankbound_study.data.reader import FoldedLists, read_instances, read_item_names


@dataclass(frozen=True)
class Tested:
    """A data set's test lists.

    Attributes:
        path: of the instances.
        item_names: by item index.
        topic_names: by topic index.
    """

    path: Path
    instances: FoldedLists
    item_names: pl.Series
    topic_names: pl.Series

    @classmethod
    def read(cls, data: Path, dataset: str, nsr: int | None, space: str | None = None) -> "Tested":
        """Read them from a study's data folder; `space` replaces white space in names.

        Raises:
            DataError: a file is missing, or of another data set, or a name has white space and `space` is None.
        """
        path = instances_path(data, dataset, nsr)
        instances = read_instances(path)
        if instances.repeats > 1:
            raise DataError(
                f"{path}: its folds were drawn {instances.repeats} times, so that the seeds of a fold have other "
                "lists; expected one drawing: remove repeats from the configuration"
            )
        if instances.dataset != _base(dataset) or instances.nsr != nsr:
            found = instances.dataset if instances.nsr is None else f"{instances.dataset} at NSR {instances.nsr}"
            raise DataError(f"{path}: found lists of {found}, expected those of {_base(dataset)}: make it anew")
        names_path, names, shared = path, instances.item_names, True
        if names is None:
            shared = False
            names_path = data / "lists" / f"{dataset.rpartition('-')[0]}.parquet"
            names = tuple(read_item_names(_required(names_path, f"the names of the items of {dataset}")))
        if len(names) != instances.item_count:
            raise DataError(
                f"{names_path}: found {len(names)} items, expected the {instances.item_count} of {path}: make both anew"
            )
        used = np.unique(np.concatenate([instances.split(fold, "test").topics for fold in instances.folds]))
        return cls(
            path,
            instances,
            _plain(pl.Series(names, dtype=pl.String), "item", names_path, space, distinct=shared),
            _plain(_known(instances, used), "topic", path, space, distinct=True),
        )

    @property
    def folds(self) -> tuple[int, ...]:
        """The folds of the data set."""
        return self.instances.folds

    @property
    def is_crossed(self) -> bool:
        """Return whether a topic is tested in several folds, with other items in each, as users are."""
        topics = np.concatenate([self.instances.split(fold, "test").topics for fold in self.folds])
        return len(np.unique(topics)) < len(topics)

    def judged(self, predictions: pl.DataFrame, fold: int, file: Path) -> pl.DataFrame:
        """Return the fold's predicted items, a row each, in their order: topic, item, score and relevance.

        Raises:
            DataError: they are not of these lists, a score is not finite, or two items of a topic have one name.
        """
        predicted = predictions.filter(fold=fold).select("topic", "items", "scores").explode("items", "scores")
        joined = predicted.join(self._truth(fold), on=["topic", "items"], how="left", maintain_order="left")
        unknown = joined.filter(pl.col("relevance").is_null())
        if len(unknown):
            raise DataError(
                f"{file}: topic {unknown['topic'][0]!r} of fold {fold} has an item that its test list in {self.path} "
                f"does not have ({len(unknown)} such items); expected the data of the study: give its folder "
                "with --data, or run the study's steps again"
            )
        if not joined["scores"].is_finite().all():
            bad = joined.filter(~pl.col("scores").is_finite())
            raise DataError(
                f"{file}: topic {bad['topic'][0]!r} of fold {fold} has the score {bad['scores'][0]}, expected finite "
                "numbers: the training diverged; select others with the flags, or train it again"
            )
        frame = joined.select(
            topic=self.topic_names.gather(joined["place"]),
            item=self.item_names.gather(joined["items"]),
            score=pl.col("scores"),
            relevance=pl.col("relevance"),
        )
        require_distinct_items(frame, str(self.path))
        return frame

    def _truth(self, fold: int) -> pl.DataFrame:
        split = self.instances.split(fold, "test")
        place = split.owners
        return pl.DataFrame(
            {
                "topic": pl.Series(self.instances.topics, dtype=pl.String).gather(place),
                "items": split.items,
                "relevance": split.relevance,
                "place": place,
            }
        )


def instances_path(data: Path, dataset: str, nsr: int | None) -> Path:
    """Return the path of a data set's lists; DataError if it does not exist."""
    name = _base(dataset) if nsr is None else f"{dataset}-nsr{nsr}"
    return _required(data / "instances" / f"{name}.parquet", f"the test lists of {dataset}")


def _base(dataset: str) -> str:
    """Return the data set whose lists it shares: pixels and features of the same images have the same pairs."""
    return dataset.removesuffix(f"-{VGG16}")


def _required(path: Path, what: str) -> Path:
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; expected {what}: give the study's data folder with --data")
    return path


def _known(instances: FoldedLists, used: npt.NDArray[np.int64]) -> pl.Series:
    """Return the topics' names; None for those without a test list."""
    known = pl.Series([None] * len(instances.topics), dtype=pl.String)
    return known.scatter(used, [instances.topics[topic] for topic in used.tolist()])


def _plain(names: pl.Series, what: str, path: Path, space: str | None, *, distinct: bool) -> pl.Series:
    """Return the names without white space, which would end a field; names of different things stay `distinct`."""
    bad = names.filter(names.str.contains(r"\s") | (names == ""))
    if not len(bad):
        return names
    if space is None or "" in bad:
        raise DataError(
            f"{path}: found the {what} {bad[0]!r}; a name in a TREC file has no white space and is not empty: use "
            "--space _ to replace white space with _"
        )
    plain = names.str.replace_all(r"\s", space)
    if distinct and plain.n_unique() < names.n_unique():
        twice = plain.filter(plain.is_duplicated() & plain.is_not_null())[0]
        raise DataError(
            f"{path}: with {space!r} instead of white space, two {what}s have the name {twice!r}: choose another "
            "character"
        )
    return plain
