"""Formulas as MathML when the site is built: no script, no font and no network where it is read.

An extension of Markdown that turns what `pymdownx.arithmatex` marks (with `generic: true`) into MathML, which browsers
draw and screen readers read.
"""

import html
import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element
from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.exceptions import BuildError

AFTER_INLINE = 15
"""Markdown's own inline patterns have priority 20: by then arithmatex has marked all formulas."""

WORD = re.compile(r"\\mathrm\{([^{}\\]{2,})\}")


class Formulas(Treeprocessor):
    """Replace the LaTeX of every marked formula by MathML."""

    def run(self, root: Element) -> None:
        for marked in root.iter():
            if marked.get("class") == "arithmatex":
                latex = html.unescape(marked.text or "")
                marked.text = None
                marked.append(_located(latex[2:-2].strip(), "block" if latex.startswith(r"\[") else "inline"))


def _located(latex: str, display: str) -> Element:
    """Return the MathML of a formula; an error names its file and line."""
    try:
        return formula(latex, display)
    except ValueError as error:
        raise BuildError(f"{_place(latex)}: {error}") from None


def _place(text: str) -> str:
    """Return the first place of a text in pages and docstrings: Markdown knows neither its file nor its line."""
    for file in (*sorted(Path("docs").rglob("*.md")), *sorted(Path("src").rglob("*.py"))):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            if text.partition("\n")[0] in line:
                return f"{file}:{number}"
    return "docs"


def formula(latex: str, display: str) -> Element:
    """Return the MathML of a formula.

    Args:
        latex: the formula without its delimiters.
        display: `block` or `inline`.

    Raises:
        ValueError: for a command that the converter does not know.
    """
    # Upright words as a word, not as a product of letters.
    element: Element = convert_to_element(WORD.sub(r"\\text{\1}", latex), display=display)
    unknown = [part.text for part in element.iter() if (part.text or "").startswith("\\")]
    if unknown:
        raise ValueError(f"formula {latex!r}: {unknown[0]} is no command that latex2mathml knows: write it otherwise")
    return element


class FormulasExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(Formulas(md), "formulas", AFTER_INLINE)


def makeExtension(**settings: Any) -> FormulasExtension:
    return FormulasExtension(**settings)
