"""Descriptions of a drawn figure's parts: series, bars and points with intervals, with their panel and values.

A part is described if its artist has a label; a label that begins with an underscore is not in a legend. A panel is
described by its title, or that of its column, and by its label, which `figures.style.row_titles` sets.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

_AUTOMATIC = re.compile(r"_(child|container|nolegend|hidden)\w*")
"""Labels that matplotlib sets itself."""

_MATHEMATICS = {"$": "", "\\cdot ": "·", "\\,": " ", "^2": "²"}


@dataclass(frozen=True)
class Panel:
    """The axes of a panel, its title, and the quantities of its two axes."""

    axes: Any
    title: str
    x: str
    y: str


@dataclass(frozen=True)
class DrawnPart:
    """An artist and its description, or those of its marks, in drawing order."""

    artist: Any
    text: str
    marks: tuple[str, ...] = ()
    is_curve: bool = False
    """All its points are positions on the panel's two axes."""


def panels(figure: Any) -> list[Panel]:
    """Return the panels of a figure; titles and axis labels at its edges apply to all panels of a column or row."""
    return [_panel(axes, figure) for axes in figure.axes]


def parts(panel: Panel) -> Iterator[DrawnPart]:
    """Yield the described parts of a panel; points come after the line that joins them."""
    from matplotlib.container import BarContainer, ErrorbarContainer

    inside: set[Any] = set()
    for container in panel.axes.containers:
        inside.update(_artists_of(container))
        if isinstance(container, ErrorbarContainer):
            yield from _points_with_intervals(container, panel)
        elif isinstance(container, BarContainer):
            yield from _bars(container, panel)
    for artist in (*panel.axes.lines, *panel.axes.collections, *panel.axes.patches):
        label = _label(artist)
        if label and artist not in inside:
            yield _whole(artist, _join(label, panel.title), panel)


def plain(text: str) -> str:
    """Return a label on one line, without mathematical markup."""
    for markup, written in _MATHEMATICS.items():
        text = text.replace(markup, written)
    return " ".join(text.split())


def _panel(axes: Any, figure: Any) -> Panel:
    own = axes.get_subplotspec()
    above, below, left = [axes], [axes], [axes]
    if own is not None:
        grid = [(other, spec) for other in figure.axes if (spec := other.get_subplotspec()) is not None]
        column = sorted(
            ((spec.rowspan.start, other) for other, spec in grid if spec.colspan == own.colspan), key=_first
        )
        row = sorted(((spec.colspan.start, other) for other, spec in grid if spec.rowspan == own.rowspan), key=_first)
        above = [other for place, other in reversed(column) if place <= own.rowspan.start]
        below = [other for place, other in column if place >= own.rowspan.start]
        left = [other for place, other in reversed(row) if place <= own.colspan.start]
    title = _first_text(other.get_title(side) for other in above for side in ("left", "center"))
    return Panel(
        axes,
        _join(title, plain(axes.get_label())),
        _first_text(other.get_xlabel() for other in below),
        # Without a vertical label, the title names the quantity.
        _first_text([*(other.get_ylabel() for other in left), figure.get_supylabel(), title]),
    )


def _first(pair: tuple[int, Any]) -> int:
    return pair[0]


def _first_text(texts: Iterable[str]) -> str:
    return next((plain(text) for text in texts if text), "")


def _label(artist: Any) -> str:
    label = str(artist.get_label() or "")
    return "" if _AUTOMATIC.fullmatch(label) else plain(label.removeprefix("_"))


def _join(*texts: str) -> str:
    return ", ".join(text for text in texts if text)


def _artists_of(container: Any) -> Iterator[Any]:
    for item in container:
        yield from item if isinstance(item, tuple) else [item]


def _whole(artist: Any, text: str, panel: Panel) -> DrawnPart:
    from matplotlib.lines import Line2D

    if not isinstance(artist, Line2D) or artist.get_transform() is not panel.axes.transData:
        return DrawnPart(artist, text)
    x, y = (np.asarray(values, dtype=float) for values in artist.get_data(orig=False))
    if len(x) < 3:
        return DrawnPart(artist, text)
    if np.isfinite(x).all() and np.isfinite(y).all() and (np.diff(x) >= 0).all():
        # A summary of the line, for readers who cannot follow it with a pointer.
        ends = ["{} from {} to {}".format(name, *_numbers(*of[[0, -1]])) for name, of in ((panel.y, y), (panel.x, x))]
        text += f"\n{_join(*ends)}"
    return DrawnPart(artist, text, is_curve=True)


def _points_with_intervals(container: Any, panel: Panel) -> Iterator[DrawnPart]:
    """Describe the joining line by its label, and every point and interval by its values."""
    name = _join(_label(container), panel.title)
    line, _, bars = container.lines
    if not name or line is None or len(bars) != 1 or not container.has_yerr:
        return
    x, y = (np.asarray(values, dtype=float) for values in line.get_data(orig=False))
    ends = np.array([path.vertices[[0, -1], 1] for path in bars[0].get_paths()]).reshape(len(x), 2)
    known = np.isfinite(ends).all(1)
    texts = [
        f"{name}\n{panel.x} {_place(panel.axes.xaxis, place)}, {panel.y} "
        + ("{}, interval {} to {}".format(*_numbers(value, *end)) if interval else _numbers(value)[0])
        for place, value, end, interval in zip(x, y, ends, known, strict=True)
    ]
    yield DrawnPart(line, name, _some(texts, np.isfinite(x) & np.isfinite(y)))
    if known.any():
        yield DrawnPart(bars[0], "", _some(texts, known))


def _some(texts: list[str], which: Any) -> tuple[str, ...]:
    return tuple(text for text, chosen in zip(texts, which, strict=True) if chosen)


def _bars(container: Any, panel: Panel) -> Iterator[DrawnPart]:
    name = _join(_label(container), panel.title)
    upright = container.orientation == "vertical"
    axis = panel.axes.xaxis if upright else panel.axes.yaxis
    for bar, value in zip(container.patches, container.datavalues, strict=True):
        middle = bar.get_x() + bar.get_width() / 2 if upright else bar.get_y() + bar.get_height() / 2
        if name:
            yield DrawnPart(bar, f"{name}\n{_place(axis, middle)}: {_numbers(value)[0]}")


def _place(axis: Any, value: float) -> str:
    """Return the text of the nearest tick if ticks are fixed (marks may be beside theirs), else the number."""
    from matplotlib.ticker import FixedLocator

    if not isinstance(axis.get_major_locator(), FixedLocator):
        return _numbers(value)[0]
    ticks = axis.get_majorticklocs()
    apart = axis.get_transform().transform(np.asarray(ticks, dtype=float)) - axis.get_transform().transform(value)
    nearest: str = axis.get_major_formatter().format_ticks(ticks)[int(np.argmin(np.abs(apart)))]
    return plain(nearest)


def _numbers(*values: float) -> list[str]:
    """Format values with the decimals that show four digits of the largest; whole numbers without decimals."""
    largest = max(abs(value) for value in values)
    decimals = min(max(3 - math.floor(math.log10(largest)), 0), 6) if 0 < largest < math.inf else 0
    if all(float(value).is_integer() for value in values):
        decimals = 0
    return [f"{value:.{decimals}f}".replace("-", "−") for value in values]
