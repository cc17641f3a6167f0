"""What MkDocs lacks, inside MkDocs: an extension of Markdown, and one of griffe, which reads docstrings.

Formulas become MathML when the site is built, which browsers draw and screen readers read: no script, no font and no
network where it is read. `pymdownx.arithmatex` (with `generic: true`) marks them.

Names of the library in code become links to their place in the reference: `rb.loss("RankNet")`, and in docstrings
`SmoothLoss`, `read_lists` or `Metric.weighted`, link to the entry of the public name. Single lower-case words do not:
`loss` may be a key of a configuration.

Examples of docstrings become code: Markdown takes `>>> ` for a quotation in a quotation in a quotation.
"""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import griffe
from latex2mathml.converter import convert_to_element
from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.exceptions import BuildError

import rankbound

AFTER_INLINE = 15
"""Markdown's own inline patterns have priority 20: by then arithmatex has marked all formulas."""

WORD = re.compile(r"\\mathrm\{([^{}\\]{2,})\}")
NAME = re.compile(r"(?:rb|rankbound)\.(\w+)|(\w+)\b")
NOT_INSIDE = {"a", "pre", "autoref", *(f"h{level}" for level in range(1, 7))}
EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Formulas(Treeprocessor):
    """Replace the LaTeX of every marked formula by MathML."""

    def run(self, root: Element) -> None:
        for marked in root.iter():
            if marked.get("class") == "arithmatex":
                latex = html.unescape(marked.text or "")
                marked.text = None
                text, display = latex[2:-2].strip(), "block" if latex.startswith(r"\[") else "inline"
                try:
                    marked.append(formula(text, display))
                except ValueError as error:
                    raise BuildError(f"{_place(text)}: {error}") from None


def _place(text: str) -> str:
    """Return the first place of a text in pages and docstrings: Markdown knows neither its file nor its line."""
    for file in (*sorted(Path("docs").rglob("*.md")), *sorted(Path("src").rglob("*.py"))):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            if text.partition("\n")[0] in line:
                return f"{file}:{number}"
    return "docs"


def formula(latex: str, display: str) -> Element:
    """Return the MathML of a formula without delimiters, as `block` or `inline`; ValueError for unknown commands."""
    # Upright words as a word, not as a product of letters.
    element: Element = convert_to_element(WORD.sub(r"\\text{\1}", latex), display=display)
    unknown = [part.text for part in element.iter() if (part.text or "").startswith("\\")]
    if unknown:
        raise ValueError(f"formula {latex!r}: {unknown[0]} is no command that latex2mathml knows: write it otherwise")
    return element


def public_name(code: str) -> str | None:
    """Return the public name that a piece of code begins with, if it begins with one."""
    if not (match := NAME.match(code)):
        return None
    name = match[1] or match[2]
    distinct = match[1] or "_" in name.strip("_") or name[0].isupper()
    return name if distinct and name in rankbound.__all__ and name.strip("_") == name else None


class Names(Treeprocessor):
    """Wrap code that begins with a public name in a reference, which mkdocs-autorefs resolves."""

    def run(self, root: Element) -> None:
        for parent in list(_outside(root)):
            for place, child in enumerate(parent):
                name = public_name(child.text or "") if child.tag == "code" else None
                if name:
                    reference = Element("autoref", {"identifier": f"rankbound.{name}"})
                    reference.tail, child.tail = child.tail, None
                    reference.append(child)
                    parent[place] = reference


def _outside(element: Element) -> Iterator[Element]:
    """Yield the elements whose code may become a link."""
    if element.tag not in NOT_INSIDE:
        yield element
        for child in element:
            yield from _outside(child)


class SiteExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(Formulas(md), "formulas", AFTER_INLINE)
        md.treeprocessors.register(Names(md), "names", AFTER_INLINE)


def makeExtension(**settings: Any) -> SiteExtension:
    return SiteExtension(**settings)


class FencedExamples(griffe.Extension):
    """Put every example of a docstring, up to the next empty line, into a fenced block."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", obj.docstring.value)
