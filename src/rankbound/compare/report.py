"""A report of comparisons, as text, Markdown, LaTeX, JSON, CSV or a data frame."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import starmap
from string import Formatter
from typing import TYPE_CHECKING, Any

from rankbound.compare.comparison import Comparison, Settings
from rankbound.compare.margins import LEVEL, TIE
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
    higher_is_better: bool = True

    @property
    def sides(self) -> tuple[str, str]:
        """The significantly better system and the other one; empty if neither is."""
        names = self.key.get("a", "A"), self.key.get("b", "B")
        if not self.found.p_adjusted <= LEVEL:
            return "", ""
        return names if (self.found.difference > 0) == self.higher_is_better else names[::-1]


@dataclass(frozen=True)
class Report:
    """All comparisons of two sides, or of pairs of systems, and notes that concern none of them in particular."""

    a: str
    b: str
    rows: Sequence[Row]
    settings: Settings
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        """Return tables of differences, of seeds and of margin tests as text, then notes and what to do."""

        def table(title: str, cells: list[list[str]]) -> str:
            header, *rows = aligned(cells, _TEXT_COLUMNS).split("\n")
            return "\n".join([*([title] if title else []), header, "─" * max(map(len, [header, *rows])), *rows])

        notes = [*(f"* {printable(note)}" for note in self._all_notes()), *self._explanations()]
        sides = f"A: {printable(self.a)}\nB: {printable(self.b)}"
        return "\n\n".join([sides, *starmap(table, self._tables()), "\n".join(notes)])

    def to_markdown(self) -> str:
        """Return the tables and notes in Markdown."""

        def table(title: str, cells: list[list[str]]) -> str:
            rule = [":--" if name in _TEXT_COLUMNS else "--:" for name in cells[0]]
            header, *rows = [[_markdown(cell) for cell in row] for row in cells]
            lines = "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))
            return f"**{title}**\n\n{lines}" if title else lines

        notes = [f"- {_markdown(note)}" for note in (*self._all_notes(), *self._explanations())]
        sides = f"A: {_markdown(self.a)}  \nB: {_markdown(self.b)}"
        return "\n\n".join([sides, *starmap(table, self._tables()), "\n".join(notes)])

    def to_latex(self) -> str:
        """Return the tables, as `tabular`s of the package booktabs, and the notes in LaTeX."""

        def table(title: str, cells: list[list[str]]) -> str:
            kinds = "".join("l" if name in _TEXT_COLUMNS else "r" for name in cells[0])
            header, *rows = [" & ".join(map(_latex, row)) + r" \\" for row in cells]
            body = "\n".join([r"\toprule", header, r"\midrule", *rows, r"\bottomrule"])
            heading = rf"\paragraph{{{_latex(title)}}}" + "\n\n" if title else ""
            return f"{heading}\\begin{{tabular}}{{{kinds}}}\n{body}\n\\end{{tabular}}"

        notes = map(_latex, (*self._all_notes(), *self._explanations()))
        sides = f"A: {_latex(self.a)}\\\\\nB: {_latex(self.b)}"
        return "\n\n".join([sides, *starmap(table, self._tables()), *notes])

    def to_json(self) -> str:
        """Return the comparisons as JSON: numbers with all their digits, null if undefined."""
        rows = [{"cell": row.cell, "metric": row.metric, **row.key, **_plain(row.found)} for row in self.rows]
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
        rows = []
        for row in self.rows:
            flat: dict[str, Any] = {"cell": row.cell, "metric": row.metric}
            for name, value in _plain(row.found).items():
                fields = value.items() if isinstance(value, dict) else ()
                flat |= {f"{name}.{field}": inner for field, inner in fields} if fields else {name: value}
            rows.append(flat | {"notes": " | ".join(row.found.notes)})
        return rows

    def _tables(self) -> Iterator[tuple[str, list[list[str]]]]:
        """Yield the title and the cells of each table, header first; without characters that a terminal acts on."""
        first = 0 if any(row.cell for row in self.rows) else 1
        trained = [row for row in self.rows if not math.isnan(row.found.trainings.deviation)]
        judged = [row for row in self.rows if row.found.margin is not None]
        for title, columns, rows in (
            ("", _DIFFERENCES, self.rows),
            ("Between seeds", _TRAININGS, trained),
            ("Against a margin", _MARGIN, judged),
        ):
            if rows or not title:
                level = f"{self.settings.confidence * 100:g} % interval"
                header = ["", "metric", *(level if name == "interval" else name for name in columns)]
                filled = ([_Cells().format(cell, row.found) for cell in columns.values()] for row in rows)
                cells = ([row.cell, row.metric, *line] for row, line in zip(rows, filled, strict=True))
                yield title, [list(map(printable, line[first:])) for line in (header, *cells)]

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
            *map(self._advice, dict.fromkeys(row.metric for row in self.rows)),
        ]

    def _advice(self, metric: str) -> str:
        """Return which system to take by a metric, and how many topics would tell what is inconclusive."""
        rows = [row for row in self.rows if row.metric == metric]
        pairs = list(filter(any, (row.sides for row in rows)))
        winners = [
            name for name in dict.fromkeys(name for name, _ in pairs) if name not in {other for _, other in pairs}
        ]
        beaten = {name: ", ".join(other for winner, other in pairs if winner == name) for name in winners}
        advice = []
        if pairs and len(rows) > 1 and "a" not in rows[0].key:
            counts = ", ".join(f"{side} in {sum(name == side for name, _ in pairs)}" for side in "AB")
            advice.append(f"significantly better of {quantity(len(rows), 'comparison')}: {counts}")
        elif winners:
            better = (f"{printable(name)} (significantly better than {printable(beaten[name])})" for name in winners)
            advice.append(f"take {' or '.join(better)}")
        others = [row.found for row in rows if not any(row.sides)]
        alike = [found for found in others if found.margin is not None and found.margin.verdict == "alike"]
        if alike:
            advice.append(f"alike within the margin in {quantity(len(alike), 'comparison')}, where either will do")
        if inconclusive := [found for found in others if found not in alike]:
            advice.append(self._open(inconclusive, len(rows)))
        return f"What to do, by {printable(metric)}: {'; '.join(advice)}."

    def _open(self, inconclusive: Sequence[Comparison], count: int) -> str:
        """Return that differences are not significant, and how many topics would tell."""
        margin = None if isinstance(self.settings.margin, str) else self.settings.margin
        needed = [
            (math.ceil(found.n_units * (found.detectable / size) ** 2), size, found.n_units)
            for found in inconclusive
            if (size := margin or abs(found.difference)) > TIE and found.detectable > 0
        ]
        text = (
            "no significant difference"
            if count == len(inconclusive)
            else f"{len(inconclusive)} of {count} comparisons inconclusive"
        )
        if not needed:
            return text
        topics, size, present = max(needed)
        kind = "the margin" if margin else "the difference measured" if len(needed) == 1 else "the hardest one measured"
        return f"{text}; about {topics:,} topics would tell one of {size:.4f}, {kind} (there are {present:,})"

    def _tests(self) -> str:
        """Return the number of tests, as `3 tests`."""
        return quantity(sum(not math.isnan(row.found.p_value) for row in self.rows), "test")


# Columns of the tables: a header, and the template of a comparison's cell.
_DIFFERENCES = {
    "topics": "{0.n_units}",
    "A": "{0.mean_a:.4f}",
    "B": "{0.mean_b:.4f}",
    "A - B": "{0.difference:+.4f}",
    "interval": "[{0.low:+.4f}, {0.high:+.4f}]",
    "p": "{0.p_value:p}",
    "p (Holm)": "{0.p_adjusted:p}",
    "effect": "{0.effect.standardised:+.2f}",
    "P(A > B)": "{0.effect.superiority:.2f}",
    "win/tie/loss": "{0.effect.wins}/{0.effect.ties}/{0.effect.losses}",
    "detectable": "{0.detectable:.4f}",
}
_TRAININGS = {
    "folds": "{0.trainings.n_folds}",
    "seeds": "{0.trainings.n_seeds}",
    "sd A": "{0.trainings.deviation_a:.4f}",
    "sd B": "{0.trainings.deviation_b:.4f}",
    "sd A - B": "{0.trainings.deviation:.4f}",
    "interval, new trainings too": "[{0.trainings.low:+.4f}, {0.trainings.high:+.4f}]",
    "p": "{0.trainings.p_value:p}",
}
_MARGIN = {
    "margin": "{0.margin.margin:.4f}",
    "90 % interval": "[{0.margin.low:+.4f}, {0.margin.high:+.4f}]",
    "over": "{0.margin.covers}",
    "p (A no worse)": "{0.margin.p_not_worse:p}",
    "p (alike)": "{0.margin.p_alike:p}",
    "A is": "{0.margin.verdict}",
}


class _Cells(Formatter):
    """Fills templates: `-` for numbers that a comparison lacks; the format `p` is that of p-values."""

    def vformat(self, format_string: str, args: Any, kwargs: Any) -> str:
        try:
            text = super().vformat(format_string, args, kwargs)
        except AttributeError:
            return "-"
        return "-" if "nan" in text else text

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "p":
            return "< 0.0001" if value < 0.0001 else format(value, ".4f")
        return format(value, format_spec)


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", printable(text))


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(letter, letter) for letter in printable(text))
    return _SIGNED.sub(lambda sign: f"${sign[0]}$", escaped)


def _plain(found: Comparison) -> dict[str, Any]:
    """Return the fields of a comparison by name, with None for NaN and inf."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(found)), parse_constant=lambda number: None)
    return plain
