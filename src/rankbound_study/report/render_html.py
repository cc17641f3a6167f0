"""Render the report as one self-contained web page: inlined figures, light and dark colours, sortable tables."""

import hashlib
import re
from base64 import b64encode
from pathlib import Path

from rankbound_study.figures import figure_file
from rankbound_study.figures.style import DARK, GRID, INK, MUTED
from rankbound_study.report.blocks import Document, FigureBlock, typeset
from rankbound_study.report.inline_svg import inline_svg, variable
from rankbound_study.report.output import template, write_text
from rankbound_study.results.specs import reading

SYNTHETIC = (
    "<b>Synthetic data.</b> These lists and labels were generated to try out the workflow. "
    "They are no evidence about MovieLens, MQ2008 or the thesis."
)


def write(document: Document, results: Path, path: Path, home: str = "") -> None:
    """Write the page; figures are read from the results folder."""
    write_text(path, render(document, results, home))


def render(document: Document, results: Path, home: str = "") -> str:
    """Return the page; the same content gives the same bytes. `home` is the address of a page to go back to."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup, escape

    def prose(text: str) -> Markup:
        """Escape a text, and set what is between backticks as code."""
        return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(typeset(text)))))

    def drawing(block: FigureBlock) -> Markup:
        path = figure_file(results, block.name, ".svg")
        with reading(path):
            drawn = inline_svg(path.read_text("utf-8"), block.name, f"{block.title}. {block.caption}")
        return Markup(drawn)

    environment = Environment(undefined=StrictUndefined, autoescape=True, keep_trailing_newline=True)
    environment.filters["prose"] = prose
    script = f"\n{template('sorting.js')}"
    colors = {
        "light": "".join(f"{variable(color)}: {color};" for color in DARK),
        "dark": "".join(f"{variable(color)}: {dark};" for color, dark in DARK.items()),
    }
    named = {"ink": variable(INK), "muted": variable(MUTED), "grid": variable(GRID)}
    return environment.from_string(template("page.html")).render(
        document=document,
        home=home,
        synthetic=SYNTHETIC,
        drawing=drawing,
        style=environment.from_string(template("page.css")).render(colors | named),
        script=script,
        policy=policy_source(script),
    )


def policy_source(script: str) -> str:
    """Return the name of a script in the page's policy, by its hash: a browser runs no other one."""
    return f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
