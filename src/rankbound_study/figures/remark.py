"""A text instead of a figure that cannot be drawn."""

import textwrap
from collections.abc import Iterator
from typing import Any

from rankbound_study.figures import style

_WIDTH = 96
"""Characters that fit into a line."""

_COMMAND = {"family": "DejaVu Sans Mono", "color": style.INK}
_WORDS = {"style": "italic", "color": style.MUTED}


def remark(text: str) -> Any:
    """Create a figure with a text; a command, in backticks, has a line of its own."""
    lines = [line for paragraph in text.splitlines() for line in _lines(paragraph)]
    figure, axes = style.panels(1, 1, height=0.4 + 0.18 * len(lines))
    axes[0, 0].set_axis_off()
    for place, (words, is_command) in enumerate(lines):
        look = _COMMAND if is_command else _WORDS
        height = 1 - (place + 0.5) / len(lines)
        axes[0, 0].text(0.5, height, words, transform=axes[0, 0].transAxes, ha="center", va="center", **look)
    return figure


def _lines(paragraph: str) -> Iterator[tuple[str, bool]]:
    """Yield lines that fit on a page, each with a flag for commands."""
    for place, piece in enumerate(paragraph.split("`")):
        is_command = place % 2 == 1
        for words in [piece] if is_command else textwrap.wrap(piece.strip(), _WIDTH):
            yield words, is_command
