"""The study's prose: Markdown files with a heading `## NAME` above each piece, filled in by jinja2; the page beside.

A piece may begin with a title in bold, and end with the columns of a table. A module quotes the pieces of its own file,
so that a changed sentence makes the figures, tables and reports anew that have it.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from rankbound.texts import quantity
from rankbound_study.results.study_files import score, signed


def template(name: str) -> str:
    """Read a file of this folder."""
    return files(__package__).joinpath(name).read_text("utf-8")


def text(file: str, name: str, /, **facts: Any) -> str:
    """Return a piece in one line, with the facts in it and without the table below it.

    Raises:
        jinja2.UndefinedError: the piece names a fact that is not given.
    """
    return re.sub(r"[ \n]+", " ", _filled(pieces(file)[name].partition("\n|")[0], facts)).strip()


def titled(file: str, name: str, /, **facts: Any) -> tuple[str, str]:
    """Return the title in bold at the start of a piece, and the rest."""
    title, _, rest = text(file, name, **facts).removeprefix("**").partition("**")
    return title.strip(), rest.strip()


def table_below(file: str, name: str, /, **facts: Any) -> tuple[list[list[str]], str]:
    """Return the columns of the pipe table below a piece, each with its cells from the top, and what stands below.

    Titles have facts in them, too; a column is left out if these leave its title empty.
    """
    piece = pieces(file)[name]
    lines = re.findall(r"^\|(.*)\|$", piece, flags=re.M)
    columns = zip(*([cell.strip() for cell in line.split("|")] for line in lines), strict=True)
    filled = [(title, _filled(title, facts), *below) for title, *below in columns]
    return [own for title, *own in filled if own[0] or not title], piece.rpartition("|\n")[2] if lines else ""


@cache
def pieces(file: str) -> dict[str, str]:
    """Return the pieces of a file by name."""
    _, *parts = re.split(r"^## (\S+)\n", template(file), flags=re.M)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _filled(text: str, facts: Mapping[str, Any]) -> str:
    return str(_environment().from_string(text).render(facts)) if facts else text


@cache
def _environment() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, autoescape=False)
    environment.filters |= {
        "signed": lambda value: signed(value).replace("-", "−"),
        "four": score,
        "digits": "{:.4f}".format,
        "quantity": quantity,
        "bounding": lambda name: "no bounding" if name == "none" else f"{name} bounding",
    }
    return environment
