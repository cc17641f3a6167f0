"""A table's files: CSV for programs, Markdown and LaTeX for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rankbound_study.report import render_tables
from rankbound_study.report.blocks import TableBlock
from rankbound_study.report.output import write_json, write_text
from rankbound_study.results.specs import reading


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


def texts_of(
    heading: str, blocks: Sequence[TableBlock], comment: str = "", *, titled: bool = True, dash: str = "--"
) -> TableTexts:
    """Return Markdown below a heading and LaTeX below a comment; `titled` and `dash` as in `render_tables`."""
    return TableTexts(
        render_tables.markdown(heading, blocks, titled=titled), render_tables.latex(comment, blocks, dash=dash)
    )


def plain_texts(block: TableBlock) -> TableTexts:
    """Return the files of one table below its name (and, in Markdown, its caption)."""
    return texts_of(f"{block.name}. {block.caption}", [block], block.name, titled=False)


def read_table(path: Path, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Read a table's CSV file back; DataError if it is damaged."""
    with reading(path):
        return pl.read_csv(path, schema=columns)
