"""The kept scores of a study: the predictions beside its runs, found and chosen by their keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from tqdm import tqdm

from rankbound.errors import ConfigError, DataError
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
