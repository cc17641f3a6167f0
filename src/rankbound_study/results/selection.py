"""Matching of the rows of two runs tables for comparison: the keys in common, and those that separate A from B."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.errors import ConfigError, DataError
from rankbound_study.data.contracts import read_table
from rankbound_study.vocabulary import HONEST, SELECTIONS

KEYS = (
    "study",
    "protocol",
    "dataset",
    "nsr_train",
    "nsr_test",
    "model",
    "options",
    "loss",
    "bounding",
    "selection",
)
"""Columns of the runs table that identify a run, except fold and seed."""

RUNS_FILE = "runs.parquet"

_OF_TRAINING = ("options", "loss", "bounding", "selection")
"""Keys without meaning for a control, which is not trained and has the loss `none`."""

_OF_LISTS = ("dataset", "nsr_test")
"""Keys that identify the data of a topic's name."""

_NUMBERS = ("nsr_train", "nsr_test", "fold", "seed")
_SHOWN = 6

Key = Mapping[str, Any]


@dataclass(frozen=True)
class RunsPair:
    """Rows of A and B that are compared: their `common` keys, and the keys of each alone."""

    common: Key
    a_key: Key
    b_key: Key
    a: pl.DataFrame
    b: pl.DataFrame


def read_runs(path: Path) -> pl.DataFrame:
    """Read the runs table of a file, or of a results folder.

    Raises:
        DataError: there is no such table, or it violates its contract.
    """
    file = path / RUNS_FILE if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"{file}: there is no such file; expected a runs table, or a results folder that holds one")
    frame = pl.from_arrow(read_table(file, "runs"))
    assert isinstance(frame, pl.DataFrame)
    return frame


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


def selected(runs: pl.DataFrame, choice: Key, name: str) -> pl.DataFrame:
    """Return the rows with the values of `choice`; if there are none, a ConfigError lists the existing values."""
    for key, value in choice.items():
        wanted = None if value in ("", None) else int(value) if key in _NUMBERS and _is_number(value) else value
        found = runs[key].unique().sort()
        if wanted not in found.to_list():
            raise ConfigError(f"{key} {value!r}: {name} has no such runs; it has {_shown(found.to_list())}")
        runs = runs.filter(pl.col(key).eq_missing(pl.lit(wanted, dtype=found.dtype)))
    return runs


def with_defaults(a: pl.DataFrame, b: pl.DataFrame, given: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Apply defaults: the honest protocol if both have it, and each protocol's own choice of the epoch."""
    if "protocol" not in given and all(HONEST in frame["protocol"] for frame in (a, b)):
        a, b = (frame.filter(pl.col("protocol") == HONEST) for frame in (a, b))
    if "selection" not in given:
        a, b = (_of_usual_selection(frame) for frame in (a, b))
    return a, b


def matched(
    a: pl.DataFrame, b: pl.DataFrame, apart: Sequence[str], same_file: bool
) -> tuple[list[RunsPair], list[str]]:
    """Return the cells to compare, and notes on runs that only one side has.

    The keys `apart` separate A from B, as does a key of which one side has a single value that the other lacks (the
    data set and NSR of the test part must be named in `apart`). Runs that agree in all other keys are compared. A
    control that is separated by its model has no training keys to agree on.

    Raises:
        ConfigError: there is nothing to compare, or A and B are the same runs.
    """
    a_keys, b_keys = (frame.select(KEYS).unique().sort(KEYS, nulls_last=False).to_dicts() for frame in (a, b))
    untrained = any(all(one["loss"] == "none" for one in keys) for keys in (a_keys, b_keys))
    apart = [*apart, *(_OF_TRAINING if untrained and "model" in apart else ())]
    free = [key for key in KEYS if key in apart or _tells_apart(key, a_keys, b_keys)]
    joined = [key for key in KEYS if key not in free]
    pairs = [
        (one, other)
        for one, other in product(a_keys, b_keys)
        if all(one[key] == other[key] for key in joined) and not (same_file and one == other)
    ]
    differences = [_difference(key, a_keys, b_keys) for key in joined]
    notes = [f"left out: {text}" for text in differences if text]
    if not pairs and same_file and not free:
        raise ConfigError(
            "A and B are the same runs: choose what separates them, such as --a bounding=none --b bounding=min-max"
        )
    if not pairs:
        raise ConfigError(
            "A and B have no runs in common to compare; "
            + ("; ".join(filter(None, differences)) or "no combination of their keys is in both")
            + ": choose with --a KEY=VALUE and --b KEY=VALUE"
        )
    return [_cell(one, other, joined, free, a, b) for one, other in pairs], notes


def label(cell: RunsPair, cells: Sequence[RunsPair]) -> str:
    """Label a cell among others: varying values that A and B share, and `A's vs B's` where theirs differ."""
    shared, ours, theirs = (
        [_text(key, of(cell)[key]) for key in of(cell) if len({of(one)[key] for one in cells}) > 1] for of in _PARTS
    )
    if all(one.common.get("nsr_train") == one.common.get("nsr_test") for one in cells):
        shared = list(dict.fromkeys(shared))
    versus = f"{' '.join(ours)} vs {' '.join(theirs)}".strip() if ours or theirs else ""
    return ", ".join(filter(None, [*shared, versus]))


_PARTS: tuple[Callable[[RunsPair], Key], ...] = (lambda one: one.common, lambda one: one.a_key, lambda one: one.b_key)


def _cell(
    one: Key, other: Key, joined: Sequence[str], free: Sequence[str], a: pl.DataFrame, b: pl.DataFrame
) -> RunsPair:
    rows = [
        frame.filter(*(pl.col(key).eq_missing(pl.lit(of[key], dtype=frame.schema[key])) for key in KEYS))
        for frame, of in ((a, one), (b, other))
    ]
    common = {key: one[key] for key in joined}
    return RunsPair(common, {key: one[key] for key in free}, {key: other[key] for key in free}, *rows)


def _tells_apart(key: str, a_keys: Sequence[Key], b_keys: Sequence[Key]) -> bool:
    """Check that one side has a single value of this key that the other lacks; keys of lists must be named."""
    if key in _OF_LISTS:
        return False
    ours, theirs = ({one[key] for one in keys} for keys in (a_keys, b_keys))
    return (len(ours) == 1 or len(theirs) == 1) and not ours & theirs


def _difference(key: str, a_keys: Sequence[Key], b_keys: Sequence[Key]) -> str:
    ours, theirs = ({one[key] for one in keys} for keys in (a_keys, b_keys))
    only = [f"only {name} has {_shown(sorted(map(str, values)))}" for name, values in _named(ours, theirs) if values]
    return f"{key}: {', '.join(only)}" if only else ""


def _named(ours: set[Any], theirs: set[Any]) -> list[tuple[str, set[Any]]]:
    return [("A", ours - theirs), ("B", theirs - ours)]


def _of_usual_selection(frame: pl.DataFrame) -> pl.DataFrame:
    usual = pl.col("selection") == pl.col("protocol").replace_strict(SELECTIONS, default="")
    found = frame.filter(usual | (pl.col("loss") == "none"))
    return found if len(found) else frame


def _text(key: str, value: Any) -> str:
    return "" if value is None else f"NSR {value}" if key in _NUMBERS[:2] else str(value)


def _is_number(value: Any) -> bool:
    return str(value).lstrip("-").isdigit()


def _shown(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values[:_SHOWN])) + (f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else "")
