"""A study's kept scores as TREC runs and qrels of the lists that were tested, compared with the study's own numbers."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from tqdm import tqdm

from rankbound.errors import ConfigError, DataError
from rankbound.io.files import write_qrels, write_run
from rankbound.io.judged import Qrels, Run
from rankbound.io.table_columns import by_topic, require_distinct_items
from rankbound.metrics import evaluate, metric
from rankbound_study.config.data_sets import VGG16
from rankbound_study.data.reader import FoldedLists, read_instances, read_item_names
from rankbound_study.export.whole_folder import whole_folder
from rankbound_study.report.table_files import write_text
from rankbound_study.results.compare_runs import KEYS, RUNS_FILE, read_runs, selected
from rankbound_study.results.specs import read_frame

ENDING = ".predictions.parquet"
INDEX, QRELS, RUNS = "runs.csv", "qrels.txt", "runs"
METRICS = ("nDCG", "AP", "RR")
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Exported:
    """A row per run file; the number of lists, that of those that score differently, and the largest difference."""

    index: pl.DataFrame
    lists: int
    differing: int
    most: float


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
    for dataset, nsr in dict.fromkeys(kept.lists for kept in every):
        instances_path(data, dataset, nsr)
    rows, gaps = [], []
    names: dict[str, Kept] = {}
    judged: dict[str, tuple[pl.DataFrame, Kept]] = {}
    folds = sum(len(kept.folds) for kept in every)
    with whole_folder(out) as folder, tqdm(total=folds, unit="fold", desc="export", disable=None) as progress:
        for kept, place, own_folds, frame, studied in _runs(every, data, space):
            topics, offsets, _ = by_topic(frame["topic"])
            run = Run(topics=topics, items=frame["item"], scores=frame["score"].to_numpy(), offsets=offsets)
            qrels = Qrels(topics=topics, items=frame["item"], relevance=frame["relevance"].to_numpy(), offsets=offsets)
            gaps.append(_gaps(run, qrels, studied, kept))
            name = run_name(kept)
            file = f"{place}/{RUNS}/{name}.txt"
            # File systems may identify names that differ only in case.
            if (other := names.setdefault(file.casefold(), kept)) is not kept:
                raise ConfigError(
                    f"{file} would be a run of {other.file} and of {kept.file}: select one of them, with --options or "
                    "by giving its file instead of the results folder"
                )
            labels = frame.select("topic", "item", "relevance").sort("topic", "item")
            first, other = judged.setdefault(place, (labels, kept))
            if other is kept and first is labels:
                write_qrels(folder / place / QRELS, qrels)
            elif not first.equals(labels):
                raise DataError(
                    f"{kept.file} and {other.file}: tested on different lists, expected the same of {place}; some were "
                    "made from other instances: run the study's steps again"
                )
            write_run(folder / file, run, tag=name)
            tied = frame.group_by("topic").agg(pl.col("score").is_duplicated().any())["score"].sum()
            row = {"run": file, "qrels": f"{place}/{QRELS}", **kept.key, "fold": " ".join(map(str, own_folds))}
            row |= {"seed": kept.seed, "topics": len(topics), "items": len(frame), "tied_topics": int(tied)}
            rows.append(row)
            progress.update(len(own_folds))
        index = pl.DataFrame(rows, infer_schema_length=None)
        write_text(folder / INDEX, index.write_csv())
    differences = np.concatenate(gaps)
    differing, most = int((differences > TOLERANCE).sum()), float(differences.max(initial=0.0))
    return Exported(index, len(differences), differing, most)


def _runs(
    every: Sequence["Kept"], data: Path, space: str | None
) -> Iterator[tuple["Kept", str, tuple[int, ...], pl.DataFrame, pl.DataFrame]]:
    """Yield each run file's training, folder, folds, items (as `Tested.judged`) and the study's results (per list)."""
    for (dataset, nsr), group in itertools.groupby(every, key=lambda kept: kept.lists):
        tested = Tested.read(data, dataset, nsr, space)
        for file, inside in itertools.groupby(group, key=lambda kept: kept.file):
            predictions = read_frame(file, "predictions")
            for kept in inside:
                own, runs = kept.rows(predictions), kept.rows(read_frame(kept.runs_file, "runs"))
                runs = runs.select("fold", "topic", "n", "p", *(name for name in METRICS if name in runs.columns))
                crossed = tested.is_crossed
                folder = lists_folder(kept, kept.folds if crossed else tested.folds)
                for folds in ((fold,) for fold in kept.folds) if crossed else [kept.folds]:
                    frame = pl.concat(tested.judged(own, fold, kept.file) for fold in folds)
                    lists = pl.concat(own.filter(fold=fold).select("fold", "topic") for fold in folds)
                    studied = lists.join(runs, on=["fold", "topic"], how="left", maintain_order="left")
                    yield kept, f"{folder}/fold-{folds[0]}" if crossed else folder, folds, frame, studied


def _gaps(run: Run, qrels: Qrels, studied: pl.DataFrame, kept: "Kept") -> npt.NDArray[np.float64]:
    """Return the largest difference, over the metrics, of each list's values to the study's results for it.

    Raises:
        DataError: the lists have other numbers of items, or of relevant ones, than the study's.
    """
    sizes = np.diff(run.offsets)
    relevant = np.add.reduceat(qrels.relevance > 0, run.offsets[:-1], dtype=np.int64) if len(sizes) else sizes
    if any(found.tolist() != studied[name].to_list() for name, found in (("n", sizes), ("p", relevant))):
        raise DataError(
            f"{kept.file}: its lists differ from {kept.runs_file} in their numbers of items or of relevant items; "
            "expected the data of the study: give its folder with --data, or run the study's steps again"
        )
    chosen = [metric(name) for name in METRICS if name in studied.columns]
    values = evaluate(chosen, run.scores, qrels.relevance, run.offsets)
    gap = torch.zeros(len(studied), dtype=torch.float64)
    for name, value in values.items():
        gap = gap.maximum((value - torch.from_numpy(studied[name].to_numpy().copy())).abs().nan_to_num())
    return gap.numpy()


@dataclass(frozen=True)
class Kept:
    """One training's scores in all its folds: the file that holds them, and their key and seed."""

    file: Path
    key: Mapping[str, Any]
    seed: int
    folds: tuple[int, ...]

    @property
    def lists(self) -> tuple[str, int | None]:
        """The data set and ratio of its test lists."""
        return self.key["dataset"], self.key["nsr_test"]

    @property
    def runs_file(self) -> Path:
        """The runs beside the predictions."""
        return self.file.with_name(f"{self.file.name.removesuffix(ENDING)}.parquet")

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of this training, in these folds, from a table of predictions or of runs."""
        key = {**self.key, "seed": self.seed}
        same = [pl.col(name).eq_missing(pl.lit(value, dtype=frame.schema[name])) for name, value in key.items()]
        return frame.filter(*same, pl.col("fold").is_in(self.folds))


def kept_scores(results: Path, choice: Mapping[str, str]) -> list[Kept]:
    """Return the trainings in `results` (a results folder, or one file of predictions) with the values of `choice`.

    Raises:
        DataError: there are no predictions.
        ConfigError: no predictions match; the text says whether there are matching runs without predictions.
    """
    files = tqdm(_files(results), unit="file", desc="keys", disable=None, leave=False)
    keys = pl.concat(
        read_frame(file, "predictions", [*KEYS, "fold", "seed"])
        .unique(maintain_order=True)
        .with_columns(pl.lit(str(file)).alias("file"))
        for file in files
    )
    try:
        chosen = selected(keys, choice, str(results))
    except ConfigError as error:
        raise ConfigError(_not_kept(results) if _were_run(results, choice) else str(error)) from None
    trainings = chosen.group_by("file", *KEYS, "seed", maintain_order=True).agg(pl.col("fold").sort())
    return [
        Kept(Path(row["file"]), {key: row[key] for key in KEYS}, row["seed"], tuple(row["fold"]))
        for row in trainings.iter_rows(named=True)
    ]


def _files(results: Path) -> Sequence[Path]:
    if results.is_file():
        return [results]
    # Pieces of unfinished jobs are in folders of their own (`rankbound_study.jobs.shards`).
    found = (results / "runs").rglob(f"*{ENDING}")
    files = sorted(
        file for file in found if not any(part.endswith(".shards") for part in file.relative_to(results).parts)
    )
    if not files:
        raise DataError(
            f"{results}: it has no runs/**/*{ENDING}; expected a study's results folder, where "
            "`python -m rankbound_study job` keeps the scores of its trainings"
        )
    return files


def _were_run(results: Path, choice: Mapping[str, str]) -> bool:
    if not (results / RUNS_FILE).is_file():
        return False
    try:
        return bool(len(selected(read_runs(results), choice, "")))
    except ConfigError:
        return False


def _not_kept(results: Path) -> str:
    return (
        f"{results}: there are such runs, but their scores were not kept: scores of controls never are, those of a "
        "training only at the epoch that its protocol selects (published: --selection test, honest: --selection "
        "validation)"
    )


NAMED = ("study", "protocol", "model", "loss", "bounding", "selection")
"""The keys that distinguish the runs of a data set, besides the seed, in the order of their names."""


def lists_folder(kept: Kept, all_folds: Sequence[int]) -> str:
    """Return the folder of all runs on the same test lists: `movielens-nsr1`, `mq2008-label1`.

    If a training was tested on other lists than its data set's, or only on some folds, the name says so:
    `movielens-nsr3_tested-at-nsr1_folds-1-2`.
    """
    key = kept.key
    dataset, trained, tested = key["dataset"], key["nsr_train"], key["nsr_test"]
    relevant = json.loads(key["options"]).get("test_relevant")
    parts = [
        dataset if trained is None else f"{dataset}-nsr{trained}",
        "" if trained == tested else f"tested-at-nsr{tested}",
        f"relevant-{relevant}" if relevant else "",
        "" if set(kept.folds) == set(all_folds) else f"folds-{'-'.join(map(str, kept.folds))}",
    ]
    return _file_name("_".join(filter(None, parts)))


def run_name(kept: Kept) -> str:
    """Return a run's file name and tag: `thesis_published_mlp_nDCG_min-max_test_seed0`."""
    return _file_name("_".join([*(str(kept.key[name]) for name in NAMED), f"seed{kept.seed}"]))


def _file_name(text: str) -> str:
    """Return the text without characters that are special to file systems or shells; it is never hidden, or `..`."""
    return re.sub(r"[^\w.@=+-]+", "-", text).lstrip(".") or "-"


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
