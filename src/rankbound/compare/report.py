"""A report of comparisons: its rows, its tables, and the notes below them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rankbound.compare.comparison import Comparison, Settings
from rankbound.compare.margins import MarginTest
from rankbound.texts import quantity

if TYPE_CHECKING:
    import polars as pl

Column = tuple[str, Callable[["Row"], str]]

TEXT_COLUMNS = ("", "metric", "over", "A is")
"""Columns of words; all others hold numbers."""


@dataclass(frozen=True)
class Row:
    """A comparison, with its metric and, for runs tables, its cell."""

    cell: str
    metric: str
    found: Comparison
    key: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All comparisons of two sides, or of pairs of systems, and notes that concern none of them in particular."""

    a: str
    b: str
    rows: Sequence[Row]
    settings: Settings
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        """Return the tables and notes as text."""
        from rankbound.compare.renderers import as_text

        return as_text(self)

    def to_markdown(self) -> str:
        """Return the tables and notes in Markdown."""
        from rankbound.compare.renderers import as_markdown

        return as_markdown(self)

    def to_latex(self) -> str:
        """Return the tables, as `tabular`s of the package booktabs, and the notes in LaTeX."""
        from rankbound.compare.renderers import as_latex

        return as_latex(self)

    def to_polars(self) -> "pl.DataFrame":
        """Return a row per comparison, with the columns of the CSV."""
        import polars as pl

        from rankbound.compare.renderers import flat_rows

        return pl.DataFrame(flat_rows(self), infer_schema_length=None)


@dataclass(frozen=True)
class ReportTable:
    """A table of a report: its title, its columns and the rows that they show."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]


def tables_of(report: Report) -> list[ReportTable]:
    """Return the tables of differences, of seeds and of margin tests, as far as there are any."""
    several = any(row.cell for row in report.rows)
    what: list[Column] = [("", lambda row: row.cell)] if several else []
    what.append(("metric", lambda row: row.metric))
    trained = [row for row in report.rows if not math.isnan(row.found.trainings.deviation)]
    judged = [row for row in report.rows if row.found.margin is not None]
    tables = [
        ReportTable("", [*what, *_columns(report.settings)], report.rows),
        ReportTable("Between seeds", [*what, *_TRAININGS], trained),
        ReportTable("Against a margin", [*what, *_MARGIN], judged),
    ]
    return [tables[0], *(table for table in tables[1:] if table.rows)]


def notes_of(report: Report) -> list[str]:
    """Return each note once, prefixed by its rows unless it applies to all."""
    about: dict[str, list[str]] = {}
    for row in report.rows:
        for note in row.found.notes:
            about.setdefault(note, []).append(", ".join(filter(None, [row.cell, row.metric])))
    lines = [note if len(rows) == len(report.rows) else f"{'; '.join(rows)}: {note}" for note, rows in about.items()]
    return [*lines, *report.notes]


def how(report: Report) -> list[str]:
    """Return what the numbers are, in sentences."""
    settings = report.settings
    interval = "mean and standard error" if settings.interval == "t" else f"{settings.interval} bootstrap"
    return [
        f"Interval: {interval} over topics. p: {settings.flips} sign flips; Holm over {tests_of(report)}. "
        "Effect: mean over sd of the differences.",
        "Detectable: the smallest true difference that such a sample detects with 80 % power at level 5 %.",
    ]


def tests_of(report: Report) -> str:
    """Return the number of tests, as `3 tests`."""
    n_tests = sum(not math.isnan(row.found.p_value) for row in report.rows)
    return quantity(n_tests, "test")


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
