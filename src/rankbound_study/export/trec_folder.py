"""A study's kept scores as TREC runs and qrels, with the lists that were tested."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from tqdm import tqdm

from rankbound.errors import ConfigError, DataError
from rankbound.io.files import write_qrels, write_run
from rankbound.io.judged import Qrels, Run
from rankbound.io.table_columns import by_topic, require_distinct_items
from rankbound_study.config.data_sets import VGG16
from rankbound_study.data.contracts import read_table
from rankbound_study.data.reader import FoldedLists, read_instances, read_item_names
from rankbound_study.export.kept import (
    QRELS,
    RUNS,
    Kept,
    StudyAgreement,
    agreement,
    kept_scores,
    lists_folder,
    run_name,
    studied,
)
from rankbound_study.export.whole_folder import whole_folder
from rankbound_study.report.output import write_text


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


INDEX = "runs.csv"


@dataclass(frozen=True)
class Exported:
    """The result of an export: a row per run file, and the agreement of its lists with the study's table."""

    index: pl.DataFrame
    agreement: StudyAgreement


def export(results: Path, data: Path, out: Path, choice: Mapping[str, str], space: str | None = None) -> Exported:
    """Write the chosen runs of `results`, whose test lists are in `data`, into the new folder `out`.

    Runs on the same test lists share a folder and its qrels. A training's folds form one run if no topic is in two of
    them. If topics recur (users), each fold has a separate folder: its runs and qrels use the topics' own names, and no
    evaluator treats a user's folds as independent topics.

    Raises:
        ConfigError: `out` already exists, no runs match, or two of them would have one name.
        DataError: predictions or data are missing, do not match, or cannot be written as TREC files.
    """
    every = sorted(
        kept_scores(results, choice), key=lambda kept: (kept.key["dataset"], kept.key["nsr_test"] or 0, kept.file)
    )
    for dataset, nsr in dict.fromkeys(map(_lists_of, every)):
        instances_path(data, dataset, nsr)
    folds = sum(len(kept.folds) for kept in every)
    with whole_folder(out) as folder, tqdm(total=folds, unit="fold", desc="export", disable=None) as progress:
        writer = _Writer(folder, progress)
        for (dataset, nsr), group in itertools.groupby(every, key=_lists_of):
            tested = Tested.read(data, dataset, nsr, space)
            for file, inside in itertools.groupby(group, key=lambda kept: kept.file):
                predictions = pl.from_arrow(read_table(file, "predictions"))
                assert isinstance(predictions, pl.DataFrame)
                for kept in inside:
                    writer.add(kept, predictions, tested)
        index = pl.DataFrame(writer.rows, infer_schema_length=None)
        write_text(folder / INDEX, index.write_csv())
    return Exported(index, writer.agreement)


def _lists_of(kept: Kept) -> tuple[str, int | None]:
    return kept.key["dataset"], kept.key["nsr_test"]


class _Writer:
    """Writes run after run, and the qrels of each folder with its first run."""

    def __init__(self, folder: Path, progress: tqdm) -> None:
        self._folder, self._progress = folder, progress
        self._judged: dict[str, tuple[pl.DataFrame, Kept]] = {}
        self._names: dict[str, Kept] = {}
        self.rows: list[dict[str, Any]] = []
        self.agreement = StudyAgreement()

    def add(self, kept: Kept, predictions: pl.DataFrame, tested: Tested) -> None:
        """Write the run files of one training."""
        own, runs = kept.rows(predictions), studied(kept)
        for place, folds in _places(kept, tested):
            frame = pl.concat(tested.judged(own, fold, kept.file) for fold in folds)
            lists = pl.concat(own.filter(fold=fold).select("fold", "topic") for fold in folds)
            rows = lists.join(runs, on=["fold", "topic"], how="left", maintain_order="left")
            self._write(kept, place, folds, frame, rows)
            self._progress.update(len(folds))

    def _write(self, kept: Kept, place: str, folds: tuple[int, ...], frame: pl.DataFrame, rows: pl.DataFrame) -> None:
        topics, offsets, _ = by_topic(frame["topic"])
        run = Run(topics=topics, items=frame["item"], scores=frame["score"].to_numpy(), offsets=offsets)
        qrels = Qrels(topics=topics, items=frame["item"], relevance=frame["relevance"].to_numpy(), offsets=offsets)
        self.agreement += agreement(run, qrels, rows, kept)
        name = run_name(kept)
        file = f"{place}/{RUNS}/{name}.txt"
        self._require_new(file, kept)
        self._judge(kept, place, frame, qrels)
        write_run(self._folder / file, run, tag=name)
        self.rows.append(
            {
                "run": file,
                "qrels": f"{place}/{QRELS}",
                **kept.key,
                "fold": " ".join(map(str, folds)),
                "seed": kept.seed,
                "topics": len(topics),
                "items": len(frame),
                "tied_topics": _tied_topics(frame),
            }
        )

    def _require_new(self, file: str, kept: Kept) -> None:
        # File systems may identify names that differ only in case.
        other = self._names.setdefault(file.casefold(), kept)
        if other is not kept:
            raise ConfigError(
                f"{file} would be a run of {other.file} and of {kept.file}: select one of them, with --options or by "
                "giving its file instead of the results folder"
            )

    def _judge(self, kept: Kept, place: str, frame: pl.DataFrame, qrels: Qrels) -> None:
        judged = frame.select("topic", "item", "relevance")
        if place not in self._judged:
            self._judged[place] = judged.sort("topic", "item"), kept
            write_qrels(self._folder / place / QRELS, qrels)
            return
        first, other = self._judged[place]
        if not first.equals(judged.sort("topic", "item")):
            raise DataError(
                f"{kept.file} and {other.file}: tested on different lists, expected the same of {place}; some were "
                "made from other instances: run the study's steps again"
            )


def _places(kept: Kept, tested: Tested) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the folders of a training's run files, each with its folds."""
    folder = lists_folder(kept, tested.folds)
    if not tested.is_crossed:
        yield folder, kept.folds
        return
    folder = lists_folder(kept, kept.folds)
    for fold in kept.folds:
        yield f"{folder}/fold-{fold}", (fold,)


def _tied_topics(frame: pl.DataFrame) -> int:
    tied = frame.group_by("topic").agg(pl.col("score").is_duplicated().any())
    return int(tied["score"].sum())
