"""Inline a figure's SVG file in a web page, read by a list of what drawings hold: results may come from others."""

import re
from html import escape
from xml.etree import ElementTree

from rankbound_study.figures.style import DARK

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


def inline_svg(text: str, name: str, description: str) -> str:
    """Return the `<svg>` element of a file written by `rankbound_study.figures.style.save`, ready for HTML.

    Its ids get the prefix `name`, its house colours become the page's variables `--c-HEX`, and its size follows its
    container. Screen readers read the description and then the titles of its parts.

    Raises:
        ValueError: it holds what no drawing of ours has.
    """
    drawing = drawn_svg(text)
    # matplotlib's style sheet selects every element (`*`), which would be the whole page.
    drawing = re.sub(r"<style[^>]*>\*\{", "<style>svg.figure *{", drawing)
    drawing = _unique_ids(drawing, name)
    drawing, parts = _titled_once(drawing)
    for color in DARK:
        drawing = drawing.replace(color, f"var({variable(color)})")
    view = re.search(r'viewBox="([^"]+)"', drawing)
    width = re.search(r'width="([\d.]+)pt"', drawing)
    # The role `img` hides the parts of a drawing.
    role = "group" if parts else "img"
    opening = (
        f'<svg class="figure" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{view.group(1) if view else ""}" style="--width: {width.group(1) if width else 504}pt" '
        f'role="{role}" aria-labelledby="{name}-title"><title id="{name}-title">{escape(description)}</title>'
    )
    return (opening + drawing[drawing.index(">") + 1 :]).strip()


def variable(color: str) -> str:
    """Return the name of the CSS variable of a house colour."""
    return f"--c-{color.lstrip('#')}"


def _titled_once(drawing: str) -> tuple[str, int]:
    """Make each titled part an image for screen readers, and hide repeated titles; also return the number of titles."""
    seen: set[str] = set()

    def labelled(match: re.Match[str]) -> str:
        role = 'aria-hidden="true"' if match[3] in seen else 'role="img"'
        seen.add(match[3])
        return f"<{match[1]} {role}{match[2]}><title>{match[3]}</title>"

    return re.sub(r"<(g|path|use)\b([^>]*)><title>([^<]*)</title>", labelled, drawing), len(seen)


def _unique_ids(drawing: str, name: str) -> str:
    drawing = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', drawing)
    drawing = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', drawing)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", drawing)
