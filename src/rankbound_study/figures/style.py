"""The style of all figures: one size and font, one colour and line per bounding, and files with fixed bytes.

Boundings differ by line style (or marker) and by colour, so they are distinct in grey print and for colour-blind
readers. The colours are those of Okabe and Ito (2008); `DARK` holds lighter ones for a dark background.

Titles inside an SVG file describe its parts: browsers show them, screen readers read them. A part (a series, a bar) is
described with its panel and values if its artist has a label; a label that begins with an underscore is not in a
legend. A panel is described by the titles of its column and row, or by its own.
"""

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """Draw marks that no line joins; without any, they are an entry of the legend alone."""
    face = "none" if hollow else color
    drawn = {"markersize": 4, "markerfacecolor": face, "linestyle": "none"} | options
    axes.plot(x, y, color=color, marker=marker, **drawn)


def with_intervals(axes: Any, look: LineStyle, x: Any, rows: Any, value: str, **options: Any) -> None:
    """Draw a line with marks at a column of a table, and the interval of each, if any: its columns `low` and `high`."""
    y, low, high = rows[value], *(rows[end].fill_null(rows[value]) for end in ("low", "high"))
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
    pieces = (pair for paragraph in text.splitlines() for pair in enumerate(paragraph.split("`")))
    lines = [line for place, piece in pieces for line in ([piece] if place % 2 else textwrap.wrap(piece.strip(), 96))]
    figure, axes = panels(1, 1, height=0.4 + 0.18 * len(lines))
    axes[0, 0].set_axis_off()
    empty_panel(axes[0, 0], "\n".join(lines))
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
        legend: the largest number of columns of one legend for all panels, which has each label once, in the order of
            first use, and is no wider than the figure; none for 0.
    """
    for panel, heading in zip(axes[0], columns, strict=False):
        panel.set_title(heading)
    if x:
        for panel in axes[-1]:
            panel.set_xlabel(x)
        figure.supylabel(y)
    for row, column in np.ndindex(axes.shape):
        # For the titles inside the file.
        axes[row, column].set_label(", ".join((*columns[column : column + 1], *rows[row : row + 1])))
    for row, heading in zip(axes, rows, strict=False):
        place = {"xytext": (5, 0), "xycoords": "axes fraction", "textcoords": "offset points", "rotation": -90}
        look = {"ha": "left", "va": "center", "multialignment": "center", "fontsize": 8}
        # A line of 14 characters fits beside the lowest panels; names break after a hyphen if they have one.
        row[-1].annotate(textwrap.fill(heading, 14), (1.0, 0.5), **place, **look)
    if title:
        figure.suptitle(title)
    found: dict[str, Any] = {}
    for panel in axes.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    for ncols in range(legend if found else 0, 0, -1):
        drawn = figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=ncols)
        if ncols == 1 or drawn.get_window_extent().width <= figure.bbox.width:
            break
        drawn.remove()
    return figure


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
            for panel in figure.axes:
                _describe(panel)
            figure.savefig(temporary, metadata=metadata[path.suffix], dpi=200)
            if path.suffix == ".svg":
                # An SVG file has the parts as groups with ids, in which the texts are escaped already.
                svg = re.sub(f'<g id="{_TITLE}([^"]*)">', r"<g><title>\1</title>", temporary.read_text("utf-8"))
                temporary.write_text(re.sub(f'<g id="{_TITLE}[^"]*"/>', "<g/>", svg), "utf-8")


_TITLE = "title: "
"""Start of the ids that become titles."""


def _describe(panel: Any) -> None:
    """Give every labelled part of a panel its title as an id: its label, the name of the panel, and values.

    Values are those at the ends of a line that goes from left to right, of all bars, and of all points with intervals.
    """
    from matplotlib.container import BarContainer, ErrorbarContainer
    from matplotlib.lines import Line2D

    for part in (*panel.lines, *panel.collections, *panel.patches, *panel.containers):
        label = str(part.get_label() or "")
        # Labels that matplotlib sets itself.
        if not label or re.match(r"_(child|container|nolegend)", label):
            continue
        drawn: list[Any] = [part]
        values: list[str] = []
        if isinstance(part, ErrorbarContainer):
            lines: Any = part.lines
            line, _, (bars,) = lines
            drawn = [line, bars]
            ends = (path.vertices[[0, -1], 1] for path in bars.get_paths())
            for place, value, (low, high) in zip(*line.get_data(orig=False), ends, strict=True):
                if math.isfinite(value):
                    interval = f" ({low:.4g} to {high:.4g})" if math.isfinite(high - low) else ""
                    values.append(f"{_place(panel.xaxis, place)}: {value:.4g}{interval}")
        elif isinstance(part, BarContainer):
            drawn, across = list(part.patches), int(part.orientation == "horizontal")
            axis, middles = (panel.xaxis, panel.yaxis)[across], [bar.get_center()[across] for bar in drawn]
            numbers = np.asarray(part.datavalues, dtype=float)
            values = [f"{_place(axis, at)}: {value:.4g}" for at, value in zip(middles, numbers, strict=True)]
        elif isinstance(part, Line2D):
            x, y = (np.asarray(one, dtype=float) for one in part.get_data(orig=False))
            if len(x) > 2 and np.isfinite(y).all() and (np.diff(x) >= 0).all():
                values = [f"from {y[0]:.4g} at {x[0]:.4g} to {y[-1]:.4g} at {x[-1]:.4g}"]
        names = (label.removeprefix("_"), panel.get_label() or panel.get_title("left"))
        title = " ".join(", ".join(filter(None, names)).split())
        for artist in drawn:
            artist.set_gid(_TITLE + "\n".join([title, *(text.replace("-", "−") for text in values)]))


def _place(axis: Any, value: float) -> str:
    """Return the text of the nearest tick if ticks are fixed (marks may be beside theirs), else the number."""
    from matplotlib.ticker import FixedLocator

    if not isinstance(axis.get_major_locator(), FixedLocator):
        return f"{value:.4g}"
    ticks = axis.get_majorticklocs()
    text: str = axis.get_major_formatter().format_ticks(ticks)[int(np.abs(ticks - value).argmin())]
    return text.replace("\n", " ")
