"""A table's files: CSV for programs, Markdown and LaTeX for people."""

from pathlib import Path
from typing import NamedTuple

import polars as pl

from rankbound_study.report import render_latex, render_markdown
from rankbound_study.report.blocks import TableBlock
from rankbound_study.report.output import write_text


class TableTexts(NamedTuple):
    """The content of a table's Markdown and LaTeX files."""

    markdown: str
    latex: str


def plain_texts(block: TableBlock) -> TableTexts:
    """Return the files of one table below its name (and, in Markdown, its caption)."""
    return TableTexts(
        render_markdown.tables(f"{block.name}. {block.caption}", [block]), render_latex.tables(block.name, [block])
    )


def write_table(folder: Path, name: str, table: pl.DataFrame, texts: TableTexts) -> None:
    """Write NAME.md, NAME.tex and, last, NAME.csv."""
    write_text(folder / f"{name}.md", texts.markdown)
    write_text(folder / f"{name}.tex", texts.latex)
    write_csv(folder, name, table)


def write_csv(folder: Path, name: str, table: pl.DataFrame) -> None:
    """Write NAME.csv, numbers to six decimals."""
    write_text(folder / f"{name}.csv", table.write_csv(float_precision=6))
