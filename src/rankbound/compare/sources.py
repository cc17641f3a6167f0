"""Read the per-topic scores of one run: a run evaluated with qrels, or a file of scores by `rankbound evaluate`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare.frames import TRAINING
from rankbound.errors import DataError
from rankbound.evaluation import evaluate_run
from rankbound.io.judged import Qrels, Run
from rankbound.io.table_columns import has_no_name
from rankbound.metrics import Metric

_SHOWN = 8


@dataclass(frozen=True)
class Source:
    """Scores with the columns topic, optionally fold and seed, and one per metric; with notes on them."""

    frame: pl.DataFrame
    metrics: Sequence[str]
    notes: Sequence[str] = ()


def of_run(run: Run, qrels: Qrels, metrics: Sequence[Metric], missing: str, name: str) -> Source:
    """Evaluate a run on each topic of the qrels; `name` is that of the run in notes."""
    evaluation = evaluate_run(run, qrels, metrics, missing=missing)
    frame = pl.DataFrame({"topic": pl.Series(list(evaluation.topics), dtype=pl.String), **evaluation.values})
    n_zero = len(evaluation.missing) if missing == "zero" else 0
    notes = [
        (len(evaluation.unjudged), f"topics of {name} that are not in the qrels don't count"),
        (n_zero, f"topics of the qrels that are not in {name} count as 0"),
        (_all_tied(run), f"topics of {name} with one score for all items: their metrics are means over random orders"),
    ]
    return Source(frame, list(evaluation.values), [f"{text} ({count})" for count, text in notes if count])


def of_file(path: Path) -> Source:
    """Read scores from JSON (`rankbound evaluate --per-topic --json`), CSV, TSV or parquet with a column `topic`.

    All numeric columns except `fold` and `seed` are metrics; those without a name are the index of a data frame.

    Raises:
        DataError: the file cannot be read, or has no per-topic scores.
    """
    try:
        frame = _of_json(path) if path.suffix == ".json" else _of_table(path)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path}: cannot be read as per-topic scores ({str(error).splitlines()[0]})") from error
    if "topic" not in frame.columns:
        shown = ", ".join(frame.columns[:_SHOWN])
        raise DataError(f"{path}: there is no column 'topic'; it has {shown}. A TREC run needs its --qrels")
    nameless = [name for name in frame.columns if has_no_name(name)]
    others = [name for name in frame.columns if name not in ("topic", "missing", *TRAINING, *nameless)]
    metrics = [name for name in others if frame[name].dtype.is_numeric() or frame[name].dtype == pl.Null]
    if not metrics:
        raise DataError(f"{path}: there is no numeric column besides 'topic'; expected one per metric")
    for name in metrics:
        if frame[name].cast(pl.Float64).is_infinite().any():
            raise DataError(f"{path}: column {name!r} holds inf, expected finite numbers; leave undefined values empty")
    text = sorted(set(others) - set(metrics))
    kept = frame.select(pl.col("topic").cast(pl.String), *(set(TRAINING) & set(frame.columns)), *metrics)
    if kept["topic"].null_count():
        row = int(kept["topic"].is_null().arg_max() or 0) + 1
        raise DataError(f"{path}: row {row} has no topic; expected a name in every row")
    omitted = {"without a name": list(map(repr, nameless)), "not numeric": text}
    notes = [f"left out of {path.name}: {', '.join(names)} ({why})" for why, names in omitted.items() if names]
    return Source(kept, metrics, notes)


def common_metrics(sources: Sequence[Source], wanted: Sequence[str], files: Sequence[Path]) -> list[str]:
    """Return the metrics to compare: `wanted`, or all that all have; DataError if there is none, or one is missing."""
    for source, path in zip(sources, files, strict=True):
        for name in wanted:
            if name not in source.metrics:
                raise DataError(f"{path}: there is no metric {name!r}; it has {', '.join(source.metrics)}")
    first, *others = sources
    common = list(wanted) or [name for name in first.metrics if all(name in other.metrics for other in others)]
    if not common:
        held = "; ".join(", ".join(source.metrics) for source in sources)
        raise DataError(f"{' and '.join(map(str, files))} have no metric in common: {held}")
    return common


def labels_of(names: Sequence[str | Path]) -> list[str]:
    """Return short names for notes and rows: A and B for two systems, otherwise the names of files if they differ."""
    if len(names) == 2:
        return ["A", "B"]
    short = [Path(name).name for name in names]
    return short if len(set(short)) == len(short) else [str(name) for name in names]


def _all_tied(run: Run) -> int:
    """Return the number of topics with several items that all have the same score."""
    starts = run.offsets[:-1]
    sizes = np.diff(run.offsets)
    several = starts[sizes > 1], (starts + sizes)[sizes > 1]
    return sum(bool(np.ptp(run.scores[start:stop]) == 0) for start, stop in zip(*several, strict=True))


def _of_json(path: Path) -> pl.DataFrame:
    content: Any = json.loads(path.read_text(encoding="utf-8"))
    per_topic = content.get("per_topic") if isinstance(content, dict) else None
    if not isinstance(per_topic, dict) or not all(isinstance(row, dict) for row in per_topic.values()):
        raise ValueError("there is no object 'per_topic' in it: write it with rankbound evaluate --per-topic --json")
    names = list(dict.fromkeys(name for row in per_topic.values() for name in row))
    columns = {name: [row.get(name) for row in per_topic.values()] for name in names}
    topics = pl.Series("topic", list(per_topic), dtype=pl.String)
    return pl.DataFrame([topics, *(pl.Series(name, values, strict=True) for name, values in columns.items())])


def _of_table(path: Path) -> pl.DataFrame:
    if path.suffix == ".parquet":
        return pl.read_parquet(path, glob=False)
    separator = "\t" if path.name.removesuffix(".gz").endswith(".tsv") else ","
    # Topics are text: 007 is not 7.
    return pl.read_csv(
        path,
        separator=separator,
        infer_schema_length=None,
        schema_overrides={"topic": pl.String},
        null_values=["", "-", "NaN", "nan"],
        glob=False,
    )
