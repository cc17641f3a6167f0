"""Comparison of selections of runs tables: pairs of runs that agree except in the keys that separate A from B."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rankbound.compare.comparison import Settings
from rankbound.compare.report import Report
from rankbound.compare.runs import report_of, rows_of
from rankbound.errors import ConfigError, DataError
from rankbound.metrics import metric
from rankbound_study.results.scores import JOB, names_pairs
from rankbound_study.results.study_files import read_frame
from rankbound_study.vocabulary import HONEST, JUDGED_BY, SELECTIONS

KEYS = (*JOB, "selection")
"""Columns of the runs table that identify a run, except fold and seed."""

Choice = Mapping[str, str]  # filters on the rows of a runs table


class RunsPair(NamedTuple):
    """Rows of A and B that are compared, and their keys: those in `common`, `a_key` and `b_key`."""

    key: dict[str, Any]
    a: pl.DataFrame
    b: pl.DataFrame


def compare_runs(
    files: Sequence[Path], both: Choice, a_only: Choice, b_only: Choice, metrics: Sequence[str], settings: Settings
) -> Report:
    """Compare every pair of runs of two selections that agree except in the keys that separate A from B.

    Args:
        files: the runs tables of A and B, or the results folders that hold them.
        both, a_only, b_only: filters on the rows of both, and of A and B alone.
        metrics: those to compare; a default if empty.
        settings: those of every comparison.
    """
    same = files[0] == files[1]
    a = read_runs(files[0])
    b = a if same else read_runs(files[1])
    a, b = selected(a, {**both, **a_only}, "A"), selected(b, {**both, **b_only}, "B")
    given = [*both, *a_only, *b_only]
    if "protocol" not in given and all(HONEST in frame["protocol"] for frame in (a, b)):
        a, b = (frame.filter(pl.col("protocol") == HONEST) for frame in (a, b))
    if "selection" not in given:
        # Each protocol's own choice of the epoch, if there are such runs.
        own_choice = pl.col("selection") == pl.col("protocol").replace_strict(SELECTIONS, default="")
        chosen = [frame.filter(own_choice | (pl.col("loss") == "none")) for frame in (a, b)]
        a, b = (own if len(own) else frame for own, frame in zip(chosen, (a, b), strict=True))
    cells, notes = matched(a, b, [key for key in given if a_only.get(key) != b_only.get(key)], same)
    # By default those that judge the losses.
    usual = ["PairAccuracy"] if names_pairs(a) else list(JUDGED_BY.values())
    wanted = [str(metric(text)) for text in dict.fromkeys(metrics or usual)]
    known = [name for name, kind in a.schema.items() if kind == pl.Float64]
    for path, frame in zip(files, (a, b), strict=True):
        for name in wanted:
            if name not in frame.columns:
                raise DataError(f"{path}: there is no metric {name!r}; it has {', '.join(known)}")
    rows = []
    for cell in cells:
        found = rows_of(cell.a, cell.b, wanted, settings, names_pairs(cell.a))
        rows += [replace(row, cell=label(cell, cells), key=cell.key) for row in found]
    # A side's name is its file, and the keys that are the same in all cells.
    names = []
    for path, side in zip(files, ("a_key", "b_key"), strict=True):
        first, *others = (cell.key[side] for cell in cells)
        fixed = [key for key, value in first.items() if key != "options" and all(one[key] == value for one in others)]
        names.append(", ".join([str(path), *(f"{key} {first[key]}" for key in fixed)]))
    return report_of(names[0], names[1], rows, settings, notes)


def read_runs(path: Path) -> pl.DataFrame:
    """Read the runs table of a file, or of a results folder.

    Raises:
        DataError: there is no such table, or it violates its contract.
    """
    file = path / "runs.parquet" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"{file}: there is no such file; expected a runs table, or a results folder that holds one")
    return read_frame(file, "runs")


def parse_choice(texts: Sequence[str], flag: str) -> dict[str, str]:
    """Parse `KEY=VALUE` texts; ConfigError for a text without =, or a key that is not a column of the runs table."""
    choice = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = {"nsr": "nsr_test"}.get(key, key)
        if not equals or key not in (*KEYS, "fold", "seed"):
            raise ConfigError(f"{flag} {text!r}: expected KEY=VALUE with one of the keys {', '.join(KEYS)}, fold, seed")
        choice[key] = value
    return choice


def selected(runs: pl.DataFrame, choice: Mapping[str, Any], name: str) -> pl.DataFrame:
    """Return the rows with the values of `choice`; if there are none, a ConfigError lists the existing values."""
    for key, value in choice.items():
        found = runs[key].unique().sort()
        is_number = found.dtype.is_integer() and str(value).lstrip("-").isdigit()
        wanted = None if value in ("", None) else int(value) if is_number else value
        if wanted not in found.to_list():
            raise ConfigError(f"{key} {value!r}: {name} has no such runs; it has {_shown(found.to_list())}")
        runs = runs.filter(pl.col(key).eq_missing(pl.lit(wanted, dtype=found.dtype)))
    return runs


def matched(a: pl.DataFrame, b: pl.DataFrame, apart: Sequence[str], same: bool) -> tuple[list[RunsPair], list[str]]:
    """Return the cells to compare, and notes on runs that only one side has.

    The keys `apart` separate A from B, as does a key of which one side has a single value that the other lacks (the
    data set and NSR of the test part must be named in `apart`). Runs that agree in all other keys are compared. A
    control that is separated by its model has no training keys to agree on.

    Raises:
        ConfigError: there is nothing to compare, or A and B are the same runs.
    """
    a_keys, b_keys = (frame.select(KEYS).unique().sort(KEYS, nulls_last=False).to_dicts() for frame in (a, b))
    untrained = any(all(one["loss"] == "none" for one in keys) for keys in (a_keys, b_keys))
    # A control is not trained, and has the loss `none`.
    apart = [*apart, *(("options", "loss", "bounding", "selection") if untrained and "model" in apart else ())]
    values = {key: tuple({one[key] for one in keys} for keys in (a_keys, b_keys)) for key in KEYS}
    free = [
        key
        for key, (ours, theirs) in values.items()
        if key in apart or (key not in ("dataset", "nsr_test") and 1 in (len(ours), len(theirs)) and not ours & theirs)
    ]
    joined = [key for key in KEYS if key not in free]
    pairs = [
        (one, other)
        for one, other in product(a_keys, b_keys)
        if all(one[key] == other[key] for key in joined) and not (same and one == other)
    ]
    differences = []
    for key in joined:
        only = [(name, one - other) for name, one, other in zip("AB", values[key], values[key][::-1], strict=True)]
        texts = [f"only {name} has {_shown(sorted(map(str, found)))}" for name, found in only if found]
        differences += [f"{key}: {', '.join(texts)}"] if texts else []
    if not pairs and same and not free:
        raise ConfigError(
            "A and B are the same runs: choose what separates them, such as --a bounding=none --b bounding=min-max"
        )
    if not pairs:
        raise ConfigError(
            "A and B have no runs in common to compare; "
            + ("; ".join(differences) or "no combination of their keys is in both")
            + ": choose with --a KEY=VALUE and --b KEY=VALUE"
        )

    def rows(frame: pl.DataFrame, key: Mapping[str, Any]) -> pl.DataFrame:
        return frame.filter(*(pl.col(name).eq_missing(pl.lit(key[name], dtype=frame.schema[name])) for name in KEYS))

    cells = []
    for one, other in pairs:
        parts = {"common": (one, joined), "a_key": (one, free), "b_key": (other, free)}
        keys = {part: {name: of[name] for name in names} for part, (of, names) in parts.items()}
        cells.append(RunsPair(keys, rows(a, one), rows(b, other)))
    return cells, [f"left out: {text}" for text in differences]


def label(cell: RunsPair, cells: Sequence[RunsPair]) -> str:
    """Label a cell among others: varying values that A and B share, and `A's vs B's` where theirs differ."""
    shared, ours, theirs = (
        [
            "" if value is None else f"NSR {value}" if key.startswith("nsr") else str(value)
            for key, value in cell.key[part].items()
            if any(one.key[part][key] != value for one in cells)
        ]
        for part in ("common", "a_key", "b_key")
    )
    if all(one.key["common"].get("nsr_train") == one.key["common"].get("nsr_test") for one in cells):
        shared = list(dict.fromkeys(shared))
    versus = f"{' '.join(ours)} vs {' '.join(theirs)}".strip() if ours or theirs else ""
    return ", ".join(filter(None, [*shared, versus]))


def _shown(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values[:6])) + (f" and {len(values) - 6} more" if len(values) > 6 else "")
