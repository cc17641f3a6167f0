"""The report's prose: Markdown files in `templates`, a heading `## NAME` above each piece, filled in by jinja2.

A module quotes the pieces of its own file, so that a changed sentence makes the tables and reports anew that have it.
"""

import re
from functools import cache
from importlib.resources import files
from typing import Any

from rankbound.texts import quantity
from rankbound_study.report.blocks import Finding, Paragraph
from rankbound_study.report.columns import signed
from rankbound_study.results.specs import score


def text(file: str, name: str, /, **facts: Any) -> str:
    """Return a piece in one line, with the facts in it.

    Raises:
        jinja2.UndefinedError: the piece names a fact that is not given.
    """
    piece = _pieces(file)[name]
    if facts:
        piece = _environment().from_string(piece).render(facts)
    return re.sub(r"[ \n]+", " ", piece).strip()


def finding(
    file: str, name: str, header: tuple[str, ...] = (), rows: tuple[tuple[str, ...], ...] = (), /, **facts: Any
) -> Finding:
    """Return a finding, whose headline is in bold in the piece, with a table of numbers."""
    headline, detail = _titled(file, name, facts)
    return Finding(headline, detail, header, rows)


def paragraph(file: str, name: str, /, **facts: Any) -> Paragraph:
    """Return a paragraph, whose title is in bold in the piece."""
    title, rest = _titled(file, name, facts)
    return Paragraph(title.removesuffix("."), rest)


def _titled(file: str, name: str, facts: dict[str, Any]) -> tuple[str, str]:
    title, _, rest = text(file, name, **facts).removeprefix("**").partition("**")
    return title.strip(), rest.strip()


@cache
def _pieces(file: str) -> dict[str, str]:
    _, *parts = re.split(r"^## (\S+)\n", files(__package__).joinpath("templates", file).read_text("utf-8"), flags=re.M)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@cache
def _environment() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, autoescape=False)
    environment.filters |= {
        "signed": signed,
        "four": score,
        "digits": "{:.4f}".format,
        "quantity": quantity,
        "bounding": lambda name: "no bounding" if name == "none" else f"{name} bounding",
    }
    return environment
