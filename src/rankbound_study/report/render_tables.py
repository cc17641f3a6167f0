"""Render tables as Markdown and LaTeX: one walk over the cells, with a table of marks for each form."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from rankbound_study.report.blocks import Cell, TableBlock

_PROSE_WIDTHS = (0.35, 0.4)
"""Widths of the columns of prose in LaTeX, from left to right, as shares of the line."""

_SPECIAL = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "\N{NO-BREAK SPACE}": "~",
        "–": "--",
        "…": r"\ldots{}",
        "<": "$<$",
        ">": "$>$",
        "−": "$-$",
        "±": r"$\pm$",
        "²": "$^2$",
        "≥": r"$\ge$",
        "≤": r"$\le$",
        "×": r"$\times$",
        "▲": r"$\uparrow$",
        "▼": r"$\downarrow$",
        "≈": r"$\approx$",
        "†": r"\dag{}",
    }
)


def escaped(text: str) -> str:
    """Escape the characters that LaTeX reads as commands or does not know."""
    return text.translate(_SPECIAL)


class _Marks(NamedTuple):
    """How a form escapes a text, and sets bold and italic type and notes."""

    escape: Callable[[str], str]
    strong: str
    emphasis: str
    note: str


_MARKDOWN = _Marks(lambda text: text.replace("|", r"\|"), "**{}**", "*{}*", "{} {}")
_LATEX = _Marks(escaped, r"\textbf{{{}}}", r"\textit{{{}}}", r"{} {{\footnotesize {}}}")


def markdown(heading: str, blocks: Iterable[TableBlock], *, titled: bool = False) -> str:
    """Return pipe tables below a heading; if `titled`, each has its name above it."""
    lines = [heading]
    for block in blocks:
        lines += ["", f"{block.name}:"] * titled
        lines += ["", "|" + "".join(f"{f' {title}'.rstrip()} |" for title in block.header)]
        lines.append("|" + "---|" * block.labels + "---:|" * (len(block.header) - block.labels))
        lines += [f"| {' | '.join(_cells(block, row, _MARKDOWN))} |" for row in block.rows]
    return "\n".join(lines) + "\n"


def latex(comment: str, blocks: Iterable[TableBlock], *, dash: str = "--") -> str:
    r"""Return tables in the style of `booktabs`, for `\input`; a block with prose becomes a `longtable`.

    Args:
        comment: the first line, as a comment.
        blocks: the tables.
        dash: text of a cell that is only a dash.
    """
    marks = _LATEX._replace(escape=lambda text: dash if text == "–" else escaped(text))
    lines = [f"% {comment}"]
    for block in blocks:
        environment = "longtable" if block.prose else "tabular"
        titles = " &".join(f" {escaped(title)}".rstrip() for title in block.header).lstrip()
        lines += [rf"\begin{{{environment}}}{{{''.join(_kinds(block))}}}", r"\toprule", rf"{titles} \\", r"\midrule"]
        lines += [r"\endhead"] * bool(block.prose)
        for index, row in enumerate(block.rows):
            lines += [r"\midrule"] * bool(index and index in block.rules)
            lines.append(" & ".join(_cells(block, row, marks)) + r" \\")
        lines += [r"\bottomrule", rf"\end{{{environment}}}"]
    return "\n".join(lines) + "\n"


def _cells(block: TableBlock, row: Iterable[Cell], marks: _Marks) -> Iterator[str]:
    for column, cell in enumerate(row):
        text = marks.escape(cell.text)
        if cell.strong:
            text = marks.strong.format(text)
        elif cell.emphasis and column >= block.labels:
            text = marks.emphasis.format(text)
        yield marks.note.format(text, marks.escape(cell.inline_note)) if cell.note else text


def _kinds(block: TableBlock) -> Iterator[str]:
    widths = iter(_PROSE_WIDTHS)
    for column in range(len(block.header)):
        if column in block.prose:
            yield rf"p{{{next(widths)}\linewidth}}"
        else:
            yield "l" if column < block.labels else "r"
