"""Pictures of an images file in figures; only the drawn rows are read."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound_study.data.contracts import read_row_groups
from rankbound_study.data.images import read_faces
from rankbound_study.figures import style


def pixels_of(images: Path, rows: npt.NDArray[Any]) -> dict[int, npt.NDArray[np.uint8]]:
    """Read the pixels `(height, width, 3)` of these rows of an images file, by row."""
    shape = read_faces(images).shape
    wanted, found, start = set(rows.tolist()), {}, 0
    for table in read_row_groups(images, "images", ["pixels"]):
        column = table.column("pixels")
        for row in sorted(wanted & set(range(start, start + len(column)))):
            flat = np.frombuffer(column[row - start].as_py(), np.uint8)
            found[row] = flat.reshape(shape).transpose(1, 2, 0)
        start += len(column)
    return found


def pair_grid(rows: int, across: int, title: str, *, lines: int, left: float = 0.0) -> tuple[Any, list[list[Any]]]:
    """Create a figure with square panels for pairs of pictures, `2 * across` in each row.

    Below every picture is room for `lines` lines of text; on the left, `left` inches beside the margin are free.
    """
    from matplotlib.figure import Figure

    width = style.PAGE_WIDTH
    side = (width - 2 * style.MARGIN - left - across * _INSIDE - (across - 1) * _BETWEEN) / (2 * across)
    below = 0.12 + _LINE * lines
    height = _TITLE + rows * (side + below)
    figure = Figure(figsize=(width, height))
    panels = []
    for row in range(rows):
        bottom = height - _TITLE - row * (side + below) - side
        starts = [
            style.MARGIN + left + pair * (2 * side + _INSIDE + _BETWEEN) + second * (side + _INSIDE)
            for pair in range(across)
            for second in range(2)
        ]
        panels.append([figure.add_axes((x / width, bottom / height, side / width, side / height)) for x in starts])
        for panel in panels[-1]:
            panel.set_axis_off()
    figure.suptitle(title, y=1 - 0.04 / height, va="top")
    return figure, panels


_TITLE, _LINE, _INSIDE, _BETWEEN = 0.32, 0.15, 0.06, 0.28
"""Inches: the height of the title and of a line of text, and the gaps inside a pair and between pairs."""


def picture(panel: Any, pixels: npt.NDArray[Any], text: str, **options: Any) -> Any:
    """Draw one picture into a panel, pixel by pixel, with a text below it."""
    panel.set_axis_off()
    panel.text(0.5, -0.05, text, transform=panel.transAxes, ha="center", va="top", fontsize=8, color=style.INK)
    # Without resampling, the file holds the picture's own pixels.
    return panel.imshow(pixels, interpolation="none", **options)
