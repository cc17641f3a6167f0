"""A study's kept scores as TREC runs and qrels of the lists that were tested, compared with the study's own numbers."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from tqdm import tqdm

from rankbound.errors import ConfigError, DataError
from rankbound.io.atomic import write_text
from rankbound.io.files import write_qrels, write_run
from rankbound.io.judged import Qrels, Run
from rankbound.io.table_columns import by_topic, require_distinct_items
from rankbound.metrics import evaluate, metric
from rankbound_study.config.data_sets import VGG16
from rankbound_study.data.reader import FoldedLists, read_instances, read_item_names
from rankbound_study.export import whole_folder
from rankbound_study.provenance.checksums import SHARDS
from rankbound_study.results.compare_runs import KEYS, selected
from rankbound_study.results.study_files import read_frame

ENDING = ".predictions.parquet"
INDEX, QRELS, RUNS = "runs.csv", "qrels.txt", "runs"
METRICS = ("nDCG", "AP", "RR")
TOLERANCE = 1e-9

NAMED = ("study", "protocol", "model", "loss", "bounding", "selection")
"""The keys that distinguish the runs of a data set, besides the seed, in the order of their names."""


class Kept(NamedTuple):
    """One training's scores in all its folds: the file that holds them, and their key and seed."""

    file: Path
    key: Mapping[str, Any]
    seed: int
    folds: tuple[int, ...]

    @property
    def runs_file(self) -> Path:
        """The runs beside the predictions."""
        return self.file.with_name(f"{self.file.name.removesuffix(ENDING)}.parquet")


def export(
    results: Path, data: Path, out: Path, choice: Mapping[str, str], space: str | None = None
) -> tuple[pl.DataFrame, npt.NDArray[np.float64]]:
    """Write the chosen runs of `results`, whose test lists are in `data`, into the new folder `out`.

    Returns a row per run file, and each list's largest difference of a metric to the study's own.

    Runs on the same test lists share a folder and its qrels. A training's folds form one run if no topic is in two of
    them. If topics recur (users), each fold has a separate folder: its runs and qrels use the topics' own names, and no
    evaluator treats a user's folds as independent topics.

    Raises:
        ConfigError: `out` already exists, no runs match, or two of them would have one name.
        DataError: predictions or data are missing, do not match, or cannot be written as TREC files.
    """
    every = kept_scores(results, choice)
    every.sort(key=lambda kept: (kept.key["dataset"], kept.key["nsr_test"] or 0, kept.file))
    groups = {of: list(same) for of, same in groupby(every, lambda kept: (kept.key["dataset"], kept.key["nsr_test"]))}
    for lists in groups:
        instances_path(data, *lists)
    folds = sum(len(kept.folds) for kept in every)
    with whole_folder(out) as folder, tqdm(total=folds, unit="fold", desc="export", disable=None) as progress:
        writer, read = _Writer(folder), lru_cache(2)(read_frame)
        for lists, group in groups.items():
            tested = Tested.read(data, *lists, space)
            crossed = tested.is_crossed
            for kept in group:
                files = {"predictions": kept.file, "runs": kept.runs_file}
                same = {"seed": kept.seed, "selection": kept.key["selection"]}
                own, runs = (
                    read(file, contract).filter(pl.col("fold").is_in(kept.folds), **same)
                    for contract, file in files.items()
                )
                place = lists_folder(kept, kept.folds if crossed else tested.instances.folds)
                for some in ((fold,) for fold in kept.folds) if crossed else [kept.folds]:
                    frame = pl.concat(tested.judged(own, fold, kept.file) for fold in some)
                    studied = pl.concat(own.filter(fold=fold).select("fold", "topic") for fold in some)
                    studied = studied.join(runs, on=["fold", "topic"], how="left", maintain_order="left")
                    writer.write(kept, f"{place}/fold-{some[0]}" if crossed else place, some, frame, studied)
                    progress.update(len(some))
        index = pl.DataFrame(writer.rows, infer_schema_length=None)
        write_text(folder / INDEX, index.write_csv())
    return index, np.concatenate(writer.gaps)


class _Writer:
    """Writes runs and their qrels to a folder; holds the rows of its index, and what must not be written twice."""

    def __init__(self, folder: Path) -> None:
        self.rows: list[dict[str, Any]] = []
        self.gaps: list[npt.NDArray[np.float64]] = []
        self._folder = folder
        self._labels: dict[str, tuple[pl.DataFrame, Kept]] = {}

    def write(self, kept: Kept, place: str, folds: Sequence[int], frame: pl.DataFrame, studied: pl.DataFrame) -> None:
        """Write the items of a run (as by `Tested.judged`); `studied` has the study's results for its lists."""
        topics, offsets, _ = by_topic(frame["topic"])
        run = Run(topics=topics, items=frame["item"], scores=frame["score"].to_numpy(), offsets=offsets)
        qrels = Qrels(topics=topics, items=frame["item"], relevance=frame["relevance"].to_numpy(), offsets=offsets)
        self.gaps.append(_gaps(run, qrels, studied, kept))
        name = _file_name("_".join([*(str(kept.key[name]) for name in NAMED), f"seed{kept.seed}"]))
        file = f"{place}/{RUNS}/{name}.txt"
        if (self._folder / file).exists():
            raise ConfigError(f"{file} would be a run of {kept.file} and of another file: select one, with --options")
        labels = frame.select("topic", "item", "relevance").sort("topic", "item")
        if place not in self._labels:
            self._labels[place] = labels, kept
            write_qrels(self._folder / place / QRELS, qrels)
        first, other = self._labels[place]
        if not first.equals(labels):
            raise DataError(
                f"{kept.file} and {other.file}: tested on different lists, expected the same of {place}; some were "
                "made from other instances: run the study's steps again"
            )
        write_run(self._folder / file, run, tag=name)
        tied = frame.group_by("topic").agg(pl.col("score").is_duplicated().any())["score"].sum()
        row = {"run": file, "qrels": f"{place}/{QRELS}", **kept.key, "fold": " ".join(map(str, folds))}
        row |= {"seed": kept.seed, "topics": len(topics), "items": len(frame), "tied_topics": int(tied)}
        self.rows.append(row)


def _gaps(run: Run, qrels: Qrels, studied: pl.DataFrame, kept: Kept) -> npt.NDArray[np.float64]:
    """Return the largest difference, over the metrics, of each list's values to the study's results for it.

    Raises:
        DataError: the lists have other numbers of items, or of relevant ones, than the study's.
    """
    sizes = np.diff(run.offsets)
    relevant = np.add.reduceat(qrels.relevance > 0, run.offsets[:-1], dtype=np.int64) if len(sizes) else sizes
    if sizes.tolist() != studied["n"].to_list() or relevant.tolist() != studied["p"].to_list():
        raise DataError(
            f"{kept.file}: its lists differ from {kept.runs_file} in their numbers of items or of relevant items; "
            "expected the data of the study: give its folder with --data, or run the study's steps again"
        )
    chosen = [metric(name) for name in METRICS if name in studied.columns]
    values = evaluate(chosen, run.scores, qrels.relevance, run.offsets).items()
    gaps = [np.nan_to_num(np.abs(value.numpy() - studied[name].to_numpy())) for name, value in values]
    largest: npt.NDArray[np.float64] = np.max([np.zeros(len(studied)), *gaps], axis=0)
    return largest


def kept_scores(results: Path, choice: Mapping[str, str]) -> list[Kept]:
    """Return the trainings in a results folder with the values of `choice`.

    Raises:
        DataError: there are no predictions.
        ConfigError: no predictions match.
    """
    # Pieces of unfinished jobs are in folders of their own (`rankbound_study.jobs.running`).
    files = sorted((results / "runs").rglob(f"*{ENDING}"))
    files = [file for file in files if not any(part.endswith(SHARDS) for part in file.relative_to(results).parts)]
    if not files:
        raise DataError(
            f"{results}: it has no runs/**/*{ENDING}; expected a study's results folder, where "
            "`python -m rankbound_study job` keeps the scores of its trainings"
        )
    keys = pl.concat(
        read_frame(file, "predictions", [*KEYS, "fold", "seed"])
        .unique(maintain_order=True)
        .with_columns(pl.lit(str(file)).alias("file"))
        for file in tqdm(files, unit="file", desc="keys", disable=None, leave=False)
    )
    # Scores of controls are never kept, those of a training only at the epoch that its protocol selects.
    chosen = selected(keys, choice, f"{results}/runs/**/*{ENDING}")
    trainings = chosen.group_by("file", *KEYS, "seed", maintain_order=True).agg(pl.col("fold").sort())
    return [
        Kept(Path(row["file"]), {key: row[key] for key in KEYS}, row["seed"], tuple(row["fold"]))
        for row in trainings.iter_rows(named=True)
    ]


def lists_folder(kept: Kept, all_folds: Sequence[int]) -> str:
    """Return the folder of all runs on the same test lists: `movielens-nsr1`, `mq2008-label1`.

    If a training was tested on other lists than its data set's, or only on some folds, the name says so:
    `movielens-nsr3_tested-at-nsr1_folds-1-2`.
    """
    dataset, trained, tested = (kept.key[name] for name in ("dataset", "nsr_train", "nsr_test"))
    relevant = json.loads(kept.key["options"]).get("test_relevant")
    parts = [
        dataset if trained is None else f"{dataset}-nsr{trained}",
        "" if trained == tested else f"tested-at-nsr{tested}",
        f"relevant-{relevant}" if relevant else "",
        "" if set(kept.folds) == set(all_folds) else f"folds-{'-'.join(map(str, kept.folds))}",
    ]
    return _file_name("_".join(filter(None, parts)))


def _file_name(text: str) -> str:
    """Return the text without characters that are special to file systems or shells; it is never hidden, or `..`."""
    return re.sub(r"[^\w.@=+-]+", "-", text).lstrip(".") or "-"


@dataclass(frozen=True)
class Tested:
    """A data set's test lists, from the file at `path`, and the names of items and of topics by their indices."""

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
        path, base = instances_path(data, dataset, nsr), _base(dataset)
        instances = read_instances(path)
        if instances.repeats > 1:
            raise DataError(
                f"{path}: its folds were drawn {instances.repeats} times, so that the seeds of a fold have other "
                "lists; expected one drawing: remove repeats from the configuration"
            )
        if instances.dataset != base or instances.nsr != nsr:
            found = instances.dataset if instances.nsr is None else f"{instances.dataset} at NSR {instances.nsr}"
            raise DataError(f"{path}: found lists of {found}, expected those of {base}: make it anew")
        names_path, names = path, instances.item_names
        if names is None:
            names_path = data / "lists" / f"{dataset.rpartition('-')[0]}.parquet"
            names = tuple(read_item_names(_required(names_path, f"the names of the items of {dataset}")))
        if len(names) != instances.item_count:
            raise DataError(
                f"{names_path}: found {len(names)} items, expected the {instances.item_count} of {path}: make both anew"
            )
        # Topics without a test list have no name, because it may be anything.
        used = np.unique(np.concatenate([instances.split(fold, "test").topics for fold in instances.folds]))
        topics = pl.Series([None] * len(instances.topics), dtype=pl.String)
        topics = topics.scatter(used, [instances.topics[topic] for topic in used.tolist()])
        # Names of documents need not be distinct: each belongs to a topic.
        items = _plain(pl.Series(names, dtype=pl.String), "item", names_path, space, distinct=names_path == path)
        return cls(path, instances, items, _plain(topics, "topic", path, space, distinct=True))

    @property
    def is_crossed(self) -> bool:
        """Return whether a topic is tested in several folds, with other items in each, as users are."""
        topics = np.concatenate([self.instances.split(fold, "test").topics for fold in self.instances.folds])
        return len(np.unique(topics)) < len(topics)

    def judged(self, predictions: pl.DataFrame, fold: int, file: Path) -> pl.DataFrame:
        """Return the fold's predicted items, a row each, in their order: topic, item, score and relevance.

        Raises:
            DataError: they are not of these lists, a score is not finite, or two items of a topic have one name.
        """
        split = self.instances.split(fold, "test")
        topic = pl.Series(self.instances.topics, dtype=pl.String).gather(split.owners)
        columns = {"items": split.items, "relevance": split.relevance, "place": split.owners}
        truth = pl.DataFrame({"topic": topic, **columns})
        predicted = predictions.filter(fold=fold).select("topic", "items", "scores").explode("items", "scores")
        joined = predicted.join(truth, on=["topic", "items"], how="left", maintain_order="left")
        if len(unknown := joined.filter(pl.col("relevance").is_null())):
            raise DataError(
                f"{file}: topic {unknown['topic'][0]!r} of fold {fold} has an item that its test list in {self.path} "
                f"does not have ({len(unknown)} such items); expected the data of the study: give its folder "
                "with --data, or run the study's steps again"
            )
        if len(bad := joined.filter(~pl.col("scores").is_finite())):
            raise DataError(
                f"{file}: topic {bad['topic'][0]!r} of fold {fold} has the score {bad['scores'][0]}, expected finite "
                "numbers: the training diverged; select others with the flags, or train it again"
            )
        topic, item = self.topic_names.gather(joined["place"]), self.item_names.gather(joined["items"])
        frame = joined.select(topic=topic, item=item, score="scores", relevance="relevance")
        require_distinct_items(frame, str(self.path))
        return frame


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
        text = f"two {what}s have the name {twice!r}: choose another character"
        raise DataError(f"{path}: with {space!r} instead of white space, {text}")
    return plain
