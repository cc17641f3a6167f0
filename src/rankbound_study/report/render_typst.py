"""Render the report as a PDF with Typst from PyPI: offline, with its own fonts; equal content gives equal bytes."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rankbound.io.atomic import atomic_path
from rankbound_study.figures import figure_file
from rankbound_study.report.blocks import Document, FigureBlock, Paragraph, TableBlock, typeset
from rankbound_study.report.output import template
from rankbound_study.results.specs import reading


def write(document: Document, results: Path, path: Path) -> None:
    """Write the PDF; figures are read from the results folder, as PDF or, failing that, SVG.

    The file's date is the start of Unix time, so its bytes depend only on the content.
    """
    import typst

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "main.typ").write_text(template("report.typ"), "utf-8")
        content = json.dumps(_content(document, results, folder), ensure_ascii=False)
        (folder / "content.json").write_text(typeset(content), "utf-8")
        with reading(results):
            compiled = typst.compile(folder / "main.typ", root=folder, ignore_system_fonts=True, timestamp=0)
    with atomic_path(path) as temporary:
        temporary.write_bytes(compiled)


def _content(document: Document, results: Path, folder: Path) -> dict[str, Any]:
    return {
        "title": document.title,
        "subtitle": document.subtitle,
        "synthetic": document.synthetic,
        "sections": [
            {
                "title": section.title,
                "text": section.text,
                "findings": [vars(each) for each in section.findings],
                "columns": section.columns,
                "blocks": [_block(block, results, folder) for block in section.blocks],
            }
            for section in document.sections
        ],
    }


def _block(block: TableBlock | FigureBlock | Paragraph, results: Path, folder: Path) -> dict[str, Any]:
    if isinstance(block, Paragraph):
        return {"kind": "paragraph", "title": block.title, "text": block.text}
    if isinstance(block, TableBlock):
        return {
            "kind": "table",
            "name": block.name,
            "caption": block.caption,
            "header": block.header,
            "labels": block.labels,
            "room": _room(block),
            "rules": sorted(block.rules),
            "prose": sorted(block.prose),
            "widths": _widths(block),
            "rows": [[vars(cell) for cell in row] for row in block.rows],
        }
    source = next(path for suffix in (".pdf", ".svg") if (path := figure_file(results, block.name, suffix)).exists())
    shutil.copyfile(source, folder / source.name)
    return {"kind": "figure", "title": block.title, "caption": block.caption, "file": source.name}


def _room(block: TableBlock) -> list[int]:
    """Return the number of characters that every column keeps for notes beside its numbers."""
    numbers = [column >= block.labels and column not in block.prose for column in range(len(block.header))]
    return [
        max((len(row[column].note) for row in block.rows), default=0) if has_numbers else 0
        for column, has_numbers in enumerate(numbers)
    ]


def _widths(block: TableBlock) -> list[float]:
    """Return the columns' relative widths: shares of the free width for prose, 0 for a column as wide as its text."""
    lengths = {
        column: max(1.0, sum(len(row[column].text) for row in block.rows) / max(1, len(block.rows)))
        for column in block.prose
    }
    least = min(lengths.values(), default=1.0)
    return [min(_WIDEST, lengths[column] / least) if column in lengths else 0 for column in range(len(block.header))]


_WIDEST = 1.8
"""Largest width of a column of prose, relative to the one with the shortest texts."""
