"""Compare two files: runs with qrels, or per-topic scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.compare import sources
from rankbound.compare.comparison import Settings, adjust, compare
from rankbound.compare.effects import LEVEL
from rankbound.compare.frames import SYSTEM, TRAINING, scores_of_frame
from rankbound.compare.report import Report, Row
from rankbound.errors import ConfigError, DataError
from rankbound.io.files import read_qrels
from rankbound.metrics import Metric, metric

Files = tuple[Path, Path]


@dataclass(frozen=True)
class Judged:
    """Judgements: a file, the names of its columns, and the treatment of topics that a run lacks."""

    path: Path
    columns: Mapping[str, Any]
    missing: str = "skip"


def compare_trec(files: Files, judged: Judged, metrics: Sequence[str], names: str, settings: Settings) -> Report:
    """Compare two runs on the topics that both have; ConfigError without metrics."""
    if not metrics:
        raise ConfigError("metrics: found none, expected at least one to compare the runs by, as in -m nDCG@10 -m AP")
    chosen = [metric(text, names=names) for text in dict.fromkeys(metrics)]
    qrels = read_qrels(judged.path, **judged.columns)
    a, b = (
        sources.of_trec(path, qrels, chosen, judged.missing, name) for path, name in zip(files, ("A", "B"), strict=True)
    )
    return _of_sources(files, a, b, a.metrics, settings)


def compare_scores(files: Files, metrics: Sequence[str], settings: Settings) -> Report:
    """Compare two files of per-topic scores, on the metrics named, or on all that both have."""
    a, b = (sources.of_file(path) for path in files)
    return _of_sources(files, a, b, sources.common_metrics(a, b, metrics, files), settings)


def _of_sources(
    files: Files, a: sources.Source, b: sources.Source, metrics: Sequence[str], settings: Settings
) -> Report:
    key = [{name for name in TRAINING if name in source.frame.columns} for source in (a, b)]
    if key[0] != key[1]:
        only = sorted(key[0] ^ key[1])[0]
        raise DataError(f"{files[0]} and {files[1]}: only one of them has the column {only!r}; expected it in both")
    frame = side_by_side(a.frame, b.frame, metrics)
    rows = rows_of(frame, metrics, settings)
    notes = [*a.notes, *b.notes, *notes_on_flips(rows, settings)]
    return Report(str(files[0]), str(files[1]), adjusted(rows), settings, notes)


def side_by_side(a: pl.DataFrame, b: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    """Concatenate the rows of both sides, with a column that names the side; topics, folds and seeds pair them."""
    keys = [name for name in ("topic", *TRAINING, "loss") if name in a.columns and name in b.columns]
    parts = [
        frame.select(pl.lit(name).alias(SYSTEM), *keys, pl.col(list(metrics)).cast(pl.Float64))
        for name, frame in (("A", a), ("B", b))
    ]
    return pl.concat(parts, how="vertical_relaxed")


def rows_of(frame: pl.DataFrame, metrics: Sequence[str], settings: Settings, members: bool = False) -> list[Row]:
    """Compare A and B on each metric, with unadjusted p-values."""
    rows = []
    for name in metrics:
        scores = scores_of_frame(frame, name, members=members)
        own = replace(settings, higher_is_better=_higher_is_better(name))
        rows.append(Row("", name, compare(scores.pair("A", "B"), own)))
    return rows


def adjusted(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with p-values adjusted over all of them."""
    comparisons = adjust([row.found for row in rows])
    return [replace(row, found=comparison) for row, comparison in zip(rows, comparisons, strict=True)]


def notes_on_flips(rows: Sequence[Row], settings: Settings) -> list[str]:
    """Return a note if the family is too large for any p-value of this many flips to be significant."""
    least = len(rows) / (settings.flips + 1)
    return [f"no p (Holm) of {len(rows)} tests can be below {least:.2g}: raise --flips"] if least > LEVEL else []


def _higher_is_better(name: str) -> bool:
    """Return the direction of a known metric; higher is assumed to be better for others, which files may hold."""
    try:
        known: Metric = metric(name)
    except ValueError:
        return True
    return known.higher_is_better
