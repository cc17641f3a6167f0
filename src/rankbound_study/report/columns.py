"""Tables for people as columns: each has a title, the columns of the data that a cell shows, and how it writes them.

A `Layout` makes a `TableBlock` of a table's rows, from which all forms are rendered. Most stand in the files of prose,
below their captions (`Layout.of`). Numbers have a true minus, and a dash where there is none.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import polars as pl

from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.style import bounding_title
from rankbound_study.results import study_files
from rankbound_study.templates import table_below, titled

DASH = "–"

Row = Mapping[str, Any]


def signed(value: float | None) -> str:
    """Return a signed difference to four decimals, or a dash for None."""
    return DASH if value is None else with_minus(study_files.signed(value))


def four(value: float | None) -> str:
    """Return a score to four decimals, or a dash for None."""
    return DASH if value is None else study_files.score(value)


def fixed(digits: int) -> Callable[[float], str]:
    """Return a format with a number of decimals."""
    return lambda value: with_minus(f"{value:.{digits}f}")


def between(low: float | None, high: float | None) -> str:
    """Return an interval of differences."""
    return f"{signed(low)} to {signed(high)}"


def with_minus(text: str) -> str:
    """Replace every hyphen by a minus sign."""
    return text.replace("-", "−")


def with_minus_signs(sentence: str) -> str:
    """Replace the hyphens of negative numbers in a sentence by minus signs."""
    return re.sub(r"(?<![\w.^])-(?=\d)", "−", sentence)


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


def with_margin(
    value: float, low: float, high: float, mark: str = "", *, strong: bool = False, emphasis: bool = False
) -> Cell:
    """Return a difference with half of its interval in small type."""
    return Cell(signed(value), f"±{(high - low) / 2:.4f}{mark}", strong=strong, emphasis=emphasis)


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
        names: the columns of the data whose values a cell shows; the title if empty, the whole row if None.
        write: makes the cell of these values. If one of them is null, the cell is a dash.
        null: `write` is also called with nulls.
    """

    title: str
    names: str | tuple[str, ...] | None = ()
    write: Callable[..., str | Cell] = str
    null: bool = False

    def cell(self, row: Row) -> Cell:
        """Return the cell of a row."""
        names = (self.names,) if isinstance(self.names, str) else self.names or (self.title,)
        values: list[Any] = [row] if self.names is None else [row[name] for name in names]
        if not self.null and any(value is None for value in values):
            return Cell(DASH)
        written = self.write(*values)
        return written if isinstance(written, Cell) else Cell(written)


DATA_SET = Column("data set", ("dataset", "nsr"), lambda dataset, nsr: DataSet(dataset, nsr).label, null=True)

Format = Callable[..., str | Cell] | Column
FORMATS: Mapping[str, Format] = {
    "data_set": DATA_SET,
    "bounding": bounding_title,
    "signed": signed,
    "four": four,
    "between": between,
    "minus": with_minus_signs,
    "g": "{:g}".format,
    **{f"fixed{digits}": fixed(digits) for digits in (0, 2, 3, 4)},
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
        which columns of the data they show: `NAME`, `FORMAT(NAME, NAME)`, or nothing for that of the title. A format is
        one of `FORMATS` or of `formats`; one that is a `Column` knows its columns: `FORMAT()`. Below the table stand
        `Sortable.` and `Ruled by NAME, NAME.`
        """
        name, caption = titled(file, piece, **facts)
        table, below = table_below(file, piece)
        columns = []
        for title, _, shown in table:
            write, names = re.findall(r"(?:(\w+)\()?([^()]*)", shown)[0]
            found = {**FORMATS, **formats, "": str}[write]
            shows = tuple(name.strip() for name in names.split(",")) if names else ()
            columns.append(
                replace(found, title=title, names=shows or found.names)
                if isinstance(found, Column)
                else Column(title, shows, found)
            )
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

    def __call__(self, table: pl.DataFrame, **other: Any) -> TableBlock:
        """Return the block of a table's rows; `other` replaces fields of the layout."""
        return (replace(self, **other) if other else self).of_rows(table.to_dicts())

    def of_texts(self, rows: Iterable[Sequence[str]]) -> TableBlock:
        """Return the block of rows of texts, one for each column."""
        titles = [column.title for column in self.columns]
        return self.of_rows([dict(zip(titles, row, strict=True)) for row in rows])

    def of_rows(self, rows: Iterable[Row]) -> TableBlock:
        """Return the block of rows."""
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
