"""The kept scores of a study: where their runs are written, and the check that they give the study's own numbers."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import torch
from tqdm import tqdm

from rankbound.errors import ConfigError, DataError
from rankbound.io.judged import Qrels, Run
from rankbound.metrics import evaluate, metric
from rankbound_study.data.contracts import read_table
from rankbound_study.results.compare_runs import KEYS, RUNS_FILE, read_runs, selected

ENDING = ".predictions.parquet"


@dataclass(frozen=True)
class Kept:
    """One training's scores in all its folds: the file that holds them, and their key and seed."""

    file: Path
    key: Mapping[str, Any]
    seed: int
    folds: tuple[int, ...]

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
    keys = pl.concat([_keys(file) for file in files])
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
    files = sorted(file for file in (results / "runs").rglob(f"*{ENDING}") if not _is_shard(file.relative_to(results)))
    if not files:
        raise DataError(
            f"{results}: it has no runs/**/*{ENDING}; expected a study's results folder, where "
            "`python -m rankbound_study job` keeps the scores of its trainings"
        )
    return files


def _is_shard(file: Path) -> bool:
    """Return whether it is a piece of an unfinished job (`rankbound_study.jobs.shards`)."""
    return any(part.endswith(".shards") for part in file.parts)


def _keys(file: Path) -> pl.DataFrame:
    frame = pl.from_arrow(read_table(file, "predictions", [*KEYS, "fold", "seed"]))
    assert isinstance(frame, pl.DataFrame)
    return frame.unique(maintain_order=True).with_columns(pl.lit(str(file)).alias("file"))


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

QRELS = "qrels.txt"
RUNS = "runs"


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


METRICS = ("nDCG", "AP", "RR")
TOLERANCE = 1e-9


@dataclass(frozen=True)
class StudyAgreement:
    """The number of lists, the number that score differently than in the study, and the largest difference."""

    lists: int = 0
    differing: int = 0
    most: float = 0.0

    def __add__(self, other: "StudyAgreement") -> "StudyAgreement":
        return StudyAgreement(self.lists + other.lists, self.differing + other.differing, max(self.most, other.most))


def studied(kept: Kept) -> pl.DataFrame:
    """Return the study's results of a training: a row per fold and topic, with sizes and metrics."""
    frame = pl.from_arrow(read_table(kept.runs_file, "runs"))
    assert isinstance(frame, pl.DataFrame)
    metrics = [name for name in METRICS if name in frame.columns]
    return kept.rows(frame).select("fold", "topic", "n", "p", *metrics)


def agreement(run: Run, qrels: Qrels, rows: pl.DataFrame, kept: Kept) -> StudyAgreement:
    """Compare the run with `rows`, the study's results for the same lists in the same order (`studied`).

    Raises:
        DataError: the lists have other numbers of items, or of relevant ones, than the study's.
    """
    lists = pl.DataFrame({"place": _places(run), "relevant": qrels.relevance > 0})
    sizes = lists.group_by("place", maintain_order=True).agg(n=pl.len(), p=pl.col("relevant").sum())
    if any(sizes[name].to_list() != rows[name].to_list() for name in ("n", "p")):
        raise DataError(
            f"{kept.file}: its lists differ from {kept.runs_file} in their numbers of items or of relevant items; "
            "expected the data of the study: give its folder with --data, or run the study's steps again"
        )
    chosen = [metric(name) for name in METRICS if name in rows.columns]
    values = evaluate(chosen, run.scores, qrels.relevance, run.offsets)
    gap = torch.zeros(len(rows), dtype=torch.float64)
    for name, value in values.items():
        gap = gap.maximum((value - torch.from_numpy(rows[name].to_numpy().copy())).abs().nan_to_num())
    return StudyAgreement(len(rows), int((gap > TOLERANCE).sum()), float(gap.max()) if len(gap) else 0.0)


def _places(run: Run) -> pl.Series:
    sizes = torch.from_numpy(run.offsets).diff()
    return pl.Series(torch.repeat_interleave(torch.arange(len(sizes)), sizes).numpy())
