"""Comparison of selections of runs tables: pairs of runs that agree except in the keys that separate A from B."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rankbound.compare.comparison import Settings
from rankbound.compare.report import Report, Row
from rankbound.compare.runs import report_of, rows_of
from rankbound.errors import DataError
from rankbound.metrics import metric
from rankbound_study.results import selection
from rankbound_study.results.paired_scores import names_pairs

RUN_METRICS = ("nDCG", "AP", "nRBP(p=0.95)")
"""Default metrics of a runs table: those that judge the losses."""

PAIR_METRICS = ("PairAccuracy",)
"""Default metrics of a runs table of pairs."""


@dataclass(frozen=True)
class Choice:
    """Filters on the rows of the runs tables: for both, and for A and B alone."""

    both: Mapping[str, str]
    a: Mapping[str, str]
    b: Mapping[str, str]

    @classmethod
    def of(cls, both: Mapping[str, str | None], a: Sequence[str], b: Sequence[str]) -> "Choice":
        """Build the filters from values by key (None where not given) and `KEY=VALUE` texts."""
        texts = [f"{key}={value}" for key, value in both.items() if value is not None]
        return cls(
            selection.parse_choice(texts, "flag"), selection.parse_choice(a, "--a"), selection.parse_choice(b, "--b")
        )


def compare_runs(files: Sequence[Path], choice: Choice, metrics: Sequence[str], settings: Settings) -> Report:
    """Compare every pair of runs of two selections that agree except in the keys that separate A from B."""
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
    wanted = _metrics_of(metrics or (PAIR_METRICS if names_pairs(a) else RUN_METRICS), a, b, files)
    rows = []
    for cell in cells:
        key = {"common": dict(cell.common), "a_key": dict(cell.a_key), "b_key": dict(cell.b_key)}
        label = selection.label(cell, cells)
        found = rows_of(cell.a, cell.b, wanted, settings, names_pairs(cell.a))
        rows += [Row(label, row.metric, row.found, key) for row in found]
    a_name, b_name = (_name(path, own, cells) for path, own in zip(files, ("a_key", "b_key"), strict=True))
    return report_of(a_name, b_name, rows, settings, notes)


def _metrics_of(metrics: Sequence[str], a: pl.DataFrame, b: pl.DataFrame, files: Sequence[Path]) -> list[str]:
    """Return the columns of the metrics; a DataError lists the available ones."""
    found = [name for name, kind in a.schema.items() if kind == pl.Float64]
    wanted = [str(metric(text)) for text in dict.fromkeys(metrics)]
    for path, frame in zip(files, (a, b), strict=True):
        for name in wanted:
            if name not in frame.columns:
                raise DataError(f"{path}: there is no metric {name!r}; it has {', '.join(found)}")
    return wanted


def _name(path: Path, side: str, cells: Sequence[selection.RunsPair]) -> str:
    """Return the file, and the keys of this side that are the same in all cells."""
    keys = [getattr(cell, side) for cell in cells]
    fixed = [f"{key} {value}" for key, value in keys[0].items() if all(one[key] == value for one in keys)]
    return ", ".join([str(path), *(text for text in fixed if not text.startswith("options "))])
