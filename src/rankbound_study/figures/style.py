"""The style of all figures: one size and font, one colour and line per bounding, and files with fixed bytes.

Boundings differ by line style (or marker) and by colour, so they are distinct in grey print and for colour-blind
readers. The colours are those of Okabe and Ito (2008); `DARK` holds lighter ones for a dark background.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError
from rankbound.io.atomic import atomic_path
from rankbound_study.vocabulary import BOUNDINGS

PAGE_WIDTH = 7.0
"""Width of a full-page figure, inches: the text block of the paper."""

MARGIN = 0.03
"""Free margin at the edges of a figure, inches."""

_ROW_TITLE_WIDTH = 14
"""Characters in a line that fits beside the lowest panels."""

_REMARK_WIDTH = 96
"""Characters in a line of a remark."""

_LAYERS = 4

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

_TICKS = {"color": MUTED, "labelcolor": INK, "labelsize": 8, "major.width": 0.6, "major.size": 2.5, "major.pad": 2}
RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8.5,
    "figure.titlesize": 9.5,
    "figure.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 4,
    "axes.labelpad": 3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "text.color": INK,
    **{f"{axis}tick.{name}": value for axis in "xy" for name, value in _TICKS.items()},
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.45,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "legend.columnspacing": 1.6,
    "lines.linewidth": 1.2,
    "axes.unicode_minus": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "rankbound",
    "pdf.fonttype": 42,
    "path.simplify": False,
}


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
    """Apply the house style to everything that is drawn in the block."""
    import matplotlib

    matplotlib.use("agg")
    with matplotlib.rc_context(RC):
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
    import numpy as np

    for layer in range(_LAYERS):
        some_x, some_y = (np.asarray(values, dtype=float)[layer::_LAYERS] for values in (x, y))
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
        for words in ([piece] if place % 2 else textwrap.wrap(piece.strip(), _REMARK_WIDTH))
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


def row_titles(axes: Any, titles: Sequence[str]) -> None:
    """Name every row of panels at its right edge, reading downwards; the panels' labels keep the name for titles.

    A name that is too long for one line is broken, after its hyphen if it has one.
    """
    for row, title in zip(axes, titles, strict=True):
        for panel in row:
            panel.set_label(title)
        place = {"xytext": (5, 0), "xycoords": "axes fraction", "textcoords": "offset points", "rotation": -90}
        look = {"ha": "left", "va": "center", "multialignment": "center", "fontsize": 8}
        row[-1].annotate(textwrap.fill(title, _ROW_TITLE_WIDTH), (1.0, 0.5), **place, **look)


def finish(
    figure: Any, axes: Any, title: str = "", *, x: str = "", y: str = "", rows: Sequence[str] = (), legend: int = 0
) -> Any:
    """Add what stands around the panels, and return the figure.

    Args:
        figure, axes: those of `panels`.
        title: the title of the figure.
        x, y: the labels below every column, and of all vertical axes.
        rows: titles of the rows, as of `row_titles`.
        legend: the number of columns of the shared legend; none for 0.
    """
    if x:
        for panel in axes[-1]:
            panel.set_xlabel(x)
        figure.supylabel(y, fontsize=RC["axes.labelsize"])
    if rows:
        row_titles(axes, rows)
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
    from rankbound_study.figures.svg_titles import marked, with_titles

    metadata: dict[str, dict[str, Any]] = {
        ".svg": {"Date": None, "Creator": "rankbound"},
        ".pdf": {"CreationDate": None, "Creator": "rankbound", "Producer": None},
        ".png": {"Software": None},
    }
    for path in paths:
        if path.suffix not in metadata:
            raise ConfigError(f"{path}: a figure is written as .svg, .pdf or .png, not as {path.suffix!r}")
        with house_style(), atomic_path(path) as temporary:
            with marked(figure) if path.suffix == ".svg" else nullcontext() as described:
                figure.savefig(temporary, metadata=metadata[path.suffix], dpi=200)
            if described is not None:
                temporary.write_text(with_titles(temporary.read_text("utf-8"), described), "utf-8")
