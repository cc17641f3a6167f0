"""Render results: goals first, then a table per question and allocator setting, and a figure of the losses.

`table`, `amount` and `digits` serve all tables of the benchmarks, `write_between` all pages with generated parts.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from benchmarks import rows_of
from benchmarks.runner import BUSY_CORES, OURS, Row, read_rows

MACHINES = "machine.json"
FIGURE = "images/benchmarks_loss.svg"

Results = dict[tuple[str, str], list[Row]]
"""(question, setting) -> its rows."""

WORDS: Mapping[str, Mapping[str, str]] = rows_of("questions")
GOALS: Sequence[Mapping[str, Any]] = rows_of("goals")
_SETTINGS = {"default": "the allocator as it is", "kept": "the allocator keeps what is freed"}


def outcomes(results: Results) -> Iterator[tuple[Mapping[str, Any], str, Row]]:
    """Yield the goals that were measured, under each allocator setting, with the row that counts.

    It is ours, or that of the fastest peer.
    """
    for goal in GOALS:
        peers, works = goal.get("peers", [OURS]), goal.get("rows")
        for (question, setting), rows in results.items():
            here = [row for row in rows if question == goal["question"] and row.n == goal["n"] and not row.left_out]
            counted = [row for row in here if row.contender in peers]
            counted = [row for row in counted if not works or row.size.partition(",")[0] in works]
            if counted:
                yield goal, setting, min(counted, key=lambda row: row.ratio)


SLOWER = 1.25
"""How many times as slow guarded work may become, by its median; and a round must have been as fast as it was."""


def guarded(rows: Sequence[Row], kept: Sequence[Row]) -> tuple[str, list[str]]:
    """Return a table of ratios now and before, and the sizes whose ratio got worse."""
    before = {(row.size, row.contender): row for row in kept if not row.left_out}
    lines, worse = [], list[str]()
    for row in rows:
        if row.contender == OURS or (old := before.get((row.size, row.contender))) is None:
            continue
        shown = row.note or "left out" if row.left_out else _ratio(row)
        if not row.left_out and row.ratio * SLOWER < old.ratio and row.ratio_high < old.ratio:
            worse.append(row.size)
        slower = "**slower**" if row.size in worse else ""
        lines.append([row.size, row.contender, f"{digits(old.ratio)}x", shown, slower])
    return table(["work", "times ours", "kept", "now", ""], lines), worse


def read_results(folder: Path) -> Results:
    """Read all results in `folder`, in the order of the questions."""
    files = {(name, setting): folder / f"{name}-{setting}.csv" for name in WORDS for setting in _SETTINGS}
    return {key: read_rows(path) for key, path in files.items() if path.exists()}


def summary(folder: Path, quick: bool) -> str:
    """Return the page of all results in `folder`."""
    results = read_results(folder)
    machines: dict[str, dict[str, Any]] = json.loads((folder / MACHINES).read_text("utf-8"))
    questions: dict[str, dict[str, str]] = {}
    for (name, setting), rows in results.items():
        questions.setdefault(name, {})[setting] = _by_size(rows)
    facts: dict[str, Any] = {"machines": machines, "quick": quick, "questions": questions, "figure": FIGURE}
    facts["busy"] = [key for key, machine in machines.items() if machine["cores used by others"] > BUSY_CORES]
    facts["marks"] = []
    for goal, setting, row in outcomes(results):
        limit = goal["limit"]
        words, shown, reached = f"at least {limit:,g}x", _ratio(row), row.ratio >= limit
        if "peers" not in goal:
            words, shown, reached = f"at most {limit:,g} {row.unit}", amount(row.value, row.unit), row.value <= limit
        facts["marks"].append([goal["what"], words, shown, setting, "yes" if reached else "**no**"])
    layout = Environment(trim_blocks=True, undefined=StrictUndefined)
    page = layout.from_string(Path(__file__).with_suffix(".md").read_text("utf-8"))
    return page.render(facts, words=WORDS, settings=_SETTINGS, table=table).rstrip("\n") + "\n"


def _by_size(rows: Sequence[Row]) -> str:
    """Return a table with a line per size and a column per contender, and the reasons of those that were left out."""
    names, sizes = list(dict.fromkeys(row.contender for row in rows)), dict.fromkeys(row.size for row in rows)
    cells, reasons = {}, dict[str, list[str]]()
    for row in rows:
        cells[row.size, row.contender] = "-" if row.left_out else amount(row.value, row.unit)
        if row.left_out:
            reasons.setdefault(f"{row.contender}: {row.note}", []).append(row.size)
        elif row.contender != names[0]:
            cells[row.size, row.contender] += f"<br>{_ratio(row)}"
    shown = table(["N", *names], [[size, *(cells.get((size, name), "-") for name in names)] for size in sizes])
    left_out = "; ".join(f"{why} (N = {', '.join(where)})" for why, where in reasons.items())
    return f"{shown}\n\nLeft out: {left_out}." if reasons else shown


def _ratio(row: Row) -> str:
    spread = f" ({digits(row.ratio_low)} to {digits(row.ratio_high)})" if row.ratio_low < row.ratio_high else ""
    return f"{digits(row.ratio)}x{spread}"


def draw(results: Results, path: Path) -> None:
    """Draw the times of the question `loss`, if it was measured, a panel per allocator setting."""
    tables = {setting: rows for (name, setting), rows in results.items() if name == "loss"}
    if not tables:
        return
    from rankbound_study.figures.style import SERIES, finish, house_style, line, panels, save

    with house_style():
        figure, axes = panels(1, len(tables), height=3.4, sharey=True, sharex=True)
        for panel, rows in zip(axes[0], tables.values(), strict=True):
            for name, look in zip(dict.fromkeys(row.contender for row in rows), SERIES, strict=False):
                timed = [row for row in rows if row.contender == name and not row.left_out]
                if timed:
                    line(panel, [row.n for row in timed], [row.value for row in timed], look, label=name, marks=100)
            panel.set(xscale="log", yscale="log", xlabel="items in the list")
        axes[0, 0].set_ylabel("seconds, forward and backward")
        finish(figure, axes, columns=[_SETTINGS[setting] for setting in tables], legend=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, [path])


def table(header: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    names = list(header)
    return "\n".join(f"| {' | '.join(line)} |" for line in (names, ["---"] * len(names), *lines))


def amount(value: float, unit: str) -> str:
    """Format a measurement with three digits, in a unit that suits its size."""
    if unit == "s":
        scale, unit = next((one for one in ((1.0, "s"), (1e3, "ms")) if value * one[0] >= 1), (1e6, "µs"))
        value *= scale
    return f"{digits(value)} {unit}"


def digits(value: float) -> str:
    """Format with three significant digits, without an exponent."""
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:,.{3 - whole}f}" if whole < 3 else f"{round(value, 3 - whole):,.0f}"


def around(command: str) -> tuple[str, str]:
    """Return the lines of a page around what a command of the benchmarks writes there."""
    return f"<!-- Written by python -m {command} --write-docs -->", "<!-- End of what is written -->"


def write_between(page: Path, command: str, text: str) -> None:
    """Replace the text between the lines of a page that are of this command."""
    begin, end = around(command)
    before, _, rest = page.read_text("utf-8").partition(begin)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")
