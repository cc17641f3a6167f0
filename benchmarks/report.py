"""Render the results: goals first, then a table per question and allocator setting, and a figure of the losses."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import BUSY_CORES, OURS, Row, amount, digits, read_rows, table
from benchmarks.questions import ALLOCATORS, BOOSTED, PEER, QUESTIONS, SHORT

MACHINES = "machine.json"
FIGURE = "loss.svg"

Results = dict[tuple[str, str], list[Row]]
"""(question, setting) -> its rows."""

_SETTINGS = {"default": "the allocator as it is", "kept": "the allocator keeps what is freed"}


@dataclass(frozen=True)
class Goal:
    """A goal for one question at one size (or all): a limit of our value, or of the fastest peer's as a multiple of it.

    Attributes:
        peers: the contenders; if there are none, our own value counts.
        rows: the first words of the sizes that count, if not all do; the least of their ratios counts.
    """

    what: str
    question: str
    n: int | None
    limit: float
    unit: str
    peers: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()

    @property
    def at_most(self) -> bool:
        """True if lower is better: for seconds and megabytes, not for ratios."""
        return self.unit != "x"

    def reached(self, value: float) -> bool:
        """Return True if the value reaches the limit."""
        return value <= self.limit if self.at_most else value >= self.limit

    def measured(self, rows: Sequence[Row]) -> tuple[float, float, float] | None:
        """Return the value that counts, and its lowest and highest over the rounds; None if it was not measured."""
        here = [row for row in rows if self.n in (None, row.n) and not row.left_out]
        if not self.peers:
            return next(((row.value, row.value, row.value) for row in here if row.contender == OURS), None)
        of_peers = [row for row in here if row.contender in self.peers]
        counted = [row for row in of_peers if not self.rows or row.size.partition(",")[0] in self.rows]
        return min(((row.ratio, row.ratio_low, row.ratio_high) for row in counted), default=None)


_SMOOTH = ("nDCG", "nDCG min-max", "nDCG@10 min-max", "AP min-max")
# LambdaRank's trees may take twice as long as LightGBM's, others' three times.
_OF_BOOSTING = ((("LambdaRank",), 1 / 2), (_SMOOTH, 1 / 3))
# The goals of losses of pairs and ranks on each batch, and that of losses of items on all.
_OF_SHORT = (
    (("nDCG", "AP", "RankNet", "LambdaRank"), (1.67, 1.67, 2.5, 10.0)),
    (("softmax", "ListNet", "ListMLE"), (1.25,) * 4),
)
_PADDED = ("padded torch", "Rax")
_ALL_PAIRS = ("Rax", "pytorchltr*", "torch, N x N")
_ONE_BY_ONE, _READING = ("order by order",), ("scikit-learn, reading only",)

GOALS = (
    *(
        Goal(
            f"{', '.join(losses)} on {size}, the least against the better peer", "short", n, limit, "x", _PADDED, losses
        )
        for losses, limits in _OF_SHORT
        for n, (size, limit) in enumerate(zip(SHORT, limits, strict=True))
    ),
    Goal("one list of 100, against the plain P x N sum", "loss", 100, 1, "x", ("torch, P x N",)),
    Goal("one list of 300, against the plain P x N sum", "loss", 300, 1, "x", ("torch, P x N",)),
    Goal("one list of 8,000, against the best peer", "loss", 8_000, 300, "x", _ALL_PAIRS),
    Goal("one list of 1,000,000, time", "loss", 1_000_000, 0.1, "s"),
    Goal("one list of 1,000,000, memory", "memory", 1_000_000, 300, "MB"),
    Goal("32 lists of MovieLens' sizes, against Rax", "ragged", 32, 100, "x", ("Rax",)),
    Goal("evaluation, against the fastest peer", "evaluation", 10_000, 5, "x", ("ranx", "pytrec_eval", "ir_measures")),
    Goal("evaluation, time", "evaluation", 10_000, 0.08, "s"),
    # Our own compiled sampler is no peer: it is faster than what it is measured against, too.
    Goal("exact tables, against 300,000 random orders drawn one by one", "distributions", 48, 50, "x", _ONE_BY_ONE),
    Goal("LETOR to parquet, against scikit-learn's reading alone", "letor", None, 5, "x", _READING),
    *(
        Goal(
            f"a tree of {', '.join(objectives)} on {size}, the least against LightGBM's lambdarank",
            *("boosting", n, limit, "x", (PEER,), objectives),
        )
        for n, size in enumerate(BOOSTED)
        for objectives, limit in _OF_BOOSTING
    ),
)


def outcomes(results: Results) -> Iterator[tuple[Goal, str, tuple[float, float, float]]]:
    """Yield the goals that were measured, under each allocator setting, with the value and its lowest and highest."""
    for goal in GOALS:
        for (question, setting), rows in results.items():
            if question == goal.question and (measured := goal.measured(rows)) is not None:
                yield goal, setting, measured


def read_results(folder: Path) -> Results:
    """Read all results in `folder`, in the order of the questions."""
    files = {(name, setting): folder / f"{name}-{setting}.csv" for name in QUESTIONS for setting in ALLOCATORS}
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
        parts += _marks(results)
    for name in QUESTIONS:
        tables = {setting: rows for (asked, setting), rows in results.items() if asked == name}
        if tables:
            parts += _section(name, tables)
            if name == "loss":
                parts.append(f"![Time of a step against the number of items, by library]({figure})")
    return "\n\n".join(parts) + "\n"


def _machines(machines: Mapping[str, Mapping[str, Any]]) -> list[str]:
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


def _marks(results: Results) -> list[str]:
    lines = []
    for goal, setting, (value, low, high) in outcomes(results):
        unit = "x" if goal.unit == "x" else f" {goal.unit}"
        limit = f"at {'most' if goal.at_most else 'least'} {goal.limit:,g}{unit}"
        found = _with_spread(value, low, high, goal.unit)
        lines.append([goal.what, limit, found, setting, "yes" if goal.reached(value) else "**no**"])
    return ["## Marks", table(["what", "mark", "found", "allocator", "reached"], lines)] if lines else []


def _section(name: str, tables: dict[str, list[Row]]) -> list[str]:
    asked = QUESTIONS[name]
    parts = [f"## {asked.title}", asked.about, f"`python -m benchmarks --only {name}`"]
    for setting, rows in tables.items():
        if len(tables) > 1:
            parts.append(f"### {asked.title}: {_SETTINGS[setting]}")
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
    return table(["N", *names], lines)


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
    return table(["contender", "median", "times ours", "rounds", "remarks"], lines)


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


def _with_spread(value: float, low: float, high: float, unit: str) -> str:
    shown = amount(value, unit)
    return shown if low == high else f"{shown} ({digits(low)} to {digits(high)})"


def draw(results: Results, path: Path) -> bool:
    """Draw the times of the question `loss`, a panel per allocator setting; False if there is nothing to draw."""
    tables = {setting: rows for (name, setting), rows in results.items() if name == "loss"}
    if not tables:
        return False
    from rankbound_study.figures.style import SERIES, house_style, line, panels, save, shared_legend

    with house_style():
        figure, axes = panels(1, len(tables), height=3.4, sharey=True, sharex=True)
        for panel, (setting, rows) in zip(axes[0], tables.items(), strict=True):
            for name, look in zip(dict.fromkeys(row.contender for row in rows), SERIES, strict=False):
                timed = [row for row in rows if row.contender == name and not row.left_out]
                if timed:
                    line(panel, [row.n for row in timed], [row.value for row in timed], look, label=name, marks=100)
            panel.set(xscale="log", yscale="log", title=_SETTINGS[setting], xlabel="items in the list")
        axes[0, 0].set_ylabel("seconds, forward and backward")
        shared_legend(figure, axes, columns=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, [path])
    return True
