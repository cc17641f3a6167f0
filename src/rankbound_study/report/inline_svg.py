"""Inline a figure's SVG file in a web page, with titles for screen readers, unique ids and the page's colours."""

import re
from html import escape

from rankbound_study.figures.style import DARK
from rankbound_study.report.drawn_svg import drawn_svg


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
