"""Render the report as one self-contained web page, and as a PDF with Typst from PyPI: equal content, equal bytes.

The page has inlined figures, light and dark colours, and sortable tables. Drawings are read by a list of what ours
hold: results may come from others. The PDF is made offline, with Typst's own fonts.
"""

import hashlib
import json
import re
import shutil
import tempfile
from base64 import b64encode
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rankbound.io.atomic import atomic_path, write_text
from rankbound_study.figures import figure_file
from rankbound_study.figures.style import DARK, GRID, INK, MUTED
from rankbound_study.report.blocks import Document, FigureBlock, Paragraph, TableBlock
from rankbound_study.results.study_files import reading
from rankbound_study.templates import template

SYNTHETIC = (
    "<b>Synthetic data.</b> These lists and labels were generated to try out the workflow. "
    "They are no evidence about MovieLens, MQ2008 or the thesis."
)


def write_html(document: Document, results: Path, path: Path, home: str = "") -> None:
    """Write the page; figures are read from the results folder."""
    write_text(path, html(document, results, home))


def html(document: Document, results: Path, home: str = "") -> str:
    """Return the page; the same content gives the same bytes. `home` is the address of a page to go back to."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup, escape

    def prose(text: str) -> Markup:
        """Escape a text, and set what is between backticks as code."""
        return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(typeset(text)))))

    def drawing(block: FigureBlock) -> Markup:
        path = figure_file(results, block.name, ".svg")
        with reading(path):
            return Markup(inline_svg(path.read_text("utf-8"), block.name, f"{block.title}. {block.caption}"))

    environment = Environment(undefined=StrictUndefined, autoescape=True, keep_trailing_newline=True)
    environment.filters["prose"] = prose
    script = f"\n{template('sorting.js')}"
    colors = {
        "light": "".join(f"{variable(color)}: {color};" for color in DARK),
        "dark": "".join(f"{variable(color)}: {dark};" for color, dark in DARK.items()),
        **{name: variable(color) for name, color in (("ink", INK), ("muted", MUTED), ("grid", GRID))},
    }
    return environment.from_string(template("page.html")).render(
        document=document,
        home=home,
        synthetic=SYNTHETIC,
        drawing=drawing,
        style=environment.from_string(template("page.css")).render(colors),
        script=script,
        policy=policy_source(script),
    )


def policy_source(script: str) -> str:
    """Return the name of a script in the page's policy, by its hash: a browser runs no other one."""
    return f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def typeset(text: str) -> str:
    """Replace spaces before a percent sign and around ≥ by no-break spaces."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%").replace(" ≥ ", "\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}")


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
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return ElementTree.tostring(root, encoding="unicode").replace(" />", "/>")


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
    drawing = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', drawing)
    drawing = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', drawing)
    drawing = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", drawing)
    seen: set[str] = set()

    def labelled(match: re.Match[str]) -> str:
        """Make a titled part an image for screen readers, and hide it if another one has its title."""
        role = 'aria-hidden="true"' if match[3] in seen else 'role="img"'
        seen.add(match[3])
        return f"<{match[1]} {role}{match[2]}><title>{match[3]}</title>"

    drawing = re.sub(r"<(g|path|use)\b([^>]*)><title>([^<]*)</title>", labelled, drawing)
    for color in DARK:
        drawing = drawing.replace(color, f"var({variable(color)})")
    view = re.search(r'viewBox="([^"]+)"', drawing)
    width = re.search(r'width="([\d.]+)pt"', drawing)
    # The role `img` hides the parts of a drawing.
    role = "group" if seen else "img"
    opening = (
        f'<svg class="figure" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{view.group(1) if view else ""}" style="--width: {width.group(1) if width else 504}pt" '
        f'role="{role}" aria-labelledby="{name}-title"><title id="{name}-title">{escape(description)}</title>'
    )
    return (opening + drawing[drawing.index(">") + 1 :]).strip()


def variable(color: str) -> str:
    """Return the name of the CSS variable of a house colour."""
    return f"--c-{color.lstrip('#')}"


def write_pdf(document: Document, results: Path, path: Path) -> None:
    """Write the PDF; figures are read from the results folder, as PDF or, failing that, SVG.

    The file's date is the start of Unix time, so its bytes depend only on the content.
    """
    import typst

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "main.typ").write_text(template("report.typ"), "utf-8")
        sections = [
            vars(section)
            | {
                "findings": [vars(each) for each in section.findings],
                "blocks": [_content(block, results, folder) for block in section.blocks],
            }
            for section in document.sections
        ]
        content = json.dumps(vars(document) | {"sections": sections}, ensure_ascii=False)
        (folder / "content.json").write_text(typeset(content), "utf-8")
        with reading(results):
            compiled = typst.compile(folder / "main.typ", root=folder, ignore_system_fonts=True, timestamp=0)
    with atomic_path(path) as temporary:
        temporary.write_bytes(compiled)


def _content(block: TableBlock | FigureBlock | Paragraph, results: Path, folder: Path) -> dict[str, Any]:
    """Return what the template shows of a block; a figure's file is copied to the folder."""
    if isinstance(block, Paragraph):
        return {"kind": "paragraph", **vars(block)}
    if isinstance(block, FigureBlock):
        files = (figure_file(results, block.name, suffix) for suffix in (".pdf", ".svg"))
        source = next(path for path in files if path.exists())
        shutil.copyfile(source, folder / source.name)
        return {"kind": "figure", **vars(block), "file": source.name}
    columns, prose = range(len(block.header)), sorted(block.prose)
    # The number of characters that every column keeps for notes beside its numbers.
    numbers = set(columns[block.labels :]) - block.prose
    room = [max((len(row[column].note) for row in block.rows), default=0) * (column in numbers) for column in columns]
    # Relative widths: shares of the free width for prose, at most 1.8 times that of the shortest texts; 0 for a column
    # as wide as its text.
    texts = {column: sum(len(row[column].text) for row in block.rows) / max(1, len(block.rows)) for column in prose}
    lengths = {column: max(1.0, mean) for column, mean in texts.items()}
    least = min(lengths.values(), default=1.0)
    widths = [min(1.8, lengths[column] / least) if column in lengths else 0 for column in columns]
    rows = [[vars(cell) for cell in row] for row in block.rows]
    sets = {"rules": sorted(block.rules), "prose": prose, "room": room, "widths": widths}
    return {"kind": "table", **vars(block), **sets, "rows": rows}
