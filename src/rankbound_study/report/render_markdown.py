"""Render tables as Markdown."""

from collections.abc import Iterable, Iterator

from rankbound_study.report.blocks import Cell, TableBlock


def tables(heading: str, blocks: Iterable[TableBlock], *, titled: bool = False) -> str:
    """Return pipe tables below a heading; if `titled`, each has its name above it."""
    lines = [heading]
    for block in blocks:
        lines += ["", f"{block.name}:"] * titled + ["", *_table(block)]
    return "\n".join(lines) + "\n"


def _table(block: TableBlock) -> Iterator[str]:
    yield "|" + "".join(f"{f' {title}'.rstrip()} |" for title in block.header)
    yield "|" + "---|" * block.labels + "---:|" * (len(block.header) - block.labels)
    for row in block.rows:
        yield f"| {' | '.join(_cell(cell, column >= block.labels) for column, cell in enumerate(row))} |"


def _cell(cell: Cell, is_number: bool) -> str:
    text = cell.text.replace("|", r"\|")
    if cell.strong:
        text = f"**{text}**"
    elif cell.emphasis and is_number:
        text = f"*{text}*"
    return f"{text} {cell.inline_note}" if cell.note else text
