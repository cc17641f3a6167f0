"""Examples of docstrings as code: Markdown takes `>>> ` for a quotation in a quotation in a quotation.

An extension of griffe, which reads the docstrings for mkdocstrings.
"""

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class FencedExamples(Extension):
    """Put every example into a fenced block."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    """Return a docstring whose examples, up to the next empty line each, are fenced."""
    return EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", docstring)
