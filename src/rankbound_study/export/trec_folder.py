"""Write a study's kept scores as a folder of TREC runs and qrels."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from tqdm import tqdm

from rankbound.errors import ConfigError, DataError
from rankbound.io.files import write_qrels, write_run
from rankbound.io.judged import Qrels, Run
from rankbound.io.table_columns import by_topic
from rankbound_study.data.contracts import read_table
from rankbound_study.export.checked import StudyAgreement, agreement, studied
from rankbound_study.export.kept import Kept, kept_scores
from rankbound_study.export.layout import QRELS, RUNS, lists_folder, run_name
from rankbound_study.export.tested import Tested, instances_path
from rankbound_study.export.whole_folder import whole_folder
from rankbound_study.report.output import write_text

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
