"""Reports: comparisons of systems, and systems by metrics: text, Markdown, HTML, LaTeX, JSON, CSV or a data frame."""

import csv
import io
import json
import math
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from rankbound.compare.comparison import DIFFERENCES, LEVEL, TIE, Cells, Comparison, Settings
from rankbound.compare.statistics import CORRECTIONS, TESTS, interval_of_mean
from rankbound.evaluation import Evaluation, aligned, shown, summary
from rankbound.io.files import needs_extra
from rankbound.lazy import pl
from rankbound.metrics import Metric
from rankbound.texts import html, html_notes, html_table, printable, quantity, require_one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BETTER, WORSE = "†", "‡"
"""Marks of a value that is significantly better, or worse, than another one."""

_LATEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": "$<$",
    ">": "$>$",
    "≤": r"$\le$",
    "\N{NO-BREAK SPACE}": "~",
    BETTER: r"$^{\dagger}$",
    WORSE: r"$^{\ddagger}$",
}
_SIGNED = re.compile(r"(?<![\w.])[+-](?=\d)")
_AT_MOST = "\N{NO-BREAK SPACE}≤\N{NO-BREAK SPACE}"
_LEGEND_WIDTH = 1.4
"""Characters of small print on a line, by those of the table's digits above it."""
_LEAST_LEGEND = 48
_MEANINGS = {BETTER: "better", WORSE: "worse"}
_NONE, _SYSTEM = shown(math.nan), "System"
_TEXT_COLUMNS = ("", "metric", "over", "A is")
"""Columns of words; all others hold numbers."""


class Cell(NamedTuple):
    """The text of a cell, whether it is bold, and a mark behind it that takes no room among the digits."""

    text: str
    strong: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells, the header first, with a title that may be empty; columns with headers in `words` align left."""

    title: str
    rows: Sequence[Sequence[Cell]]
    words: Collection[str]

    def text(self) -> str:
        """Return the table as text, in which `*` stands behind bold cells."""
        behind = [[cell.mark + "*" * cell.strong for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*behind, strict=True)]
        cells = [
            [printable(cell.text) + after.ljust(width) for cell, after, width in zip(row, marks, widths, strict=True)]
            for row, marks in zip(self.rows, behind, strict=True)
        ]
        header, *rows = aligned(cells, self.words).split("\n")
        title = [self.title] if self.title else []
        return "\n".join([*title, header, "─" * max(map(len, [header, *rows])), *rows])

    def markdown(self) -> str:
        """Return the table in Markdown, below its title in bold type."""
        rule = [":--" if cell.text in self.words else "--:" for cell in self.rows[0]]
        header, *rows = self._cells("**{}**", markdown)
        lines = "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))
        return f"**{self.title}**\n\n{lines}" if self.title else lines

    def html(self) -> str:
        """Return the table in HTML, below its title."""
        cells = self._cells("<strong>{}</strong>", html)
        title = f"<p><strong>{html(self.title)}</strong></p>" if self.title else ""
        return title + html_table(cells, {html(word) for word in self.words})

    def latex(self, legend: str = "") -> str:
        r"""Return a `tabular` of the package booktabs, with a comment for its title and rows of small print below.

        The marks have no width: digits stay below digits.
        """
        kinds = "".join("l" if cell.text in self.words else "r" for cell in self.rows[0])
        lines = (" & ".join(cells) + r" \\" for cells in self._cells(r"\textbf{{{}}}", latex, r"\rlap{{{}}}"))
        # Behind the end of a row, or a rule, these letters begin its options.
        header, *rows = (f"{{}}{line}" if line.startswith(("[", "*")) else line for line in lines)
        widths = [max(len(row[place].text) for row in self.rows) + 2 for place in range(len(kinds))]
        room = max(_LEAST_LEGEND, round(_LEGEND_WIDTH * sum(widths)))
        text = printable(legend).replace(" ≤ ", _AT_MOST)
        ways = [textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) for width in range(9, room)]
        # The fewest lines, of lengths as equal as can be.
        wrapped = min(ways, key=lambda lines: (len(lines), max(map(len, lines), default=0)))
        small = (rf"\multicolumn{{{len(kinds)}}}{{l}}{{\footnotesize {latex(line)}}} \\" for line in wrapped)
        title = latex_comments([self.title] if self.title else [])
        above, below = [*title, rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", header, r"\midrule"], r"\bottomrule"
        return "\n".join([*above, *rows, below, *small, r"\end{tabular}"])

    def _cells(self, strong: str, escape: Callable[[str], str], mark: str = "{}") -> list[list[str]]:
        """Return the escaped texts of all cells, bold ones in a pattern, with any marks in another behind them."""

        def text(cell: Cell) -> str:
            behind = mark.format(escape(cell.mark)) if cell.mark else ""
            return (strong if cell.strong else "{}").format(escape(cell.text)) + behind

        return [list(map(text, row)) for row in self.rows]


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


class Printed(ABC):
    """Tables with notes, as text in several forms, or as rows."""

    @abstractmethod
    def _parts(self, strong: str = "Bold") -> tuple[Sequence[str], Iterable[Table], Sequence[str], Sequence[str]]:
        """Return the lines above, the tables, notes, and explanations; `strong` is the mark of the best means."""

    @abstractmethod
    def _flat_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the CSV."""

    def __str__(self) -> str:
        """Return the tables as text, then notes and explanations."""
        above, tables, notes, explanations = self._parts("*")
        below = map(printable, [*(f"* {note}" for note in notes), *explanations])
        lines = "\n".join(map(printable, above)), *(table.text() for table in tables), "\n".join(below)
        return "\n\n".join(filter(None, lines))

    def to_markdown(self) -> str:
        """Return the tables, with the best means in bold, notes and explanations in Markdown."""
        above, tables, notes, explanations = self._parts()
        below = (f"- {markdown(line)}" for line in (*notes, *explanations))
        lines = "  \n".join(map(markdown, above)), *(table.markdown() for table in tables), "\n".join(below)
        return "\n\n".join(filter(None, lines))

    def _repr_html_(self) -> str:
        """Return the tables, notes and explanations in HTML, as notebooks show them."""
        above, tables, notes, explanations = self._parts()
        return html_notes(above) + "".join(table.html() for table in tables) + html_notes([*notes, *explanations])

    def to_csv(self) -> str:
        """Return a row per comparison, nested fields as `effect.wins`, or a row per system and metric, as CSV."""
        rows, text = self._flat_rows(), io.StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().rstrip("\n")

    def to_polars(self) -> "pl.DataFrame":
        """Return the rows and columns of the CSV."""
        return pl.DataFrame(self._flat_rows(), infer_schema_length=None)


@dataclass(frozen=True)
class Report(Printed):
    """All comparisons of two sides, or of pairs of systems, and notes that concern none of them in particular."""

    a: str
    b: str
    rows: Sequence[Row]
    settings: Settings
    notes: Sequence[str] = ()

    def _parts(self, strong: str = "Bold") -> tuple[Sequence[str], Iterable[Table], Sequence[str], Sequence[str]]:
        return [f"A: {self.a}", f"B: {self.b}"], self._tables(), self.all_notes(), self._explanations()

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the differences with their intervals; filled dots are significant after correction.

        Args:
            ax: the axes of Matplotlib to draw on; by default, those of a new figure.

        Returns:
            The axes.
        """
        from rankbound import plot

        several = len({row.metric for row in self.rows}) > 1
        names = [[row.cell, row.metric if several or not row.cell else ""] for row in self.rows]
        found = {", ".join(filter(None, name)): row.found for name, row in zip(names, self.rows, strict=True)}
        metric = "" if several else f" in {self.rows[0].metric}"
        sides = "A - B" if any(row.key for row in self.rows) else f"{self.a} - {self.b}"
        return plot.differences(found, LEVEL, ax, f"{sides}{metric}")

    def to_latex(self) -> str:
        r"""Return `tabular`s of the package booktabs for `\input`, with the columns of papers; notes are comments."""
        sides = f"A: {self.a}", f"B: {self.b}"
        counts = {row.found.n_units for row in self.rows}
        alike = [f"Over {quantity(count, 'topic')}" for count in counts if len(counts) == 1]
        notes = latex_comments([*sides, *alike, *self.all_notes(), *self._explanations()])
        left_out = {"p", "P(A > B)", "win/tie/loss", "detectable", *(["topics"] if alike else [])}
        return "\n".join([*notes, "\n\n".join(table.latex() for table in self._tables(left_out))])

    def to_json(self) -> str:
        """Return the comparisons as JSON: numbers with all their digits, null if undefined."""
        content = {"a": self.a, "b": self.b, **self.content(), "notes": list(self.notes)}
        return json.dumps(content, indent=2, ensure_ascii=False)

    def content(self) -> dict[str, Any]:
        """Return the settings and the comparisons for JSON."""
        rows = [{"cell": row.cell, "metric": row.metric, **row.key, **_plain(row.found)} for row in self.rows]
        settings = {**asdict(self.settings), "family": f"the {self._tests()} of this report"}
        for name in ("higher_is_better", *(["flips"] if self.settings.test != "flips" else [])):
            del settings[name]
        return {"settings": settings, "comparisons": rows}

    def _flat_rows(self) -> list[dict[str, Any]]:
        rows = []
        for row in self.rows:
            flat: dict[str, Any] = {"cell": row.cell, "metric": row.metric}
            for name, value in _plain(row.found).items():
                fields = value.items() if isinstance(value, dict) else ()
                flat |= {f"{name}.{field}": inner for field, inner in fields} if fields else {name: value}
            named = {"test": self.settings.test, "correction": self.settings.correction}
            rows.append(flat | named | {"notes": " | ".join(row.found.notes)})
        return rows

    def _tables(self, left_out: Collection[str] = ()) -> Iterator[Table]:
        """Yield the tables, without the columns of differences that are left out."""
        first = 0 if any(row.cell for row in self.rows) else 1
        trained = [row for row in self.rows if not math.isnan(row.found.trainings.deviation)]
        judged = [row for row in self.rows if row.found.margin is not None]
        differences = {name: cell for name, cell in DIFFERENCES.items() if name not in left_out}
        titles = {
            "interval": f"{self.settings.confidence * 100:g} % interval",
            "adjusted": f"p ({CORRECTIONS[self.settings.correction]})",
        }
        seeds, margins = ("Between seeds", _TRAININGS, trained), ("Against a margin", _MARGIN, judged)
        for title, columns, rows in (("", differences, self.rows), seeds, margins):
            if rows or not title:
                header = ["", "metric", *(titles.get(name, name) for name in columns)]
                filled = ([Cells().format(cell, row.found) for cell in columns.values()] for row in rows)
                cells = ([row.cell, row.metric, *line] for row, line in zip(rows, filled, strict=True))
                yield Table(title, [list(map(Cell, line[first:])) for line in (header, *cells)], _TEXT_COLUMNS)

    def all_notes(self) -> list[str]:
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
            f"Interval: {interval} over topics. p: {self.method()}. Effect: mean over sd of the differences.",
            "Detectable: the smallest true difference that such a sample detects with 80 % power at level 5 %.",
            *map(self._advice, dict.fromkeys(row.metric for row in self.rows)),
        ]

    def method(self) -> str:
        """Return the test and the correction of p-values, as `9999 sign flips; Holm over 3 tests`."""
        settings = self.settings
        return f"{TESTS[settings.test].format(settings)}; {CORRECTIONS[settings.correction]} over {self._tests()}"

    def _advice(self, metric: str) -> str:
        """Return which system to take by a metric, and how many topics would tell what is inconclusive."""
        rows = [row for row in self.rows if row.metric == metric]
        pairs = list(filter(any, (row.sides for row in rows)))
        losers = {other for _, other in pairs}
        winners = [name for name in dict.fromkeys(name for name, _ in pairs) if name not in losers]
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
            some = f"{len(inconclusive)} of {len(rows)} comparisons inconclusive"
            advice.append("no significant difference" if len(rows) == len(inconclusive) else some)
        margin = None if isinstance(self.settings.margin, str) else self.settings.margin
        needed = [
            (math.ceil(found.n_units * (found.detectable / size) ** 2), size, found.n_units)
            for found in inconclusive
            if (size := margin or abs(found.difference)) > TIE and found.detectable > 0
        ]
        if needed:
            topics, size, present = max(needed)
            one = "the difference measured" if len(needed) == 1 else "the hardest one measured"
            what = f"{size:.4f}, {'the margin' if margin else one}"
            advice.append(f"about {topics:,} topics would tell one of {what} (there are {present:,})")
        return f"What to do, by {printable(metric)}: {'; '.join(advice)}."

    def _tests(self) -> str:
        """Return the number of tests, as `3 tests`."""
        return quantity(sum(not math.isnan(row.found.p_value) for row in self.rows), "test")


@dataclass(frozen=True)
class SystemsTable(Printed):
    """Systems by metrics: means, the best of each metric, and which are significantly better than a baseline.

    Attributes:
        evaluations: the values of each system by its name, in the order of the rows.
        metrics: the metrics, in the order of the columns.
        baseline: the name of the system that all others are compared with, if any.
        report: these comparisons, a row per other system and metric.
        notes: what is left out, and what limits the tests.
    """

    evaluations: Mapping[str, Evaluation]
    metrics: Sequence[Metric]
    baseline: str | None = None
    report: Report | None = None
    notes: Sequence[str] = ()

    def means(self) -> dict[str, dict[str, float]]:
        """Return the mean of each metric over the topics where it is defined, by system; NaN if there are none."""
        return {name: evaluation.means() for name, evaluation in self.evaluations.items()}

    def best(self) -> dict[str, list[str]]:
        """Return the systems with the best mean of each metric, as it is printed: all that tie."""
        best = {}
        for metric in self.metrics:
            printed = {name: shown(means[str(metric)]) for name, means in self.means().items()}
            known = {name: float(text) for name, text in printed.items() if text != _NONE}
            first = (max if metric.higher_is_better else min)(known.values(), default=math.nan)
            best[str(metric)] = [name for name, value in known.items() if value == first]
        return best

    def _parts(self, strong: str = "Bold") -> tuple[Sequence[str], Iterable[Table], Sequence[str], Sequence[str]]:
        return (), [self._table()], self.notes, [self._caption(strong)]

    def plot(self, metric: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draw the systems' means on a metric, best first, with their intervals and the table's daggers. Needs scipy.

        Args:
            metric: the metric's text; by default, the first of the table.
            ax: the axes of Matplotlib to draw on; by default, those of a new figure.

        Returns:
            The axes.

        Raises:
            ValueError: a metric that the table lacks, or that is undefined on all topics.
        """
        from rankbound import plot

        known = {str(one): one for one in self.metrics}
        name = next(iter(known)) if metric is None else metric
        require_one_of("metric", name, known)
        how = self.report.settings if self.report is not None else Settings()
        with needs_extra("statistics"):
            intervals = {
                system: interval_of_mean(one.values[name], None, how.confidence, how.resamples, how.interval, how.seed)
                for system, one in self.evaluations.items()
            }
        marks = {system: self._mark(system, name) for system in self.evaluations}
        label = f"mean {name}, {how.confidence * 100:g} % interval"
        return plot.means(self.evaluations, name, intervals, marks, label, known[name].higher_is_better, ax)

    def to_latex(self) -> str:
        r"""Return a `tabular` of booktabs for `\input` that explains its daggers, below notes as comments."""
        comments = latex_comments([*self.notes, self._caption("Bold")])
        return "\n".join([*comments, self._table().latex(self._legend())])

    def to_json(self) -> str:
        """Return means, best systems and comparisons as JSON: numbers with all their digits, null if undefined."""
        systems = {name: summary(evaluation) for name, evaluation in self.evaluations.items()}
        tests = {} if self.report is None else self.report.content()
        content = {"baseline": self.baseline, "systems": systems, "best": self.best(), **tests}
        return json.dumps(content | {"notes": list(self.notes)}, indent=2, ensure_ascii=False)

    def _flat_rows(self) -> list[dict[str, Any]]:
        rows, best, settings = [], self.best(), self.report.settings if self.report is not None else None
        for name, evaluation in self.evaluations.items():
            means, topics = summary(evaluation)["means"], self._counts(evaluation)
            for metric in map(str, self.metrics):
                row = {"system": name, "metric": metric, "mean": means[metric], "topics": topics[metric]}
                row["best"] = name in best[metric]
                if settings is not None:
                    tests = _plain(self._rows[name, metric].found) if (name, metric) in self._rows else {}
                    row |= {key: tests.get(key) for key in ("difference", "low", "high", "p_value", "p_adjusted")}
                    row["significant"] = _MEANINGS.get(self._mark(name, metric), "")
                    row |= {"test": settings.test, "correction": settings.correction}
                rows.append(row)
        return rows

    @cached_property
    def _rows(self) -> dict[tuple[str, str], Row]:
        rows = self.report.rows if self.report is not None else ()
        return {(row.key["a"], row.metric): row for row in rows}

    def _mark(self, system: str, metric: str) -> str:
        """Return the dagger of a system that is significantly better than the baseline, or worse."""
        sides = row.sides if (row := self._rows.get((system, metric))) is not None else ("", "")
        return "" if not any(sides) else BETTER if sides[0] == system else WORSE

    def _table(self) -> Table:
        best, several = self.best(), len(self.evaluations) > 1
        rows = [[Cell(_SYSTEM), *(Cell(str(metric)) for metric in self.metrics)]]
        for name, means in self.means().items():
            cells = (
                Cell(shown(means[metric]), several and name in best[metric], self._mark(name, metric))
                for metric in map(str, self.metrics)
            )
            rows.append([Cell(name), *cells])
        return Table("", rows, (_SYSTEM,))

    def _counts(self, evaluation: Evaluation) -> dict[str, int]:
        return {name: len(evaluation.topics) - count for name, count in evaluation.undefined().items()}

    def _caption(self, best: str) -> str:
        """Return what the numbers and marks are; `best` is the mark of the best means."""
        over: dict[str, list[str]] = {}
        for name, evaluation in self.evaluations.items():
            metrics: dict[int, list[str]] = {}
            for metric, count in self._counts(evaluation).items():
                metrics.setdefault(count, []).append(metric)
            several = ", ".join(f"{count:,} ({', '.join(names)})" for count, names in metrics.items())
            said = f"{several} topics" if len(metrics) > 1 else quantity(next(iter(metrics)), "topic")
            over.setdefault(said, []).append(name)
        means = "; ".join(f"{counts} for {', '.join(names)}" for counts, names in over.items())
        means = means if len(over) > 1 else next(iter(over))
        bold = f"{best}: best mean of a metric" if len(self.evaluations) > 1 else ""
        return "".join(f"{said}. " for said in (f"Means over {means}", bold, self._legend()) if said).rstrip()

    def _legend(self) -> str:
        """Return what the daggers are, with test, correction and level; nothing without a baseline."""
        if self.report is None:
            return ""
        marks = {self._mark(*key) for key in self._rows}
        known = [f"{mark} significantly {what}" for mark, what in _MEANINGS.items() if mark in marks]
        what = f"{', '.join(known)} than" if known else "No significant difference from"
        return f"{what} {self.baseline} (p ≤ {LEVEL:g}; {self.report.method()})"


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


def _plain(found: Comparison) -> dict[str, Any]:
    """Return the fields of a comparison by name, with None for NaN and inf."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(found)), parse_constant=lambda number: None)
    return plain


def markdown(text: str) -> str:
    """Return a text with the characters escaped that Markdown acts on."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", printable(text))


def latex(text: str) -> str:
    """Return a text with the characters escaped that LaTeX acts on, and signs of numbers as mathematics."""
    escaped = "".join(_LATEX.get(letter, letter) for letter in printable(text))
    # Two hyphens would become a dash.
    return _SIGNED.sub(lambda sign: f"${sign[0]}$", escaped).replace("--", "-{}-")


def latex_comments(lines: Sequence[str]) -> list[str]:
    """Return lines of LaTeX that it ignores."""
    return [f"% {printable(line)}" for line in lines]
