"""Titles inside an SVG file that describe its parts: browsers show them, screen readers read them.

A panel also stores its scales, from which a page computes the values of any point on a curve.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from rankbound_study.figures._figure_words import DrawnPart, Panel, panels, parts

_POINTS_PER_INCH = 72


Described = list[tuple[Panel, list[DrawnPart]]]
"""Panels with their parts: the I-th is the group `panel-I` of the file, its J-th part the group `part-I-J`."""


@contextmanager
def marked(figure: Any) -> Iterator[Described]:
    """Give ids to all described parts of the figure within the block."""
    described = [(panel, found) for panel in panels(figure) if (found := list(parts(panel)))]
    for i, (panel, found) in enumerate(described):
        panel.axes.set_gid(f"panel-{i}")
        for j, part in enumerate(found):
            part.artist.set_gid(f"part-{i}-{j}")
    try:
        yield described
    finally:
        for panel, found in described:
            for artist in (panel.axes, *(part.artist for part in found)):
                artist.set_gid(None)


def with_titles(svg: str, described: Described) -> str:
    """Replace the ids of a file that was saved within `marked` by titles."""
    for i, (panel, found) in enumerate(described):
        scales = _scales(panel) if any(part.is_curve for part in found) else ""
        svg = svg.replace(f'<g id="panel-{i}">', f"<g data-panel={quoteattr(panel.title)}{scales}>", 1)
    svg = re.sub(
        r'^( *)<g id="part-(\d+)-(\d+)">(.*?)^\1</g>',
        lambda match: f"{match[1]}{_titled(match[4], described[int(match[2])][1][int(match[3])])}{match[1]}</g>",
        svg,
        flags=re.DOTALL | re.MULTILINE,
    )
    return re.sub(r'<g id="part-\d+-\d+"/>', "<g/>", svg)


def _titled(content: str, part: DrawnPart) -> str:
    if not part.marks:
        kind = ' class="curve"' if part.is_curve else ""
        return f"<g{kind}>{_title(part.text)}{content}"
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


def _scales(panel: Panel) -> str:
    """Return each axis' quantity and scale: position and value at both ends, then the parameters of its inverse."""
    width, height = panel.axes.figure.get_size_inches() * _POINTS_PER_INCH
    box = panel.axes.get_position()
    ends = {"x": (box.x0 * width, box.x1 * width), "y": ((1 - box.y0) * height, (1 - box.y1) * height)}
    return "".join(
        f" data-{name}={quoteattr(label)} data-{name}-scale={quoteattr(scale)}"
        for name, label, axis in (("x", panel.x, panel.axes.xaxis), ("y", panel.y, panel.axes.yaxis))
        if (scale := _scale(axis, ends[name]))
    )


def _scale(axis: Any, ends: tuple[float, float]) -> str:
    """Return POSITION POSITION VALUE VALUE [KIND [PARAMETER ...]], with values as on a linear axis, or ""."""
    transform, kind = axis.get_transform(), axis.get_scale()
    parameters: tuple[float, ...] = ()
    if kind == "symlog":
        parameters = (transform.linthresh, transform.linscale / (1 - 1 / transform.base))
    elif kind not in ("linear", "log"):
        return ""
    if kind != "linear" and transform.base != 10:
        return ""
    values = transform.transform(np.asarray(axis.get_view_interval(), dtype=float))
    numbers = " ".join(f"{number:.7g}" for number in (*ends, *values))
    return " ".join([numbers, *([] if kind == "linear" else [kind, *(f"{number:.7g}" for number in parameters)])])
