"""The style of all figures: one size and font, one colour and line per bounding, and files with fixed bytes.

Boundings differ by line style (or marker) and by colour, so they are distinct in grey print and for colour-blind
readers. The colours are those of Okabe and Ito (2008); `DARK` holds lighter ones for a dark background.

Titles inside an SVG file describe its parts: browsers show them, screen readers read them. A part (a series, a bar, a
point with its interval) is described with its panel and values if its artist has a label; a label that begins with an
underscore is not in a legend. A panel is described by its title, or that of its column, and by its label, the
title of its row.
"""

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from rankbound.errors import ConfigError
from rankbound.io.atomic import atomic_path
from rankbound_study import templates
from rankbound_study.vocabulary import BOUNDINGS

PAGE_WIDTH = 7.0
"""Width of a full-page figure, inches: the text block of the paper."""

MARGIN = 0.03
"""Free margin at the edges of a figure, inches."""

DID_NOT_TRAIN = "did not train"

DARK = {
    "#1b1b1b": "#ececec",
    "#5f5f5f": "#a8a8a8",
    "#d9d9d9": "#3d3d3d",
    "#c4c4c4": "#5a5a5a",
    "#00589c": "#5cb3e6",
    "#d55e00": "#ff8b4a",
    "#009e73": "#3ccb9f",
    "#b0568c": "#e093c3",
    "#b57a00": "#e6b450",
    "#56b4e9": "#8fd0f5",
}
"""House colour -> its counterpart on a dark page."""

INK, MUTED, GRID, SHADE, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = DARK


@dataclass(frozen=True)
class LineStyle:
    """The colour, dash pattern and marker of a line."""

    color: str
    dashes: Any = "-"
    marker: str = ""
    width: float = 1.2


SERIES = (
    LineStyle(INK, "-", "o"),
    LineStyle(BLUE, (0, (5, 1.5)), "s"),
    LineStyle(VERMILION, (0, (1.2, 1.2)), "^"),
    LineStyle(GREEN, (0, (6, 1.5, 1.2, 1.5)), "D"),
    LineStyle(PURPLE, (0, (3, 1.2, 1.2, 1.2, 1.2, 1.2)), "v"),
    LineStyle(ORANGE, (0, (9, 2)), "P"),
    LineStyle(SKY, (0, (2.5, 2.5)), "X"),
)
"""Styles for lines that are not boundings, in the order of use."""

BOUNDING_STYLES = dict(zip(BOUNDINGS, SERIES, strict=False))


def bounding_style(bounding: str, all_boundings: Sequence[str]) -> LineStyle:
    """Return the line style of a bounding, the same in every figure; variants take the spare styles in their order."""
    if bounding in BOUNDING_STYLES:
        return BOUNDING_STYLES[bounding]
    spare = SERIES[len(BOUNDING_STYLES) :]
    variants = [name for name in all_boundings if name not in BOUNDING_STYLES]
    return spare[variants.index(bounding) % len(spare)]


def bounding_title(bounding: str) -> str:
    """Return the name of a bounding in figures and tables."""
    return "unbounded" if bounding == "none" else bounding


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the house style (`figures.mplstyle`) to everything that is drawn in the block."""
    import matplotlib

    matplotlib.use("agg")
    with matplotlib.rc_context(fname=Path(templates.__file__).with_name("figures.mplstyle")):
        yield


def panels(rows: int, columns: int, *, height: float, **sharing: Any) -> tuple[Any, Any]:
    """Create a figure and its (rows, columns) array of axes; `height` is that of the whole figure in inches."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    spacing = ConstrainedLayoutEngine(w_pad=MARGIN, h_pad=MARGIN, wspace=0.015, hspace=0.02)
    figure = Figure(figsize=(PAGE_WIDTH, height), layout=spacing)
    return figure, figure.subplots(rows, columns, squeeze=False, **sharing)


def line(axes: Any, x: Any, y: Any, look: LineStyle, *, label: str, marks: int) -> None:
    """Draw a line with `marks` markers spread evenly along the curve, so lines differ in grey, too."""
    drawn = {"color": look.color, "linestyle": look.dashes, "linewidth": look.width, "marker": look.marker}
    axes.plot(x, y, markersize=3.2, markevery=1.0 / marks, label=label, **drawn)


def marks(axes: Any, x: Any, y: Any, color: str, marker: str, *, hollow: bool = False, **options: Any) -> None:
    """Draw marks that no line joins."""
    face = "none" if hollow else color
    drawn = {"markersize": 4, "markerfacecolor": face, "linestyle": "none"} | options
    axes.plot(x, y, color=color, marker=marker, **drawn)


def entries(axes: Any, looks: Iterable[tuple[str, str, str]]) -> None:
    """Add entries to the legend that draw nothing: label, colour and marker of each."""
    for label, color, marker in looks:
        marks(axes, [], [], color, marker, label=label)


def with_intervals(axes: Any, look: LineStyle, x: Any, numbers: Iterable[Any], **options: Any) -> None:
    """Draw a line with marks, and the interval of each; `numbers` are their values, lower and upper ends."""
    y, low, high = numbers
    drawn = {"linestyle": look.dashes, "linewidth": look.width, "elinewidth": 0.8, "markersize": 3.6} | options
    axes.errorbar(x, y, [y - low, high - y], color=look.color, marker=look.marker, **drawn)


def points(axes: Any, x: Any, y: Any, *, label: str, in_legend: bool = True) -> None:
    """Draw small dots in four translucent layers: overlap is visible, at a tenth of the bytes of single markers."""
    layers = 4
    for layer in range(layers):
        some_x, some_y = (np.asarray(values, dtype=float)[layer::layers] for values in (x, y))
        # Each dot is a stroke of length zero with a round cap; NaN lifts the pen between dots.
        gap = np.full_like(some_x, np.nan)
        strokes = (np.column_stack([values, values, gap]).ravel() for values in (some_x, some_y))
        axes.plot(*strokes, color=INK, alpha=0.4, linewidth=1.9, solid_capstyle="round", label=f"_{label}")
    if in_legend:
        axes.plot([], [], linestyle="none", marker="o", markersize=2.4, color=INK, alpha=0.6, label=label)


def zero(axes: Any, label: str = "zero", *, width: float = 0.6) -> None:
    """Draw the horizontal line of no effect."""
    axes.axhline(0, color=MUTED, linewidth=width, label=f"_{label}")


def note(axes: Any, text: str, place: tuple[float, float], *, ha: str, va: str) -> None:
    """Write a short note inside a panel, at axes fractions."""
    axes.text(*place, text, transform=axes.transAxes, ha=ha, va=va, fontsize=7.5, color=MUTED)


def empty_panel(axes: Any, text: str = "no runs") -> None:
    """Write in a panel that there is nothing to draw."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED, style="italic")


def remark(text: str) -> Any:
    """Create a figure with a text instead of a drawing; a command, in backticks, has a line of its own."""
    lines = [
        (words, place % 2 == 1)
        for paragraph in text.splitlines()
        for place, piece in enumerate(paragraph.split("`"))
        for words in ([piece] if place % 2 else textwrap.wrap(piece.strip(), 96))
    ]
    figure, axes = panels(1, 1, height=0.4 + 0.18 * len(lines))
    axes[0, 0].set_axis_off()
    for place, (words, is_command) in enumerate(lines):
        look = {"family": "DejaVu Sans Mono", "color": INK} if is_command else {"style": "italic", "color": MUTED}
        height = 1 - (place + 0.5) / len(lines)
        axes[0, 0].text(0.5, height, words, transform=axes[0, 0].transAxes, ha="center", va="center", **look)
    return figure


def mark_untrained(axes: Any) -> None:
    """Hatch a panel of trainings that did not train, with an entry in the legend."""
    from matplotlib.patches import Rectangle

    look: dict[str, Any] = {"facecolor": "none", "edgecolor": SHADE, "hatch": "////", "linewidth": 0, "zorder": 0}
    axes.add_patch(Rectangle((0, 0), 1, 1, transform=axes.transAxes, label=DID_NOT_TRAIN, **look))


def finish(
    figure: Any,
    axes: Any,
    title: str = "",
    *,
    x: str = "",
    y: str = "",
    columns: Sequence[str] = (),
    rows: Sequence[str] = (),
    legend: int = 0,
) -> Any:
    """Add what stands around the panels, and return the figure.

    Args:
        figure, axes: those of `panels`.
        title: the title of the figure.
        x, y: the labels below every column, and of all vertical axes.
        columns, rows: the titles of columns, and of rows: these stand at the right edge and read downwards.
        legend: the number of columns of the shared legend; none for 0.
    """
    for panel, heading in zip(axes[0], columns, strict=False):
        panel.set_title(heading)
    if x:
        for panel in axes[-1]:
            panel.set_xlabel(x)
        figure.supylabel(y)
    for row, heading in zip(axes, rows, strict=False):
        for panel in row:
            # For the titles inside the file.
            panel.set_label(heading)
        place = {"xytext": (5, 0), "xycoords": "axes fraction", "textcoords": "offset points", "rotation": -90}
        look = {"ha": "left", "va": "center", "multialignment": "center", "fontsize": 8}
        # A line of 14 characters fits beside the lowest panels; names break after a hyphen if they have one.
        row[-1].annotate(textwrap.fill(heading, 14), (1.0, 0.5), **place, **look)
    if legend:
        shared_legend(figure, axes, columns=legend)
    if title:
        figure.suptitle(title)
    return figure


def shared_legend(figure: Any, axes: Any, *, columns: int) -> None:
    """Draw one legend below all panels, with each label once, in the order of first use.

    It has fewer than the given columns if it would be wider than the figure.
    """
    found: dict[str, Any] = {}
    for panel in axes.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if not found:
        return
    for ncols in range(columns, 0, -1):
        legend = figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=ncols)
        if ncols == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def save(figure: Any, paths: Sequence[Path]) -> None:
    """Write the figure to every path (.svg, .pdf or .png) with bytes that depend on the drawing alone.

    An SVG file has titles that describe the parts of the drawing.

    Raises:
        ConfigError: a path has another suffix.
    """
    metadata: dict[str, dict[str, Any]] = {
        ".svg": {"Date": None, "Creator": "rankbound"},
        ".pdf": {"CreationDate": None, "Creator": "rankbound", "Producer": None},
        ".png": {"Software": None},
    }
    for path in paths:
        if path.suffix not in metadata:
            raise ConfigError(f"{path}: a figure is written as .svg, .pdf or .png, not as {path.suffix!r}")
        with house_style(), atomic_path(path) as temporary:
            described = [part for axes in figure.axes for part in _parts(_panel(axes, figure))]
            # In the SVG file, the I-th part is the group `part-I`; other forms have no groups.
            for place, part in enumerate(described):
                part.artist.set_gid(f"part-{place}")
            figure.savefig(temporary, metadata=metadata[path.suffix], dpi=200)
            if path.suffix == ".svg":
                temporary.write_text(with_titles(temporary.read_text("utf-8"), described), "utf-8")


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
    """An artist, and the titles of its elements: of the group (`g`), or of marks (`path`, `use`) in their order."""

    artist: Any
    titles: Mapping[str, Sequence[str]]


def with_titles(svg: str, described: Sequence[DrawnPart]) -> str:
    """Replace the ids of the described parts in a saved file by titles."""

    def titled(match: re.Match[str]) -> str:
        indent, content = match[1], match[3]
        for element, texts in described[int(match[2])].titles.items():
            if element == "g":
                content = f"<title>{escape(texts[0])}</title>{content}"
                continue
            pieces = re.split(rf"(<defs>.*?</defs>|<{element} [^>]*/>)", content, flags=re.DOTALL)
            # The path of an undefined interval has no data.
            drawn = [place for place, piece in enumerate(pieces) if re.match(rf"<{element} (d|xlink:href)=", piece)]
            # Elements that matplotlib left out would shift all titles.
            for place, text in zip(drawn, texts, strict=True) if len(drawn) == len(texts) else ():
                pieces[place] = f"{pieces[place].removesuffix('/>')}><title>{escape(text)}</title></{element}>"
            content = "".join(pieces)
        return f"{indent}<g>{content}{indent}</g>"

    svg = re.sub(r'^( *)<g id="part-(\d+)">(.*?)^\1</g>', titled, svg, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r'<g id="part-\d+"/>', "<g/>", svg)


def plain(text: str) -> str:
    """Return a label on one line, without mathematical markup."""
    for markup, written in _MATHEMATICS.items():
        text = text.replace(markup, written)
    return " ".join(text.split())


def _panel(axes: Any, figure: Any) -> Panel:
    """Describe a panel; titles and axis labels at the figure's edges apply to all panels of a column or row."""
    own = axes.get_subplotspec()

    def nearest(line: str, way: str, sign: int) -> list[Any]:
        """Return this panel, and those in its column or row on one side, the nearest first."""
        if own is None:
            return [axes]
        start, away = getattr(own, way).start, {}
        for other in figure.axes:
            spec = other.get_subplotspec()
            if spec is not None and getattr(spec, line) == getattr(own, line):
                away[other] = sign * (start - getattr(spec, way).start)
        return sorted((other for other in away if away[other] >= 0), key=lambda other: away[other])

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
            upright = container.orientation == "vertical"
            axis = panel.axes.xaxis if upright else panel.axes.yaxis
            for bar, value in zip(container.patches, np.asarray(container.datavalues), strict=True):
                middle = bar.get_x() + bar.get_width() / 2 if upright else bar.get_y() + bar.get_height() / 2
                yield DrawnPart(bar, {"g": [f"{name}\n{_place(axis, middle)}: {_numbers(value)[0]}"]})
    for artist in (*panel.axes.lines, *panel.axes.collections, *panel.axes.patches):
        if _label(artist) and artist not in inside:
            yield DrawnPart(artist, {"g": [_name(artist, panel) + _ends(artist, panel)]})


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
    # The joining line is the first path; without any point, its group has the title.
    yield DrawnPart(line, {"path": [name], "use": points} if points else {"g": [name]})
    if intervals:
        yield DrawnPart(bars[0], {"path": intervals})


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
