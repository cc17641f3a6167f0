"""What reports consist of: findings, sections, and tables as columns, with the files of a table.

A `Layout` makes a `TableBlock` of a table's rows, from which all forms for people are rendered; programs have CSV. The
same content gives the same bytes. Most layouts stand in the files of prose, below their captions (`Layout.of`).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from rankbound.io.atomic import write_text
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.numbers import DASH, between, fixed, four, signed, with_minus
from rankbound_study.templates import table_below, titled

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """A table cell: a text, a note in smaller type (such as the printed score), and bold or italic type."""

    text: str
    note: str = ""
    strong: bool = False
    emphasis: bool = False


def with_margin(value: float, low: float, high: float, mark: str = "", *, strong: bool = False) -> Cell:
    """Return a difference with half of its interval in small type."""
    return Cell(signed(value), f"±{(high - low) / 2:.4f}{mark}", strong=strong)


@dataclass(frozen=True)
class TableBlock:
    """A table: `labels` leading columns of text, then numbers.

    A thin rule stands above each row in `rules`. Columns in `prose` hold sentences, with their notes below.
    """

    name: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    labels: int
    rules: frozenset[int] = frozenset()
    sortable: bool = False
    prose: frozenset[int] = frozenset()

    @property
    def notes(self) -> bool:
        """True if any cell has a note."""
        return any(cell.note for row in self.rows for cell in row)


@dataclass(frozen=True)
class Column:
    """A column for people.

    Attributes:
        title: its heading.
        names: the columns of the data whose values a cell shows; that of the title if empty, the whole row if None.
        write: makes the cell of these values. If one of them is null, the cell is a dash.
        null: `write` is also called with nulls.
    """

    title: str
    names: tuple[str, ...] | None = ()
    write: Callable[..., str | Cell] = str
    null: bool = False

    def cell(self, row: Row) -> Cell:
        """Return the cell of a row."""
        values: list[Any] = [row] if self.names is None else [row[name] for name in self.names or (self.title,)]
        if not self.null and any(value is None for value in values):
            return Cell(DASH)
        written = self.write(*values)
        return written if isinstance(written, Cell) else Cell(written)


Format = Callable[..., str | Cell]
FORMATS: Mapping[str, Format] = {
    "": str,
    "data_set": lambda dataset, nsr: DataSet(dataset, nsr).label,
    "bounding": bounding_title,
    "signed": signed,
    "four": four,
    "between": between,
    "minus": with_minus,
    "g": "{:g}".format,
    **{f"fixed{digits}": fixed(digits) for digits in range(5)},
}
"""The formats that a table in a file of prose may name."""


@dataclass(frozen=True)
class Across:
    """Cells across the values of a column: a row of the layout is then a group of rows of the data.

    Attributes:
        by: the columns whose values a group has in common.
        names: the columns whose values the cells stand below.
        titles: these values with their headings.
        write: makes the cell of a row of the data; where there is none, the cell is a dash.
    """

    by: tuple[str, ...]
    names: tuple[str, ...]
    titles: Mapping[Any, str]
    write: Callable[[Row], Cell]


@dataclass(frozen=True)
class Layout:
    """A table for people: its name, caption and columns, of which the first `labels` are texts.

    A thin rule stands where a column in `rules` changes; columns in `prose` hold sentences.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    labels: int
    rules: tuple[str, ...] = ()
    sortable: bool = False
    prose: frozenset[int] = frozenset()
    across: Across | None = None

    @classmethod
    def of(
        cls,
        file: str,
        piece: str,
        /,
        *,
        formats: Mapping[str, Format] = MappingProxyType({}),
        across: Across | None = None,
        **facts: Any,
    ) -> "Layout":
        """Return the layout of a piece of prose: its name in bold, its caption, and below them a table of columns.

        The line below a title says if the cells are texts (`---`), sentences (`:---`) or numbers (`---:`), the last one
        which columns of the data they show: `NAME`, `FORMAT(NAME, NAME)`, `FORMAT(*)` for the whole row, or nothing for
        that of the title. A format is one of `FORMATS` or of `formats`; `FORMAT?(NAME)` is called with nulls, too.
        Below stand `Sortable.` and `Ruled by NAME, NAME.`
        """
        name, caption = titled(file, piece, **facts)
        table, below = table_below(file, piece, **facts)
        columns = []
        for title, _, shown in table:
            write, null, names = re.findall(r"(?:(\w+)(\??)\()?([^()]*)", shown)[0]
            of = None if names == "*" else tuple(name.strip() for name in names.split(",") if name)
            columns.append(Column(title, of, {**FORMATS, **formats}[write], bool(null)))
        kinds = [kind for _, kind, _ in table]
        ruled = re.search(r"Ruled by ([\w, ]+)\.", below)
        return cls(
            name.removesuffix("."),
            caption,
            tuple(columns),
            labels=next((place for place, kind in enumerate(kinds) if kind.endswith(":")), len(kinds)),
            rules=tuple(ruled[1].split(", ")) if ruled else (),
            sortable="Sortable." in below,
            prose=frozenset(place for place, kind in enumerate(kinds) if kind.startswith(":")),
            across=across,
        )

    def __call__(self, table: pl.DataFrame | Iterable[Row], **other: Any) -> TableBlock:
        """Return the block of a table's rows; `other` replaces fields of the layout."""
        if other:
            return replace(self, **other)(table)
        rows = table.to_dicts() if isinstance(table, pl.DataFrame) else table
        header = [column.title for column in self.columns]
        groups: dict[Any, list[Row]] = {}
        for place, row in enumerate(rows):
            key = place if self.across is None else tuple(row[name] for name in self.across.by)
            groups.setdefault(key, []).append(row)
        cells = [[column.cell(group[0]) for column in self.columns] for group in groups.values()]
        if (across := self.across) is not None:
            header += across.titles.values()
            for line, group in zip(cells, groups.values(), strict=True):
                below = {tuple(row[name] for name in across.names): across.write(row) for row in group}
                keys = (key if isinstance(key, tuple) else (key,) for key in across.titles)
                line += [below.get(key, Cell(DASH)) for key in keys]
        ruled = [[group[0][name] for name in self.rules] for group in groups.values()]
        return TableBlock(
            self.name,
            self.caption,
            tuple(header),
            tuple(map(tuple, cells)),
            self.labels,
            frozenset(place for place, (above, own) in enumerate(pairwise(ruled), start=1) if own != above),
            self.sortable,
            self.prose,
        )

    def of_texts(self, rows: Iterable[Sequence[str]]) -> TableBlock:
        """Return the block of rows of texts, one for each column."""
        titles = [column.title for column in self.columns]
        return self(dict(zip(titles, row, strict=True)) for row in rows)


@dataclass(frozen=True)
class FigureBlock:
    """A figure; `name` is that of its file, without suffix."""

    name: str
    title: str
    caption: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph with a title in bold at its start."""

    title: str
    text: str


@dataclass(frozen=True)
class Finding:
    """A finding: a headline, a sentence of detail, and optionally a small table of the numbers."""

    headline: str
    detail: str
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class ReportSection:
    """A section: a title, an opening paragraph (may be empty), findings, and blocks set in one or two columns."""

    anchor: str
    title: str
    text: str
    blocks: tuple[TableBlock | FigureBlock | Paragraph, ...] = ()
    findings: tuple[Finding, ...] = ()
    columns: int = 1


@dataclass(frozen=True)
class Document:
    """The whole report."""

    title: str
    subtitle: str
    synthetic: bool
    sections: tuple[ReportSection, ...] = ()


def finding(file: str, name: str, rows: Sequence[Row] = (), /, **facts: Any) -> Finding:
    """Return a finding, whose headline is in bold in the piece, with a table of these rows.

    Their columns are those of the table below the piece; without one, rows are texts by the titles of their columns.
    """
    headline, detail = titled(file, name, **facts)
    if rows and table_below(file, name)[0]:
        block = Layout.of(file, name)(rows)
        return Finding(headline, detail, block.header, tuple(tuple(cell.text for cell in row) for row in block.rows))
    return Finding(headline, detail, tuple(rows[0]) if rows else (), tuple(tuple(row.values()) for row in rows))


def paragraph(file: str, name: str, /, **facts: Any) -> Paragraph:
    """Return a paragraph, whose title is in bold in the piece."""
    title, rest = titled(file, name, **facts)
    return Paragraph(title.removesuffix("."), rest)


@dataclass(frozen=True)
class TableFiles:
    """The content of a table's files.

    Attributes:
        table: the rows of its CSV file.
        beside: further files, by the end of their names: texts (`.md`), tables (`_means.csv`) and nested numbers
            (`_summary.json`).
        metrics: the nested means that DVC compares, if the table has them.
        digits: decimals of numbers in CSV files; None for as many as they have.
    """

    table: pl.DataFrame
    beside: Mapping[str, str | pl.DataFrame | dict[str, Any]] = field(default_factory=dict)
    metrics: Mapping[str, Any] | None = None
    digits: int | None = 6

    def write(self, folder: Path, name: str) -> None:
        """Write the files beside NAME.csv and, last, that file."""
        for end, content in (*self.beside.items(), (".csv", self.table)):
            path = folder / f"{name}{end}"
            if isinstance(content, pl.DataFrame):
                write_text(path, content.write_csv(float_precision=self.digits))
            elif isinstance(content, str):
                write_text(path, content)
            else:
                write_json(path, content)


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON, with its keys in their order."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def texts(
    heading: str,
    blocks: Sequence[TableBlock],
    comment: str,
    *,
    titled: bool = False,
    in_latex: Sequence[TableBlock] | None = None,
) -> dict[str, str]:
    r"""Return the content of a table's Markdown and LaTeX files, by the end of their names.

    Markdown has pipe tables below a heading. LaTeX has tables in the style of `booktabs`, for `\input`, below a
    comment; a block with prose becomes a `longtable`.

    Args:
        heading, comment: the first line of each.
        blocks, in_latex: the tables, and those of LaTeX if it has others.
        titled: each table in Markdown has its name above it.
    """
    lines = [heading]
    for block in blocks:
        lines += ["", f"{block.name}:"] * titled
        lines += ["", "|" + "".join(f"{f' {title}'.rstrip()} |" for title in block.header)]
        lines.append("|" + "---|" * block.labels + "---:|" * (len(block.header) - block.labels))
        lines += [f"| {' | '.join(_cells(block, row, *_MARKDOWN))} |" for row in block.rows]
    tex = [f"% {comment}"]
    for block in blocks if in_latex is None else in_latex:
        environment = "longtable" if block.prose else "tabular"
        titles = " &".join(f" {escaped(title)}".rstrip() for title in block.header).lstrip()
        widths = iter(_PROSE_WIDTHS)
        kinds = (
            rf"p{{{next(widths)}\linewidth}}" if column in block.prose else "l" if column < block.labels else "r"
            for column in range(len(block.header))
        )
        tex += [rf"\begin{{{environment}}}{{{''.join(kinds)}}}", r"\toprule", rf"{titles} \\", r"\midrule"]
        tex += [r"\endhead"] * bool(block.prose)
        for index, row in enumerate(block.rows):
            tex += [r"\midrule"] * bool(index and index in block.rules)
            tex.append(" & ".join(_cells(block, row, *_LATEX)) + r" \\")
        tex += [r"\bottomrule", rf"\end{{{environment}}}"]
    return {".md": "\n".join([*lines, ""]), ".tex": "\n".join([*tex, ""])}


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


def _cells(
    block: TableBlock, row: Iterable[Cell], escape: Callable[[str], str], strong: str, emphasis: str, note: str
) -> Iterator[str]:
    """Yield the cells of a row, escaped, in templates of bold and of italic type, and of a text with its note."""
    for column, cell in enumerate(row):
        text = escape(cell.text)
        if cell.strong:
            text = strong.format(text)
        elif cell.emphasis and column >= block.labels:
            text = emphasis.format(text)
        # A margin as it is, anything else in brackets.
        beside = cell.note if cell.note.startswith("±") else f"({cell.note})"
        yield note.format(text, escape(beside)) if cell.note else text


_MARKDOWN = (lambda text: text.replace("|", r"\|"), "**{}**", "*{}*", "{} {}")
_LATEX = (escaped, r"\textbf{{{}}}", r"\textit{{{}}}", r"{} {{\footnotesize {}}}")
