"""Titles inside an SVG file that describe its parts: browsers show them, screen readers read them.

A part (a series, a bar, a point with its interval) is described with its panel and values if its artist has a label; a
label that begins with an underscore is not in a legend. A panel is described by its title, or that of its column, and
by its label, which `figures.style.row_titles` sets.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np

_AUTOMATIC = re.compile(r"_(child|container|nolegend|hidden)\w*")
"""Labels that matplotlib sets itself."""

_MATHEMATICS = {"$": "", "\\cdot ": "·", "\\,": " ", "^2": "²"}


class Panel(NamedTuple):
    """The axes of a panel, its title, and the quantities of its two axes."""

    axes: Any
    title: str
    x: str
    y: str


class DrawnPart(NamedTuple):
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

    def titled(match: re.Match[str]) -> str:
        indent, content, part = match[1], match[3], described[int(match[2])]
        if not part.marks:
            content = f"<title>{escape(part.text)}</title>{content}"
        elif part.text:
            # The line that joins the marks comes before them.
            content = _with_each(_with_each(content, "path", [part.text]), "use", part.marks)
        else:
            content = _with_each(content, "path", part.marks)
        return f"{indent}<g>{content}{indent}</g>"

    svg = re.sub(r'^( *)<g id="part-(\d+)">(.*?)^\1</g>', titled, svg, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r'<g id="part-\d+"/>', "<g/>", svg)


def _with_each(content: str, element: str, texts: Sequence[str]) -> str:
    """Add a title to each element that draws something, or to none if matplotlib left some out."""
    pieces = re.split(rf"(<defs>.*?</defs>|<{element} [^>]*/>)", content, flags=re.DOTALL)
    # The path of an undefined interval has no data.
    drawn = [place for place, piece in enumerate(pieces) if re.match(rf"<{element} (d|xlink:href)=", piece)]
    if len(drawn) == len(texts):
        for place, text in zip(drawn, texts, strict=True):
            pieces[place] = f"{pieces[place].removesuffix('/>')}><title>{escape(text)}</title></{element}>"
    return "".join(pieces)


def plain(text: str) -> str:
    """Return a label on one line, without mathematical markup."""
    for markup, written in _MATHEMATICS.items():
        text = text.replace(markup, written)
    return " ".join(text.split())


def _panel(axes: Any, figure: Any) -> Panel:
    """Describe a panel; titles and axis labels at the figure's edges apply to all panels of a column or row."""
    own = axes.get_subplotspec()
    grid = [(other, spec) for other in figure.axes if (spec := other.get_subplotspec()) is not None]

    def nearest(line: str, way: str, sign: int) -> Iterator[Any]:
        """Yield this panel, and those in its column or row on one side, the nearest first."""
        if own is None:
            yield axes
            return
        away = [
            (sign * (getattr(own, way).start - getattr(spec, way).start), place)
            for place, (_, spec) in enumerate(grid)
            if getattr(spec, line) == getattr(own, line)
        ]
        yield from (grid[place][0] for distance, place in sorted(away) if distance >= 0)

    def first(texts: Iterable[str]) -> str:
        return next((plain(text) for text in texts if text), "")

    above, below = (nearest("colspan", "rowspan", sign) for sign in (1, -1))
    title = first(other.get_title(side) for other in above for side in ("left", "center"))
    x = first(other.get_xlabel() for other in below)
    left = (other.get_ylabel() for other in nearest("rowspan", "colspan", 1))
    # Without a vertical label, the title names the quantity.
    y = first([*left, figure.get_supylabel(), title])
    return Panel(axes, _join(title, plain(axes.get_label())), x, y)


def _parts(panel: Panel) -> Iterator[DrawnPart]:
    """Yield the described parts of a panel; points come after the line that joins them."""
    from matplotlib.container import BarContainer, ErrorbarContainer

    inside: set[Any] = set()
    for container in panel.axes.containers:
        inside.update(artist for item in container for artist in (item if isinstance(item, tuple) else [item]))
        name = _name(container, panel)
        if name and isinstance(container, ErrorbarContainer):
            yield from _points_with_intervals(container, name, panel)
        elif name and isinstance(container, BarContainer):
            yield from _bars(container, name, panel)
    for artist in (*panel.axes.lines, *panel.axes.collections, *panel.axes.patches):
        if _label(artist) and artist not in inside:
            yield DrawnPart(artist, _name(artist, panel) + _ends(artist, panel))


def _label(artist: Any) -> str:
    label = str(artist.get_label() or "")
    return "" if _AUTOMATIC.fullmatch(label) else plain(label.removeprefix("_"))


def _name(artist: Any, panel: Panel) -> str:
    return _join(_label(artist), panel.title)


def _join(*texts: str) -> str:
    return ", ".join(text for text in texts if text)


def _ends(artist: Any, panel: Panel) -> str:
    """Return the first and the last values of a line that goes from left to right, on a line of its own."""
    from matplotlib.lines import Line2D

    if not isinstance(artist, Line2D) or artist.get_transform() is not panel.axes.transData:
        return ""
    x, y = (np.asarray(values, dtype=float) for values in artist.get_data(orig=False))
    if len(x) < 3 or not np.isfinite([x, y]).all() or (np.diff(x) < 0).any():
        return ""
    ends = ("{} from {} to {}".format(name, *_numbers(*of[[0, -1]])) for name, of in ((panel.y, y), (panel.x, x)))
    return f"\n{_join(*ends)}"


def _points_with_intervals(container: Any, name: str, panel: Panel) -> Iterator[DrawnPart]:
    """Describe the joining line by its label, and every point and interval by its values."""
    line, _, bars = container.lines
    if line is None or len(bars) != 1 or not container.has_yerr:
        return
    x, y = (np.asarray(values, dtype=float) for values in line.get_data(orig=False))
    ends = np.array([path.vertices[[0, -1], 1] for path in bars[0].get_paths()]).reshape(len(x), 2)
    points, intervals = [], []
    for place, value, end in zip(x, y, ends, strict=True):
        known = np.isfinite(end).all()
        numbers = _numbers(value, *end) if known else _numbers(value)
        text = f"{name}\n{panel.x} {_place(panel.axes.xaxis, place)}, {panel.y} {numbers[0]}"
        text += ", interval {} to {}".format(*numbers[1:]) if known else ""
        points += [text] if np.isfinite(place) and np.isfinite(value) else []
        intervals += [text] if known else []
    yield DrawnPart(line, name, tuple(points))
    if intervals:
        yield DrawnPart(bars[0], "", tuple(intervals))


def _bars(container: Any, name: str, panel: Panel) -> Iterator[DrawnPart]:
    upright = container.orientation == "vertical"
    axis = panel.axes.xaxis if upright else panel.axes.yaxis
    for bar, value in zip(container.patches, container.datavalues, strict=True):
        middle = bar.get_x() + bar.get_width() / 2 if upright else bar.get_y() + bar.get_height() / 2
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
