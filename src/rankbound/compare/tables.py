"""Tables of cells as text, Markdown, HTML and LaTeX: bold cells, marks such as daggers, names of all letters."""

import re
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rankbound.evaluation import aligned
from rankbound.texts import html, html_table, printable

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
        header, *rows = [
            [_strong("**{}**", markdown(cell.text), cell) + cell.mark for cell in row] for row in self.rows
        ]
        lines = "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))
        return f"**{self.title}**\n\n{lines}" if self.title else lines

    def html(self) -> str:
        """Return the table in HTML, below its title."""
        cells = [
            [_strong("<strong>{}</strong>", html(cell.text), cell) + cell.mark for cell in row] for row in self.rows
        ]
        title = f"<p><strong>{html(self.title)}</strong></p>" if self.title else ""
        return title + html_table(cells, {html(word) for word in self.words})

    def latex(self, legend: str = "") -> str:
        r"""Return a `tabular` of the package booktabs, with a comment for its title and rows of small print below.

        The marks have no width: digits stay below digits.
        """
        kinds = "".join("l" if cell.text in self.words else "r" for cell in self.rows[0])
        header, *rows = [_latex_row(row) for row in self.rows]
        widths = [max(len(row[place].text) for row in self.rows) + 2 for place in range(len(kinds))]
        room = max(_LEAST_LEGEND, round(_LEGEND_WIDTH * sum(widths)))
        text = printable(legend).replace(" ≤ ", _AT_MOST)
        ways = [textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) for width in range(9, room)]
        # The fewest lines, of lengths as equal as can be.
        wrapped = min(ways, key=lambda lines: (len(lines), max(map(len, lines), default=0)))
        small = (rf"\multicolumn{{{len(kinds)}}}{{l}}{{\footnotesize {latex(line)}}} \\" for line in wrapped)
        title = latex_comments([self.title] if self.title else [])
        lines = [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", header, r"\midrule", *rows, r"\bottomrule", *small]
        return "\n".join([*title, *lines, r"\end{tabular}"])


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


def _latex_row(row: Sequence[Cell]) -> str:
    marks = (rf"\rlap{{{latex(cell.mark)}}}" if cell.mark else "" for cell in row)
    cells = [_strong(r"\textbf{{{}}}", latex(cell.text), cell) + mark for cell, mark in zip(row, marks, strict=True)]
    line = " & ".join(cells) + r" \\"
    # Behind the end of a row, or a rule, these letters begin its options.
    return f"{{}}{line}" if line.startswith(("[", "*")) else line


def _strong(pattern: str, text: str, cell: Cell) -> str:
    return pattern.format(text) if cell.strong else text
