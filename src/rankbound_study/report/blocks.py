"""What the report is made of: sections of tables, figures and findings, which the renderers give a shape."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rankbound_study.figures import FIGURES, title
from rankbound_study.report.findings import Finding


@dataclass(frozen=True)
class Cell:
    """A table cell: its text, a smaller second text (the printed score), and how it is set."""

    text: str
    note: str = ""
    strong: bool = False
    emphasis: bool = False

    @property
    def inline_note(self) -> str:
        """The second text in the size of the first: a margin as it is, a printed score in brackets."""
        return self.note if self.note.startswith("±") else f"({self.note})"


@dataclass(frozen=True)
class TableBlock:
    """A table: `labels` leading columns of text, then numbers; a thin rule stands above each row of `rules`.

    Columns of `prose` hold sentences, whose second text stands below them.
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
        """Whether any cell has a second text."""
        return any(cell.note for row in self.rows for cell in row)


@dataclass(frozen=True)
class FigureBlock:
    """A figure by its file name (without suffix) in the figures folder."""

    name: str
    title: str
    caption: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph behind a word that tells what it is about."""

    title: str
    text: str


@dataclass(frozen=True)
class Section:
    """A section: a title, an opening paragraph (may be empty), and its blocks, set in one or two columns."""

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
    sections: tuple[Section, ...] = field(default=())


def plain_rows(rows: Iterable[Sequence[str]]) -> tuple[tuple[Cell, ...], ...]:
    """Return rows of cells from rows of texts."""
    return tuple(tuple(map(Cell, row)) for row in rows)


def changes(keys: Sequence[object]) -> frozenset[int]:
    """Return the indices of the rows whose key differs from that of the row above."""
    return frozenset(index for index, (above, key) in enumerate(pairwise(keys), start=1) if key != above)


def typeset(text: str) -> str:
    """A text whose lines do not break before a percent sign or beside a sign of comparison."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%").replace(" ≥ ", "\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}")


def figure_block(name: str, *, synthetic: bool) -> FigureBlock:
    """A figure with its caption, which says so where it is of synthetic data."""
    spec = FIGURES[name]
    label = "Synthetic data. " if synthetic and (spec.needs_runs or spec.needs) else ""
    return FigureBlock(name, title(name), label + spec.caption)
