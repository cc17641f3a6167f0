"""A table's files: CSV for programs, Markdown and LaTeX for people; the same content gives the same bytes."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rankbound.io.atomic import atomic_path
from rankbound_study.report.columns import DASH, Cell, TableBlock


class TableTexts(NamedTuple):
    """The content of a table's Markdown and LaTeX files."""

    markdown: str
    latex: str


@dataclass(frozen=True)
class TableFiles:
    """The content of a table's files.

    Attributes:
        table: the rows of its CSV file.
        texts: its Markdown and LaTeX.
        beside: further tables (CSV) and nested numbers (JSON), by the end of their names: `_summary.json`.
        metrics: the nested means that DVC compares, if the table has them.
        digits: decimals of numbers in CSV files; None for as many as they have.
    """

    table: pl.DataFrame
    texts: TableTexts | None = None
    beside: Mapping[str, pl.DataFrame | dict[str, Any]] = field(default_factory=dict)
    metrics: Mapping[str, Any] | None = None
    digits: int | None = 6

    def write(self, folder: Path, name: str) -> None:
        """Write NAME.md, NAME.tex, the files beside them and, last, NAME.csv."""
        for suffix, text in zip((".md", ".tex"), self.texts or (), strict=False):
            write_text(folder / f"{name}{suffix}", text)
        for suffix, content in (*self.beside.items(), (".csv", self.table)):
            if isinstance(content, pl.DataFrame):
                write_text(folder / f"{name}{suffix}", content.write_csv(float_precision=self.digits))
            else:
                write_json(folder / f"{name}{suffix}", content)


def write_text(path: Path, text: str) -> None:
    """Write `text` in UTF-8 with plain newlines."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.encode())


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON, with its keys in their order."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def plain_texts(block: TableBlock) -> TableTexts:
    """Return the files of one table below its name (and, in Markdown, its caption)."""
    return TableTexts(markdown(f"{block.name}. {block.caption}", [block]), latex(block.name, [block]))


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

    def cells(self, block: TableBlock, row: Iterable[Cell]) -> Iterator[str]:
        """Yield the cells of a row."""
        for column, cell in enumerate(row):
            text = self.escape(cell.text)
            if cell.strong:
                text = self.strong.format(text)
            elif cell.emphasis and column >= block.labels:
                text = self.emphasis.format(text)
            yield self.note.format(text, self.escape(cell.inline_note)) if cell.note else text


_MARKDOWN = _Marks(lambda text: text.replace("|", r"\|"), "**{}**", "*{}*", "{} {}")
_LATEX = _Marks(escaped, r"\textbf{{{}}}", r"\textit{{{}}}", r"{} {{\footnotesize {}}}")


def markdown(heading: str, blocks: Iterable[TableBlock], *, titled: bool = False) -> str:
    """Return pipe tables below a heading; if `titled`, each has its name above it."""
    lines = [heading]
    for block in blocks:
        lines += ["", f"{block.name}:"] * titled
        lines += ["", "|" + "".join(f"{f' {title}'.rstrip()} |" for title in block.header)]
        lines.append("|" + "---|" * block.labels + "---:|" * (len(block.header) - block.labels))
        lines += [f"| {' | '.join(_MARKDOWN.cells(block, row))} |" for row in block.rows]
    return "\n".join(lines) + "\n"


def latex(comment: str, blocks: Iterable[TableBlock], *, dash: str = "--") -> str:
    r"""Return tables in the style of `booktabs`, for `\input`; a block with prose becomes a `longtable`.

    Args:
        comment: the first line, as a comment.
        blocks: the tables.
        dash: text of a cell that is only a dash.
    """
    marks = _LATEX._replace(escape=lambda text: dash if text == DASH else escaped(text))
    lines = [f"% {comment}"]
    for block in blocks:
        environment = "longtable" if block.prose else "tabular"
        titles = " &".join(f" {escaped(title)}".rstrip() for title in block.header).lstrip()
        widths = iter(_PROSE_WIDTHS)
        kinds = (
            rf"p{{{next(widths)}\linewidth}}" if column in block.prose else "l" if column < block.labels else "r"
            for column in range(len(block.header))
        )
        lines += [rf"\begin{{{environment}}}{{{''.join(kinds)}}}", r"\toprule", rf"{titles} \\", r"\midrule"]
        lines += [r"\endhead"] * bool(block.prose)
        for index, row in enumerate(block.rows):
            lines += [r"\midrule"] * bool(index and index in block.rules)
            lines.append(" & ".join(marks.cells(block, row)) + r" \\")
        lines += [r"\bottomrule", rf"\end{{{environment}}}"]
    return "\n".join(lines) + "\n"
