"""The content of the report: sections of tables, figures, paragraphs and findings, free of any output format."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True)
class Cell:
    """A table cell: a text, a note in smaller type (such as the printed score), and bold or italic type."""

    text: str
    note: str = ""
    strong: bool = False
    emphasis: bool = False

    @property
    def inline_note(self) -> str:
        """The note for formats without smaller type: a margin as it is, anything else in brackets."""
        return self.note if self.note.startswith("±") else f"({self.note})"


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
    sections: tuple[ReportSection, ...] = field(default=())


def plain_rows(rows: Iterable[Sequence[str]]) -> tuple[tuple[Cell, ...], ...]:
    """Return rows of cells from rows of texts."""
    return tuple(tuple(map(Cell, row)) for row in rows)


def changes(keys: Sequence[object]) -> frozenset[int]:
    """Return the indices of the rows whose key differs from that of the row above."""
    return frozenset(index for index, (above, key) in enumerate(pairwise(keys), start=1) if key != above)


def typeset(text: str) -> str:
    """Replace spaces before a percent sign and around ≥ by no-break spaces."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%").replace(" ≥ ", "\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}")
