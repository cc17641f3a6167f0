"""The report's content, free of any output format: findings, paragraphs and figures in sections, and tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rankbound_study.report.columns import Row, TableBlock
from rankbound_study.templates import text


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
    """Return a finding, whose headline is in bold in the piece, with a table of these rows (title -> text)."""
    headline, detail = _titled(file, name, facts)
    return Finding(headline, detail, tuple(rows[0]) if rows else (), tuple(tuple(row.values()) for row in rows))


def paragraph(file: str, name: str, /, **facts: Any) -> Paragraph:
    """Return a paragraph, whose title is in bold in the piece."""
    title, rest = _titled(file, name, facts)
    return Paragraph(title.removesuffix("."), rest)


def _titled(file: str, name: str, facts: dict[str, Any]) -> tuple[str, str]:
    title, _, rest = text(file, name, **facts).removeprefix("**").partition("**")
    return title.strip(), rest.strip()
