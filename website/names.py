"""Names of the library in code become links to their place in the reference.

An extension of Markdown: `rb.loss("RankNet")`, and in docstrings `SmoothLoss`, `read_lists` or `Metric.weighted`, link
to the entry of the public name. Single lower-case words do not: `loss` may be a key of a configuration.
"""

import re
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

import rankbound
from website.formulas import AFTER_INLINE

NAME = re.compile(r"(?:rb|rankbound)\.(\w+)|(\w+)\b")
NOT_INSIDE = {"a", "pre", "autoref", *(f"h{level}" for level in range(1, 7))}


def public_name(code: str) -> str | None:
    """Return the public name that a piece of code begins with, if it begins with one."""
    match = NAME.match(code)
    if not match:
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


def _outside(element: Element) -> Any:
    """Yield the elements whose code may become a link."""
    if element.tag not in NOT_INSIDE:
        yield element
        for child in element:
            yield from _outside(child)


class NamesExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(Names(md), "names", AFTER_INLINE)


def makeExtension(**settings: Any) -> NamesExtension:
    return NamesExtension(**settings)
