"""Titles inside an SVG file that describe its parts: browsers show them, screen readers read them.

A part (a series, a bar, a point with its interval) is described with its panel and values if its artist has a label; a
label that begins with an underscore is not in a legend. A panel is described by its title, or that of its column, and
by its label, which `figures.style.row_titles` sets.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

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


@contextmanager
def marked(figure: Any) -> Iterator[list[DrawnPart]]:
    """Give ids to all described parts of the figure within the block: the I-th is the group `part-I` of its file."""
    described = [part for axes in figure.axes for part in _parts(_panel(axes, figure))]
    for place, part in enumerate(described):
        part.artist.set_gid(f"part-{place}")
    try:
        yield described
    finally:
        for part in described:
            part.artist.set_gid(None)


def with_titles(svg: str, described: Sequence[DrawnPart]) -> str:
    """Replace the ids of a file that was saved within `marked` by titles."""
    svg = re.sub(
        r'^( *)<g id="part-(\d+)">(.*?)^\1</g>',
        lambda match: f"{match[1]}{_titled(match[3], described[int(match[2])])}{match[1]}</g>",
        svg,
        flags=re.DOTALL | re.MULTILINE,
    )
    return re.sub(r'<g id="part-\d+"/>', "<g/>", svg)


def plain(text: str) -> str:
    """Return a label on one line, without mathematical markup."""
    for markup, written in _MATHEMATICS.items():
        text = text.replace(markup, written)
    return " ".join(text.split())


def _titled(content: str, part: DrawnPart) -> str:
    if not part.marks:
        return f"<g>{_title(part.text)}{content}"
    if part.text:
        # The line that joins the marks comes before them.
        content = _with_each(content, "path", [part.text])
        return "<g>" + _with_each(content, "use", part.marks)
    return "<g>" + _with_each(content, "path", part.marks)


def _with_each(content: str, element: str, texts: Sequence[str]) -> str:
    """Add a title to each element that draws something, or to none if matplotlib left some out."""
    pieces = re.split(rf"(<defs>.*?</defs>|<{element} [^>]*/>)", content, flags=re.DOTALL)
    # The path of an undefined interval has no data.
    drawn = [place for place, piece in enumerate(pieces) if re.match(rf"<{element} (d|xlink:href)=", piece)]
    if len(drawn) == len(texts):
        for place, text in zip(drawn, texts, strict=True):
            pieces[place] = f"{pieces[place].removesuffix('/>')}>{_title(text)}</{element}>"
    return "".join(pieces)


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _parts(panel: Panel) -> Iterator[DrawnPart]:
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


def _panel(axes: Any, figure: Any) -> Panel:
    """Describe a panel; titles and axis labels at the figure's edges apply to all panels of a column or row."""
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
        ends = ["{} from {} to {}".format(name, *_numbers(*of[[0, -1]])) for name, of in ((panel.y, y), (panel.x, x))]
        text += f"\n{_join(*ends)}"
    return DrawnPart(artist, text)


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
