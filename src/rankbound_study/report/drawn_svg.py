"""Read a figure's SVG file by a list of what drawings hold: results may come from others, and pages run scripts."""

import re
from xml.etree import ElementTree

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

ELEMENTS = ("svg", "defs", "style", "g", "path", "use", "title", "clipPath", "pattern", "rect", "image")
"""The elements of the drawings that `rankbound_study.figures.style.save` writes, besides `metadata`."""

_URL = r"url\(#[\w.-]+\)"
_VALUES = {
    **dict.fromkeys(("id", "version"), r"[\w.-]+"),
    **dict.fromkeys(("width", "height", "x", "y", "d", "viewBox"), r"[\w\s.,+-]*"),
    "transform": r"[\w\s.,()+-]*",
    "clip-path": _URL,
    "patternUnits": "userSpaceOnUse",
    "fill": "none",
    "type": "text/css",
    # Neither addresses nor escapes, at-rules or other selectors.
    "style": rf"(?:[\w\s#:;.,%-]|{_URL})*",
    f"{{{XLINK}}}href": r"#[\w.-]+|data:image/png;base64,[A-Za-z0-9+/=\s]*",
}
"""Attribute -> the pattern of its values."""

_STYLE_SHEET = r"\s*\*\{[\w\s:;-]*\}\s*"


def drawn_svg(text: str) -> str:
    """Return the `<svg>` element of a drawing, written anew from what was checked, without metadata and comments.

    Raises:
        ValueError: the text is not XML, or holds what no drawing of ours has: scripts, other addresses, ...
    """
    # Not matplotlib's, and the only part of a document type that changes the content.
    if "<!ENTITY" in text:
        raise ValueError("found an XML entity, which no drawing has")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"not XML: {error}") from error
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    for element in root.iter():
        _check(element)
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return ElementTree.tostring(root, encoding="unicode").replace(" />", "/>")


def _check(element: ElementTree.Element) -> None:
    name = element.tag.removeprefix(f"{{{SVG}}}")
    if name not in ELEMENTS:
        raise ValueError(f"found the element {name!r}, which no drawing has")
    for key, value in element.attrib.items():
        if key not in _VALUES or not re.fullmatch(_VALUES[key], value):
            raise ValueError(f"found {key}={value[:60]!r} in the element {name!r}, which no drawing has")
    if name in ("title", "style") and len(element):
        raise ValueError(f"found an element inside the element {name!r}")
    if name == "style" and not re.fullmatch(_STYLE_SHEET, element.text or ""):
        raise ValueError(f"found the style sheet {(element.text or '')[:60]!r}, which no drawing has")
