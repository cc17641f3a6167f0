"""The report's content, free of any output format: findings, paragraphs, figures and tables, in sections.

Figures and tables that a results folder has become blocks with what stands in their modules.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankbound_study.figures import figure_file, figure_specs, title
from rankbound_study.report.columns import Layout, Row, TableBlock
from rankbound_study.report.tables import table_specs
from rankbound_study.templates import table_below, titled


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
        block = Layout.of(file, name).of_rows(rows)
        return Finding(headline, detail, block.header, tuple(tuple(cell.text for cell in row) for row in block.rows))
    return Finding(headline, detail, tuple(rows[0]) if rows else (), tuple(tuple(row.values()) for row in rows))


def paragraph(file: str, name: str, /, **facts: Any) -> Paragraph:
    """Return a paragraph, whose title is in bold in the piece."""
    title, rest = titled(file, name, **facts)
    return Paragraph(title.removesuffix("."), rest)


@dataclass(frozen=True)
class Figures:
    """The figures of a report.

    Attributes:
        folder: the results folder that has their files.
        remarks: what the report says of a figure that is not there, by its name. Others are left out.
    """

    folder: Path
    remarks: Mapping[str, str] = field(default_factory=dict)

    def blocks(self, names: Iterable[str], *, synthetic: bool) -> Iterator[FigureBlock | Paragraph]:
        """Yield each figure that is there, and for others a paragraph with caption and remark, if they have one.

        The caption of a figure drawn from synthetic data begins by saying so.
        """
        for name in names:
            spec = figure_specs()[name]
            if figure_file(self.folder, name, ".svg").exists():
                label = "Synthetic data. " if synthetic and spec.needs else ""
                yield FigureBlock(name, title(name), label + spec.caption)
            elif name in self.remarks:
                yield Paragraph(title(name), f"{spec.caption} {self.remarks[name]}")


def figures_named(*prefixes: str) -> list[str]:
    """Return the names of all figures that begin so, in their order."""
    return [name for name in figure_specs() if name.startswith(prefixes)]


def table_blocks(section: str, folder: Path) -> Iterator[TableBlock]:
    """Yield what a section shows of the tables in a folder."""
    for name, spec in table_specs().items():
        if spec.section == section and (folder / f"{name}.csv").exists():
            yield from spec.shown(name, folder)
