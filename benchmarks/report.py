"""Render the results as Markdown: goals first, then a table per question and allocator setting."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.goals import Goal, Results, outcomes
from benchmarks.machine import BUSY_CORES
from benchmarks.questions import ALLOCATORS, NAMES, question
from benchmarks.rows import Row, read_rows

MACHINES = "machine.json"
FIGURE = "loss.svg"

_SETTINGS = {"default": "the allocator as it is", "kept": "the allocator keeps what is freed"}
_DIGITS = 3


def read_results(folder: Path) -> Results:
    """Read all results in `folder`, in the order of the questions."""
    files = {(name, setting): folder / f"{name}-{setting}.csv" for name in NAMES for setting in ALLOCATORS}
    return {key: read_rows(path) for key, path in files.items() if path.exists()}


def summary(folder: Path, figure: str, quick: bool) -> str:
    """Return the page of all results in `folder`; `figure` is its path to the plot of the losses."""
    results = read_results(folder)
    machines: dict[str, dict[str, Any]] = json.loads((folder / MACHINES).read_text("utf-8"))
    parts = ["# Benchmark results", "Written by `python -m benchmarks --write-docs`; do not edit."]
    parts += _machines(machines)
    if quick:
        parts.append("**A quick run: small sizes, to show that everything works. Not for conclusions.**")
    else:
        parts += _goals(results)
    for name in NAMES:
        tables = {setting: rows for (asked, setting), rows in results.items() if asked == name}
        if tables:
            parts += _section(name, tables)
            if name == "loss":
                parts.append(f"![Time of a step against the number of items, by library]({figure})")
    return "\n\n".join(parts) + "\n"


def _machines(machines: dict[str, dict[str, Any]]) -> list[str]:
    """Describe the machine of each question, and name the questions during which it was busy."""
    texts = [machine["machine"] for machine in machines.values()]
    if len(set(texts)) == 1:
        parts = [f"Measured on: {texts[0]}."]
    else:
        parts = ["Measured on:", "\n".join(f"- {key}: {text}." for key, text in zip(machines, texts, strict=True))]
    busy = [key for key, machine in machines.items() if machine["cores used by others"] > BUSY_CORES]
    if busy:
        parts.append(f"**Others were using the machine when these began: {', '.join(busy)}. Not for conclusions.**")
    return parts


def _goals(results: Results) -> list[str]:
    lines = [
        [
            outcome.goal.what,
            f"at {'most' if outcome.goal.at_most else 'least'} {_limit(outcome.goal)}",
            _with_spread(outcome.value, outcome.low, outcome.high, outcome.goal.unit),
            outcome.setting,
            "yes" if outcome.goal.reached(outcome.value) else "**no**",
        ]
        for outcome in outcomes(results)
    ]
    if not lines:
        return []
    return ["## Marks", _table(["what", "mark", "found", "allocator", "reached"], lines)]


def _limit(goal: Goal) -> str:
    return f"{goal.limit:,g}x" if goal.unit == "x" else f"{goal.limit:,g} {goal.unit}"


def _section(name: str, tables: dict[str, list[Row]]) -> list[str]:
    asked = question(name)
    parts = [f"## {asked.TITLE}", asked.ABOUT, f"`python -m benchmarks --only {name}`"]
    for setting, rows in tables.items():
        if len(tables) > 1:
            parts.append(f"### {asked.TITLE}: {_SETTINGS[setting]}")
        sizes = list(dict.fromkeys(row.size for row in rows))
        parts.append(_by_size(rows, sizes) if len(sizes) > 1 else f"{sizes[0]}:\n\n{_by_contender(rows)}")
        if len(sizes) > 1:
            parts += _left_out(rows)
    return parts


def _by_size(rows: Sequence[Row], sizes: Sequence[str]) -> str:
    """Return a table with a line per size and a column per contender."""
    names = list(dict.fromkeys(row.contender for row in rows))
    cells = {(row.size, row.contender): row for row in rows}
    lines = [[size, *(_cell(cells.get((size, name)), name == names[0]) for name in names)] for size in sizes]
    return _table(["N", *names], lines)


def _cell(row: Row | None, is_first: bool) -> str:
    if row is None or row.left_out:
        return "-"
    shown = amount(row.value, row.unit)
    return shown if is_first else f"{shown}<br>{_with_spread(row.ratio, row.ratio_low, row.ratio_high, 'x')}"


def _by_contender(rows: Sequence[Row]) -> str:
    """Return a table with a line per contender, for questions of one size."""
    lines = []
    for row in rows:
        ratio = "-" if row.left_out or row is rows[0] else _with_spread(row.ratio, row.ratio_low, row.ratio_high, "x")
        note = f"left out: {row.note}" if row.left_out else row.note
        lines.append(
            [row.contender, "-" if row.left_out else amount(row.value, row.unit), ratio, str(row.rounds), note]
        )
    return _table(["contender", "median", "times ours", "rounds", "remarks"], lines)


def _left_out(rows: Sequence[Row]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.left_out:
            reasons.setdefault(row.contender, []).append(f"N = {row.size} {row.note}")
    return (
        ["Left out: " + "; ".join(f"{name} ({', '.join(why)})" for name, why in reasons.items()) + "."]
        if reasons
        else []
    )


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    ruler = ["---"] * len(header)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ruler, *lines))


def _with_spread(value: float, low: float, high: float, unit: str) -> str:
    shown = amount(value, unit)
    return shown if low == high else f"{shown} ({_digits(low)} to {_digits(high)})"


def amount(value: float, unit: str) -> str:
    """Format a measurement with three digits, in a unit that suits its size."""
    if unit == "x":
        return f"{_digits(value)}x"
    if unit == "s":
        for scale, name in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
            if value * scale >= 1 or name == "µs":
                return f"{_digits(value * scale)} {name}"
    return f"{_digits(value)} {unit}"


def _digits(value: float) -> str:
    """Format with three significant digits, without an exponent."""
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:,.{_DIGITS - whole}f}" if whole < _DIGITS else f"{round(value, _DIGITS - whole):,.0f}"
