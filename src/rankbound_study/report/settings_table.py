"""Training options in words (`learning rate 0.001`, `hidden 100-30`), and the report's table of them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.config.comparisons import OF_FEATURES, STUDY
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.blocks import Cell, TableBlock
from rankbound_study.report.prose import text
from rankbound_study.results.neural_names import data_set_title
from rankbound_study.results.specs import scan_runs


def option_text(name: str, value: object) -> str:
    """Return an option's name, as in the configuration, and its value."""
    return f"{name.replace('_', ' ')} {_value_text(value)}"


def differing(options: Mapping[str, object], usual: Mapping[str, object]) -> list[str]:
    """Return, in alphabetical order, the options that differ from the usual ones or that only `options` has."""
    return [
        option_text(name, value) for name, value in sorted(options.items()) if name not in usual or usual[name] != value
    ]


def _value_text(value: object) -> str:
    if isinstance(value, list):
        return "-".join(map(_value_text, value))
    return str(value).removesuffix(".0")


_GROUP = ("protocol", "study", "dataset")
_NAME = "Settings"
_HEADER = ("method", "options", "epochs")
_LABELS = 2
_OPTIONS = 1


@dataclass
class _Line:
    """Methods with equal options, and the range of their picked epochs."""

    methods: list[str]
    options: dict[str, Any]
    low: int
    high: int


def settings_table(runs: Path) -> Iterator[TableBlock]:
    """Yield the table; nothing if there are no runs."""
    if not runs.exists():
        return
    key = [*_GROUP, "model", "options"]
    frame = scan_runs(runs).filter(pl.col("loss") != "none").select(*key, "epoch").unique().collect()
    picked = frame.group_by(key).agg(pl.col("epoch").min().alias("low"), pl.col("epoch").max().alias("high")).sort(key)
    rows: list[tuple[Cell, ...]] = []
    rules = set()
    for group, methods in picked.group_by(*_GROUP, maintain_order=True):
        rules.add(len(rows))
        rows += _rows(group, _lines(methods.iter_rows(named=True)))
    if rows:
        yield TableBlock(
            _NAME,
            text("settings.md", "caption"),
            _HEADER,
            tuple(rows),
            _LABELS,
            frozenset(rules),
            prose=frozenset({_OPTIONS}),
        )


def _lines(methods: Iterable[Mapping[str, Any]]) -> list[_Line]:
    """Group methods that differ only in their number of features."""
    lines: dict[tuple[str, str], _Line] = {}
    for row in methods:
        options = json.loads(row["options"])
        stem, of_features, _ = row["model"].partition(OF_FEATURES)
        if of_features:
            options.pop("features", None)
        line = lines.setdefault((stem, json.dumps(options)), _Line([], options, row["low"], row["high"]))
        line.methods.append(row["model"])
        line.low, line.high = min(line.low, row["low"]), max(line.high, row["high"])
    return list(lines.values())


def _rows(group: tuple[object, ...], lines: list[_Line]) -> Iterator[tuple[Cell, ...]]:
    protocol, study, dataset = map(str, group)
    shared = set.intersection(*({option_text(*item) for item in line.options.items()} for line in lines))
    title = data_set_title(dataset) if study == STUDY else DataSet(dataset, None).label
    about = f"{title}, {study}, {protocol}"
    if len(lines) == 1:
        about, shared = f"{about}: ", set()
    else:
        yield Cell(about, strong=True), Cell(", ".join(sorted(shared)), strong=True), Cell("")
        about = ""
    for line in lines:
        own = [text for item in line.options.items() if (text := option_text(*item)) not in shared]
        epochs = str(line.low) if line.low == line.high else f"{line.low}–{line.high}"
        yield Cell(about + _group_name(line.methods)), Cell(", ".join(own)), Cell(epochs)


def _group_name(methods: list[str]) -> str:
    """Return a group's name: `RankNet`, or `RankNet; of 30, 300, 3000` with its variants on fewer features."""
    stem = methods[0].partition(OF_FEATURES)[0]
    counts = sorted(int(method.removeprefix(stem + OF_FEATURES)) for method in methods if method != stem)
    if not counts:
        return stem
    return f"{stem}{';' if stem in methods else ''} of {', '.join(map(str, counts))}"
