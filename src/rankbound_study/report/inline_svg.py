"""A figure's SVG file as part of a web page: named for screen readers, unique ids, colours that follow the page."""

import re
from html import escape

from rankbound_study.figures.style import DARK


def inline_svg(text: str, name: str, description: str) -> str:
    """The `<svg>` element of a file that `rankbound_study.figures.style.save` wrote, ready to stand in HTML.

    Its ids get the prefix `name`, its house colours become the page's variables `--c-HEX`, its size follows its frame.
    Screen readers say the description, and after it each part that has a title.
    """
    drawing = text[text.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>\s*", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"<!--.*?-->\s*", "", drawing, flags=re.DOTALL)
    # matplotlib's style sheet speaks of every element (`*`): on a page that would be all of the page.
    drawing = re.sub(r"<style[^>]*>\*\{", "<style>svg.figure *{", drawing)
    drawing = _unique_ids(drawing, name)
    drawing, parts = _told_once(drawing)
    for color in DARK:
        drawing = drawing.replace(color, f"var({variable(color)})")
    view = re.search(r'viewBox="([^"]+)"', drawing)
    width = re.search(r'width="([\d.]+)pt"', drawing)
    # An image would hide its parts.
    role = "group" if parts else "img"
    opening = (
        f'<svg class="figure" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{view.group(1) if view else ""}" style="--width: {width.group(1) if width else 504}pt" '
        f'role="{role}" aria-labelledby="{name}-title"><title id="{name}-title">{escape(description)}</title>'
    )
    return (opening + drawing[drawing.index(">") + 1 :]).strip()


def variable(color: str) -> str:
    """The CSS variable of a house colour."""
    return f"--c-{color.lstrip('#')}"


def _told_once(drawing: str) -> tuple[str, int]:
    """Every part of the drawing with a title as an image of its own to screen readers, equal titles only once."""
    seen: set[str] = set()

    def told(match: re.Match[str]) -> str:
        role = 'aria-hidden="true"' if match[3] in seen else 'role="img"'
        seen.add(match[3])
        return f"<{match[1]} {role}{match[2]}><title>{match[3]}</title>"

    return re.sub(r"<(g|path|use)\b([^>]*)><title>([^<]*)</title>", told, drawing), len(seen)


def _unique_ids(drawing: str, name: str) -> str:
    drawing = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', drawing)
    drawing = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', drawing)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", drawing)
