"""Compare files: runs with qrels, or per-topic scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.compare import sources
from rankbound.compare.comparison import Settings, adjust, compare
from rankbound.compare.effects import LEVEL
from rankbound.compare.frames import SYSTEM, TRAINING, scores_of_frame
from rankbound.compare.report import Report, Row
from rankbound.errors import ConfigError, DataError
from rankbound.evaluation import needs_intents
from rankbound.io.files import read_qrels, read_run
from rankbound.metrics import Metric, metric

Files = Sequence[Path]


@dataclass(frozen=True)
class Judged:
    """Judgements: a file, the names of its columns, and the treatment of topics that a run lacks."""

    path: Path
    columns: Mapping[str, Any]
    missing: str = "skip"


def compare_trec(
    files: Files, judged: Judged, metrics: Sequence[str], names: str, settings: Settings, baseline: Path | None = None
) -> Report:
    """Compare runs on the topics that two of them have; ConfigError without metrics."""
    if not metrics:
        raise ConfigError("metrics: found none, expected at least one to compare the runs by, as in -m nDCG@10 -m AP")
    chosen = [metric(text, names=names) for text in dict.fromkeys(metrics)]
    qrels = read_qrels(judged.path, **judged.columns, intents=needs_intents(chosen))
    every = _with_baseline(files, baseline)
    read = [
        sources.of_run(read_run(path), qrels, chosen, judged.missing, label)
        for path, label in zip(every, sources.labels_of(every), strict=True)
    ]
    return report_of(every, read, read[0].metrics, settings, baseline is not None)


def compare_scores(files: Files, metrics: Sequence[str], settings: Settings, baseline: Path | None = None) -> Report:
    """Compare files of per-topic scores, on the metrics named, or on all that they have in common."""
    every = _with_baseline(files, baseline)
    read = [sources.of_file(path) for path in every]
    chosen = sources.common_metrics(read, metrics, every)
    return report_of(every, read, chosen, settings, baseline is not None)


def report_of(
    names: Sequence[str | Path],
    systems: Sequence[sources.Source],
    metrics: Sequence[str],
    settings: Settings,
    with_last: bool,
) -> Report:
    """Compare all pairs of systems or only, `with_last`, all others with the last one; Holm over all tests.

    Raises:
        DataError: one of two systems has folds or seeds, and the other has none.
    """
    last = len(names) - 1
    pairs = [pair for pair in combinations(range(len(names)), 2) if not with_last or pair[1] == last]
    labels = sources.labels_of(names)
    rows = []
    for a, b in pairs:
        _require_same_keys(names[a], names[b], systems[a], systems[b])
        found = rows_of(side_by_side(systems[a].frame, systems[b].frame, metrics), metrics, settings)
        if len(pairs) > 1:
            cell, named = f"{labels[a]} - {labels[b]}", {"a": str(names[a]), "b": str(names[b])}
            found = [replace(row, cell=cell, key=named) for row in found]
        rows += found
    notes = [note for system in systems for note in system.notes]
    first, second = (", ".join(str(names[at]) for at in dict.fromkeys(side)) for side in zip(*pairs, strict=True))
    return Report(first, second, adjusted(rows), settings, [*notes, *notes_on_flips(rows, settings)])


def _with_baseline(files: Files, baseline: Path | None) -> list[Path]:
    """Return the files with the baseline at the end; ConfigError for a single one."""
    every = [*files, *([] if baseline is None else [baseline])]
    if len(every) < 2:
        raise ConfigError(f"{every[0]}: found one file, expected two or more")
    return every


def _require_same_keys(a: str | Path, b: str | Path, of_a: sources.Source, of_b: sources.Source) -> None:
    keys = [{name for name in TRAINING if name in source.frame.columns} for source in (of_a, of_b)]
    if keys[0] != keys[1]:
        only = sorted(keys[0] ^ keys[1])[0]
        raise DataError(f"{a} and {b}: only one of them has the column {only!r}; expected it in both")


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
