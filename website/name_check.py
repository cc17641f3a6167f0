"""Names and files that the pages mention: each has to exist, and every public name has its place in the reference.

Modules are read, not imported: some need packages that are not installed.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import rankbound
from website import WRITTEN

MENTIONED = re.compile(r"\brb\.([A-Za-z_]\w*)|\b(rankbound(?:\.[A-Za-z_]\w*)+)")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
ENTRY = re.compile(r"^::: (\S+)", re.MULTILINE)
FILES = {"rankbound.pdf", "paper.pdf"}
"""Texts that look like names of the library and are none."""


def problems(docs: Path) -> Iterator[str]:
    """Yield what is wrong on the hand-written pages: names of the library and files that do not exist.

    Last the public names that the reference leaves out or has twice.
    """
    written = {(docs / name).resolve() for name in WRITTEN}
    for page in sorted(set(docs.resolve().rglob("*.md")) - written):
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            place = f"{docs.name}/{page.relative_to(docs.resolve())}:{number}"
            for short, long in MENTIONED.findall(line):
                if short and short not in rankbound.__all__:
                    yield f"{place}: rb.{short} is no public name of rankbound: correct the name, or remove it"
                if long and long not in FILES and not exists(long):
                    yield f"{place}: {long} does not exist: correct the name, or remove it"
            for target in LINK.findall(line):
                if not (page.parent / target).exists() and (page.parent / target).resolve() not in written:
                    yield f"{place}: {target} does not exist: correct the link"
    entries = [name for page in sorted(docs.rglob("*.md")) for name in ENTRY.findall(page.read_text())]
    for name in rankbound.__all__:
        count = entries.count(f"rankbound.{name}")
        if count != 1 and not name.startswith("__"):
            yield f"{docs.name}/reference: {count} entries `::: rankbound.{name}`, expected one"


def exists(name: str) -> bool:
    """Return whether a dotted name is a module of `rankbound`, or is defined or imported in one."""
    parent, _, last = name.rpartition(".")
    if _module_file(name) or (parent == "rankbound" and last in rankbound.__all__):
        return True
    if module := _module_file(parent):
        # A definition, an assignment, or an import, of several lines too.
        named = rf"^ *(?:class|def) {last}\b|^ *{last}\b *[:=,]|\bimport .*\b{last}\b"
        return re.search(named, module.read_text("utf-8"), re.MULTILINE) is not None
    # A member of a class: the class has to exist.
    return parent.count(".") > 1 and exists(parent)


def _module_file(name: str) -> Path | None:
    path = Path(rankbound.__file__).parents[1].joinpath(*name.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
