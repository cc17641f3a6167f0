"""A report of comparisons, as text, Markdown, LaTeX, JSON, CSV or a data frame."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rankbound.compare.comparison import Comparison, Settings
from rankbound.evaluation import aligned
from rankbound.texts import printable, quantity

if TYPE_CHECKING:
    import polars as pl

_TEXT_COLUMNS = ("", "metric", "over", "A is")
"""Columns of words; all others hold numbers."""

_LATEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
}
_SIGNED = re.compile(r"(?<![\w.])[+-](?=\d)")


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
        """Return tables of differences, of seeds and of margin tests as text, then notes."""
        tables = []
        for title, cells in self._tables():
            header, *rows = aligned(cells, _TEXT_COLUMNS).split("\n")
            lines = [*([title] if title else []), header, "─" * max(map(len, [header, *rows])), *rows]
            tables.append("\n".join(lines))
        notes = [*(f"* {printable(note)}" for note in self._all_notes()), *self._explanations()]
        return "\n\n".join([f"A: {printable(self.a)}\nB: {printable(self.b)}", *tables, "\n".join(notes)])

    def to_markdown(self) -> str:
        """Return the tables and notes in Markdown."""
        parts = [f"A: {_markdown(self.a)}  \nB: {_markdown(self.b)}"]
        for title, cells in self._tables():
            parts += [f"**{title}**"] if title else []
            rule = [":--" if name in _TEXT_COLUMNS else "--:" for name in cells[0]]
            header, *rows = [[_markdown(cell) for cell in row] for row in cells]
            parts.append("\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows)))
        notes = (*self._all_notes(), *self._explanations())
        return "\n\n".join([*parts, "\n".join(f"- {_markdown(note)}" for note in notes)])

    def to_latex(self) -> str:
        """Return the tables, as `tabular`s of the package booktabs, and the notes in LaTeX."""
        parts = [f"A: {_latex(self.a)}\\\\\nB: {_latex(self.b)}"]
        for title, cells in self._tables():
            parts += [rf"\paragraph{{{_latex(title)}}}"] if title else []
            kinds = "".join("l" if name in _TEXT_COLUMNS else "r" for name in cells[0])
            header, *rows = [" & ".join(map(_latex, row)) + r" \\" for row in cells]
            body = "\n".join([r"\toprule", header, r"\midrule", *rows, r"\bottomrule"])
            parts.append(f"\\begin{{tabular}}{{{kinds}}}\n{body}\n\\end{{tabular}}")
        return "\n\n".join([*parts, *map(_latex, (*self._all_notes(), *self._explanations()))])

    def to_json(self) -> str:
        """Return the comparisons as JSON: numbers with all their digits, null if undefined."""
        rows = [{"cell": row.cell, "metric": row.metric, **row.key, **_plain(asdict(row.found))} for row in self.rows]
        settings = {**asdict(self.settings), "family": f"the {self._tests()} of this report"}
        del settings["higher_is_better"]
        content = {"a": self.a, "b": self.b, "settings": settings, "comparisons": rows, "notes": list(self.notes)}
        return json.dumps(content, indent=2, ensure_ascii=False)

    def to_csv(self) -> str:
        """Return a row per comparison as CSV, nested fields in columns such as `effect.wins`."""
        rows = self._flat_rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().rstrip("\n")

    def to_polars(self) -> "pl.DataFrame":
        """Return a row per comparison, with the columns of the CSV."""
        import polars as pl

        return pl.DataFrame(self._flat_rows(), infer_schema_length=None)

    def _flat_rows(self) -> list[dict[str, Any]]:
        return [{"cell": row.cell, "metric": row.metric, **_flat(_plain(asdict(row.found)))} for row in self.rows]

    def _tables(self) -> Iterator[tuple[str, list[list[str]]]]:
        """Yield the title and the cells of each table, header first; without characters that a terminal acts on."""
        what: list[_Column] = [("", lambda row: row.cell)] if any(row.cell for row in self.rows) else []
        what.append(("metric", lambda row: row.metric))
        trained = [row for row in self.rows if not math.isnan(row.found.trainings.deviation)]
        judged = [row for row in self.rows if row.found.margin is not None]
        for title, columns, rows in (
            ("", _differences(self.settings.confidence), self.rows),
            ("Between seeds", _TRAININGS, trained),
            ("Against a margin", _MARGIN, judged),
        ):
            if rows or not title:
                header = [name for name, _ in (*what, *columns)]
                cells = [[show(row) for _, show in (*what, *columns)] for row in rows]
                yield title, [list(map(printable, line)) for line in (header, *cells)]

    def _all_notes(self) -> list[str]:
        """Return each note once, prefixed by its rows unless it applies to all."""
        about: dict[str, list[str]] = {}
        for row in self.rows:
            for note in row.found.notes:
                about.setdefault(note, []).append(", ".join(filter(None, [row.cell, row.metric])))
        lines = [note if len(rows) == len(self.rows) else f"{'; '.join(rows)}: {note}" for note, rows in about.items()]
        return [*lines, *self.notes]

    def _explanations(self) -> list[str]:
        """Return what the numbers are, in sentences."""
        settings = self.settings
        interval = "mean and standard error" if settings.interval == "t" else f"{settings.interval} bootstrap"
        return [
            f"Interval: {interval} over topics. p: {settings.flips} sign flips; Holm over {self._tests()}. "
            "Effect: mean over sd of the differences.",
            "Detectable: the smallest true difference that such a sample detects with 80 % power at level 5 %.",
        ]

    def _tests(self) -> str:
        """Return the number of tests, as `3 tests`."""
        return quantity(sum(not math.isnan(row.found.p_value) for row in self.rows), "test")


_Column = tuple[str, Callable[[Row], str]]


def _of(name: str, show: Callable[[Any], str]) -> Callable[[Row], str]:
    """Show the effect, or the margin test, of a row; `-` if it has none."""
    return lambda row: "-" if (part := getattr(row.found, name)) is None else show(part)


def _differences(confidence: float) -> list[_Column]:
    return [
        ("topics", lambda row: str(row.found.n_units)),
        ("A", lambda row: _number(row.found.mean_a)),
        ("B", lambda row: _number(row.found.mean_b)),
        ("A - B", lambda row: _number(row.found.difference, "+.4f")),
        (f"{confidence * 100:g} % interval", lambda row: _interval(row.found.low, row.found.high)),
        ("p", lambda row: _p(row.found.p_value)),
        ("p (Holm)", lambda row: _p(row.found.p_adjusted)),
        ("effect", _of("effect", lambda effect: _number(effect.standardised, "+.2f"))),
        ("P(A > B)", _of("effect", lambda effect: _number(effect.superiority, ".2f"))),
        ("win/tie/loss", _of("effect", lambda effect: f"{effect.wins}/{effect.ties}/{effect.losses}")),
        ("detectable", lambda row: _number(row.found.detectable)),
    ]


_TRAININGS: list[_Column] = [
    ("folds", lambda row: str(row.found.trainings.n_folds)),
    ("seeds", lambda row: str(row.found.trainings.n_seeds)),
    ("sd A", lambda row: _number(row.found.trainings.deviation_a)),
    ("sd B", lambda row: _number(row.found.trainings.deviation_b)),
    ("sd A - B", lambda row: _number(row.found.trainings.deviation)),
    ("interval, new trainings too", lambda row: _interval(row.found.trainings.low, row.found.trainings.high)),
    ("p", lambda row: _p(row.found.trainings.p_value)),
]


_MARGIN: list[_Column] = [
    ("margin", _of("margin", lambda test: _number(test.margin))),
    ("90 % interval", _of("margin", lambda test: _interval(test.low, test.high))),
    ("over", _of("margin", lambda test: test.covers)),
    ("p (A no worse)", _of("margin", lambda test: _p(test.p_not_worse))),
    ("p (alike)", _of("margin", lambda test: _p(test.p_alike))),
    ("A is", _of("margin", lambda test: test.verdict)),
]


def _number(value: float, form: str = ".4f") -> str:
    return "-" if math.isnan(value) else format(value, form)


def _interval(low: float, high: float) -> str:
    return "-" if math.isnan(low) else f"[{low:+.4f}, {high:+.4f}]"


def _p(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else _number(value)


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", printable(text))


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(letter, letter) for letter in printable(text))
    return _SIGNED.sub(lambda sign: f"${sign[0]}$", escaped)


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
