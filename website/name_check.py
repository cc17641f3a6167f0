"""Names and files that the pages mention: each has to exist, and every public name has its place in the reference.

Modules are read, not imported: some need packages that are not installed.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import rankbound
from website import WRITTEN

SOURCES = Path(rankbound.__file__).parents[1]
MENTIONED = re.compile(r"\brb\.([A-Za-z_]\w*)|\b(rankbound(?:\.[A-Za-z_]\w*)+)")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
ENTRY = re.compile(r"^::: (\S+)", re.MULTILINE)
FILES = {"rankbound.pdf"}
"""Texts that look like names of the library and are none."""


def unknown_names(docs: Path) -> Iterator[str]:
    """Yield a message for every name of the library on the hand-written pages that does not exist."""
    for page, number, line in _lines(docs):
        place = f"{docs.name}/{page.relative_to(docs)}:{number}"
        for short, long in MENTIONED.findall(line):
            if short and short not in rankbound.__all__:
                yield f"{place}: rb.{short} is no public name of rankbound: correct the name, or remove it"
            if long and long not in FILES and not exists(long):
                yield f"{place}: {long} does not exist: correct the name, or remove it"


def broken_links(docs: Path) -> Iterator[str]:
    """Yield a message for every link on the hand-written pages to a file that does not exist."""
    for page, number, line in _lines(docs):
        for target in LINK.findall(line):
            path = (page.parent / target).resolve()
            if not path.exists() and path not in {(docs / name).resolve() for name in WRITTEN}:
                yield f"{docs.name}/{page.relative_to(docs)}:{number}: {target} does not exist: correct the link"


def missing_entries(docs: Path) -> Iterator[str]:
    """Yield a message for every public name that the reference leaves out or has twice."""
    entries = [name for page in sorted((docs / "reference").glob("*.md")) for name in ENTRY.findall(page.read_text())]
    for name in rankbound.__all__:
        count = entries.count(f"rankbound.{name}")
        if count != 1 and not name.startswith("__"):
            yield f"{docs.name}/reference: {count} entries `::: rankbound.{name}`, expected one"


def _lines(docs: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield every line of the hand-written pages, with its page and number."""
    for page in sorted(set(docs.rglob("*.md")) - {docs / name for name in WRITTEN}):
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            yield page, number, line


def exists(name: str) -> bool:
    """Return whether a dotted name is a module of `rankbound`, or is defined or imported in one."""
    *parents, last = name.split(".")
    if _module_file(name) or (".".join(parents) == "rankbound" and last in rankbound.__all__):
        return True
    module = _module_file(".".join(parents))
    if module:
        return last in _names_in(module)
    # A member of a class: the class has to exist.
    return len(parents) > 2 and exists(".".join(parents))


def _module_file(name: str) -> Path | None:
    path = SOURCES.joinpath(*name.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def _names_in(module: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
    return names
