"""Render tables as LaTeX."""

from collections.abc import Iterable, Iterator

from rankbound_study.report.blocks import Cell, TableBlock

_PROSE_WIDTHS = (0.35, 0.4)
"""Widths of the columns of prose, from left to right, as shares of the line."""

_SPECIAL = {
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


def tables(comment: str, blocks: Iterable[TableBlock], *, dash: str = "--") -> str:
    r"""Return tables in the style of `booktabs`, for `\input`; a block with prose becomes a `longtable`.

    Args:
        comment: the first line, as a comment.
        blocks: the tables.
        dash: text of a cell that is only a dash.
    """
    lines = [line for block in blocks for line in _table(block, dash)]
    return "\n".join([f"% {comment}", *lines]) + "\n"


def escaped(text: str) -> str:
    """Escape the characters that LaTeX reads as commands or does not know."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def _table(block: TableBlock, dash: str) -> Iterator[str]:
    environment = "longtable" if block.prose else "tabular"
    yield rf"\begin{{{environment}}}{{{''.join(_columns(block))}}}"
    yield r"\toprule"
    yield " &".join(f" {escaped(title)}".rstrip() for title in block.header).lstrip() + r" \\"
    yield r"\midrule"
    if block.prose:
        yield r"\endhead"
    for index, row in enumerate(block.rows):
        if index and index in block.rules:
            yield r"\midrule"
        yield " & ".join(_cell(cell, column >= block.labels, dash) for column, cell in enumerate(row)) + r" \\"
    yield r"\bottomrule"
    yield rf"\end{{{environment}}}"


def _columns(block: TableBlock) -> Iterator[str]:
    widths = iter(_PROSE_WIDTHS)
    for column in range(len(block.header)):
        if column in block.prose:
            yield rf"p{{{next(widths)}\linewidth}}"
        else:
            yield "l" if column < block.labels else "r"


def _cell(cell: Cell, is_number: bool, dash: str) -> str:
    text = dash if cell.text == "–" else escaped(cell.text)
    if cell.strong:
        text = rf"\textbf{{{text}}}"
    elif cell.emphasis and is_number:
        text = rf"\textit{{{text}}}"
    return rf"{text} {{\footnotesize {escaped(cell.inline_note)}}}" if cell.note else text
