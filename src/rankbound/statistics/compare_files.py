"""Two files compared: runs judged by qrels, scores by topic, or selections of runs tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.errors import ConfigError, DataError, RankboundError
from rankbound.interchange.files import read_qrels
from rankbound.metrics import Metric, metric
from rankbound.statistics import selection, sources
from rankbound.statistics.comparison import Settings, adjust, compare
from rankbound.statistics.effects import LEVEL
from rankbound.statistics.frames import SYSTEM, TRAINING, names_pairs, scores_of_frame
from rankbound.statistics.report import Report, Row

RUN_METRICS = ("nDCG", "AP", "nRBP(p=0.95)")
"""Of a runs table, if none are named: those that the losses are judged by; of pairs their accuracy."""

PAIR_METRICS = ("PairAccuracy",)

Files = tuple[Path, Path]


@dataclass(frozen=True)
class Judged:
    """Judgements: a file, what its columns are called, and what becomes of topics that a run does not have."""

    path: Path
    columns: Mapping[str, Any]
    missing: str = "skip"


@dataclass(frozen=True)
class Choice:
    """Which rows of the runs tables: of both, and of A and B alone."""

    both: Mapping[str, str]
    a: Mapping[str, str]
    b: Mapping[str, str]

    @classmethod
    def of(cls, both: Mapping[str, str | None], a: Sequence[str], b: Sequence[str]) -> "Choice":
        """From values by key, None where not given, and `KEY=VALUE` texts."""
        texts = [f"{key}={value}" for key, value in both.items() if value is not None]
        return cls(
            selection.parse_choice(texts, "flag"), selection.parse_choice(a, "--a"), selection.parse_choice(b, "--b")
        )


def compare_trec(files: Files, judged: Judged, metrics: Sequence[str], names: str, settings: Settings) -> Report:
    """Two runs on the topics that both have."""
    if not metrics:
        raise ConfigError("which metrics should the runs be compared by? Name them, as in -m nDCG@10 -m AP")
    chosen = [metric(text, names=names) for text in dict.fromkeys(metrics)]
    qrels = read_qrels(judged.path, **judged.columns)
    a, b = (
        sources.of_trec(path, qrels, chosen, judged.missing, name) for path, name in zip(files, ("A", "B"), strict=True)
    )
    return _of_sources(files, a, b, a.metrics, settings)


def compare_scores(files: Files, metrics: Sequence[str], settings: Settings) -> Report:
    """Two files of scores by topic, on the metrics named, or all that both have."""
    a, b = (sources.of_file(path) for path in files)
    return _of_sources(files, a, b, sources.common_metrics(a, b, metrics, files), settings)


def holds_runs(path: Path) -> bool:
    """Whether this is a results folder, or a runs table."""
    from rankbound.data.contracts import contract_of

    if path.is_dir():
        return True
    if path.suffix != ".parquet":
        return False
    try:
        return contract_of(path, ["runs"]) == "runs"
    except RankboundError:
        return False


def compare_runs(files: Files, choice: Choice, metrics: Sequence[str], settings: Settings) -> Report:
    """Two selections of runs tables: every pair of runs that agree in all but what tells A from B."""
    same = files[0] == files[1]
    tables = [selection.read_runs(files[0])]
    tables.append(tables[0] if same else selection.read_runs(files[1]))
    a, b = (
        selection.selected(table, {**choice.both, **own}, name)
        for table, own, name in zip(tables, (choice.a, choice.b), ("A", "B"), strict=True)
    )
    a, b = selection.with_defaults(a, b, [*choice.both, *choice.a, *choice.b])
    apart = [key for key in (*choice.a, *choice.b) if choice.a.get(key) != choice.b.get(key)]
    cells, notes = selection.matched(a, b, apart, same)
    wanted = _columns(metrics or (PAIR_METRICS if names_pairs(a) else RUN_METRICS), a, b, files)
    rows = []
    for cell in cells:
        frame = _side_by_side(cell.a, cell.b, wanted)
        key = {"common": dict(cell.common), "a_key": dict(cell.a_key), "b_key": dict(cell.b_key)}
        label = selection.label(cell, cells)
        rows += [Row(label, row.metric, row.found, key) for row in _rows(frame, wanted, settings, names_pairs(cell.a))]
    notes += _of_flips(rows, settings)
    a_name, b_name = (_name(path, own, cells) for path, own in zip(files, ("a_key", "b_key"), strict=True))
    return Report(a_name, b_name, _adjusted(rows), settings, notes)


def _of_sources(
    files: Files, a: sources.Source, b: sources.Source, metrics: Sequence[str], settings: Settings
) -> Report:
    key = [{name for name in TRAINING if name in source.frame.columns} for source in (a, b)]
    if key[0] != key[1]:
        only = sorted(key[0] ^ key[1])[0]
        raise DataError(f"{files[0]} and {files[1]}: one of them alone has the column {only!r}; expected it in both")
    frame = _side_by_side(a.frame, b.frame, metrics)
    rows = _rows(frame, metrics, settings)
    notes = [*a.notes, *b.notes, *_of_flips(rows, settings)]
    return Report(str(files[0]), str(files[1]), _adjusted(rows), settings, notes)


def _side_by_side(a: pl.DataFrame, b: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    keys = [name for name in ("topic", *TRAINING, "loss") if name in a.columns and name in b.columns]
    parts = [
        frame.select(pl.lit(name).alias(SYSTEM), *keys, pl.col(list(metrics)).cast(pl.Float64))
        for name, frame in (("A", a), ("B", b))
    ]
    return pl.concat(parts, how="vertical_relaxed")


def _rows(frame: pl.DataFrame, metrics: Sequence[str], settings: Settings, members: bool = False) -> list[Row]:
    rows = []
    for name in metrics:
        scores = scores_of_frame(frame, name, members=members)
        own = replace(settings, higher_is_better=_higher_is_better(name))
        rows.append(Row("", name, compare(scores.pair("A", "B"), own)))
    return rows


def _adjusted(rows: Sequence[Row]) -> list[Row]:
    found = adjust([row.found for row in rows])
    return [replace(row, found=one) for row, one in zip(rows, found, strict=True)]


def _of_flips(rows: Sequence[Row], settings: Settings) -> list[str]:
    """A note where the family is so large that no p-value of so few flips could be significant in it."""
    least = len(rows) / (settings.flips + 1)
    return [f"no p (Holm) of {len(rows)} tests can be below {least:.2g}: raise --flips"] if least > LEVEL else []


def _columns(metrics: Sequence[str], a: pl.DataFrame, b: pl.DataFrame, files: Files) -> list[str]:
    """The columns of the metrics; DataError names those that there are."""
    found = [name for name, kind in a.schema.items() if kind == pl.Float64]
    wanted = [_parsed(text) for text in dict.fromkeys(metrics)]
    for path, frame in zip(files, (a, b), strict=True):
        for name in wanted:
            if name not in frame.columns:
                raise DataError(f"{path}: there is no metric {name!r}; it has {', '.join(found)}")
    return wanted


def _parsed(text: str) -> str:
    return str(metric(text))


def _higher_is_better(name: str) -> bool:
    """Of a metric that we know; files may hold any other, whose larger values are taken to be better."""
    try:
        one: Metric = metric(name)
    except ValueError:
        return True
    return one.higher_is_better


def _name(path: Path, side: str, cells: Sequence[selection.Cell]) -> str:
    """The file, and what tells this side from the other one wherever that is the same in all cells."""
    keys = [getattr(cell, side) for cell in cells]
    fixed = [f"{key} {value}" for key, value in keys[0].items() if all(one[key] == value for one in keys)]
    return ", ".join([str(path), *(text for text in fixed if not text.startswith("options "))])
