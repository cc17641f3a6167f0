"""Render comparisons as text tables, JSON and CSV."""

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rankbound.compare.comparison import Comparison, Settings
from rankbound.compare.margins import MarginTest

_WIDTH = 200
"""Width of the tables in characters, enough for all columns."""

Column = tuple[str, Callable[["Row"], str]]


@dataclass(frozen=True)
class Row:
    """A comparison, with its metric and, for runs tables, its cell."""

    cell: str
    metric: str
    found: Comparison
    key: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All comparisons of two sides, and notes that concern none of them in particular."""

    a: str
    b: str
    rows: Sequence[Row]
    settings: Settings
    notes: Sequence[str] = ()


def as_json(report: Report) -> str:
    """Render a report as JSON: numbers with all their digits, null if undefined."""
    rows = [{"cell": row.cell, "metric": row.metric, **row.key, **_plain(asdict(row.found))} for row in report.rows]
    settings = {**asdict(report.settings), "family": f"the {_tests(report)} of this report"}
    del settings["higher_is_better"]
    content = {"a": report.a, "b": report.b, "settings": settings, "comparisons": rows, "notes": list(report.notes)}
    return json.dumps(content, indent=2, ensure_ascii=False)


def as_csv(report: Report) -> str:
    """Render a report as CSV: a row per comparison, nested fields in columns such as `effect.wins`."""
    rows = [{"cell": row.cell, "metric": row.metric, **_flat(_plain(asdict(row.found)))} for row in report.rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def as_text(report: Report) -> str:
    """Render a report as text: tables of differences, of seeds and of margin tests, then notes."""
    several = any(row.cell for row in report.rows)
    what: list[Column] = [("", lambda row: row.cell)] if several else []
    what.append(("metric", lambda row: row.metric))
    parts = [f"A: {report.a}\nB: {report.b}", _table([*what, *_columns(report.settings)], report.rows)]
    trained = [row for row in report.rows if not math.isnan(row.found.trainings.deviation)]
    if trained:
        parts.append("Between seeds\n" + _table([*what, *_TRAININGS], trained))
    judged = [row for row in report.rows if row.found.margin is not None]
    if judged:
        parts.append("Against a margin\n" + _table([*what, *_MARGIN], judged))
    return "\n\n".join([*parts, "\n".join([*_noted(report), _how(report)])])


def _columns(settings: Settings) -> list[Column]:
    return [
        ("topics", lambda row: str(row.found.n_units)),
        ("A", lambda row: _number(row.found.mean_a)),
        ("B", lambda row: _number(row.found.mean_b)),
        ("A - B", lambda row: _signed(row.found.difference)),
        (f"{settings.confidence * 100:g} % interval", lambda row: _interval(row.found.low, row.found.high)),
        ("p", lambda row: _p(row.found.p_value)),
        ("p (Holm)", lambda row: _p(row.found.p_adjusted)),
        ("effect", lambda row: _signed(row.found.effect.standardised, 2) if row.found.effect else "-"),
        ("P(A > B)", lambda row: _number(row.found.effect.superiority, 2) if row.found.effect else "-"),
        ("win/tie/loss", _counts),
        ("detectable", lambda row: _number(row.found.detectable)),
    ]


_TRAININGS: list[Column] = [
    ("folds", lambda row: str(row.found.trainings.n_folds)),
    ("seeds", lambda row: str(row.found.trainings.n_seeds)),
    ("sd A", lambda row: _number(row.found.trainings.deviation_a)),
    ("sd B", lambda row: _number(row.found.trainings.deviation_b)),
    ("sd A - B", lambda row: _number(row.found.trainings.deviation)),
    ("interval, new trainings too", lambda row: _interval(row.found.trainings.low, row.found.trainings.high)),
    ("p", lambda row: _p(row.found.trainings.p_value)),
]


def _of_margin(show: Callable[[MarginTest], str]) -> Callable[[Row], str]:
    return lambda row: show(row.found.margin) if row.found.margin else "-"


_MARGIN: list[Column] = [
    ("margin", _of_margin(lambda test: _number(test.margin))),
    ("90 % interval", _of_margin(lambda test: _interval(test.low, test.high))),
    ("over", _of_margin(lambda test: test.covers)),
    ("p (A no worse)", _of_margin(lambda test: _p(test.p_not_worse))),
    ("p (alike)", _of_margin(lambda test: _p(test.p_alike))),
    ("A is", _of_margin(lambda test: test.verdict)),
]


def _table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name, _ in columns:
        of_text = name in ("", "metric", "over", "A is")
        table.add_column(name, justify="left" if of_text else "right", no_wrap=not of_text)
    for row in rows:
        # Escape the brackets of intervals, which rich reads as markup.
        table.add_row(*(show(row).replace("[", r"\[") for _, show in columns))
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip("\n").split("\n"))


def _noted(report: Report) -> list[str]:
    """Return each note once, prefixed by its rows unless it applies to all."""
    about: dict[str, list[str]] = {}
    for row in report.rows:
        for note in row.found.notes:
            about.setdefault(note, []).append(", ".join(filter(None, [row.cell, row.metric])))
    lines = [
        f"* {note}" if len(rows) == len(report.rows) else f"* {'; '.join(rows)}: {note}" for note, rows in about.items()
    ]
    return [*lines, *(f"* {note}" for note in report.notes)]


def _how(report: Report) -> str:
    settings = report.settings
    interval = "mean and standard error" if settings.interval == "t" else f"{settings.interval} bootstrap"
    return (
        f"Interval: {interval} over topics. p: {settings.flips} sign flips; Holm over {_tests(report)}. "
        "Effect: mean over sd of the differences.\nDetectable: the smallest true difference that such a sample detects "
        "with 80 % power at level 5 %."
    )


def _tests(report: Report) -> str:
    n_tests = sum(not math.isnan(row.found.p_value) for row in report.rows)
    return "1 test" if n_tests == 1 else f"{n_tests} tests"


def _counts(row: Row) -> str:
    effect = row.found.effect
    return f"{effect.wins}/{effect.ties}/{effect.losses}" if effect else "-"


def _number(value: float, digits: int = 4) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _signed(value: float, digits: int = 4) -> str:
    return "-" if math.isnan(value) else f"{value:+.{digits}f}"


def _interval(low: float, high: float) -> str:
    return "-" if math.isnan(low) else f"[{low:+.4f}, {high:+.4f}]"


def _p(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}" if value >= 0.0001 else "< 0.0001"


def _plain(value: Any) -> Any:
    """Replace NaN and inf by None."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = " | ".join(value) if isinstance(value, list) else value
    return flat
