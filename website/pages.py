"""The pages that repeat what stands in code: names, command lines, changes."""

import inspect
import io
import os
import re
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from jinja2 import Environment, PackageLoader, StrictUndefined

import rankbound
from rankbound import cli as library
from rankbound import names as other_names
from rankbound_study import cli as study
from rankbound_study.report.render import typeset

WIDTH = {"COLUMNS": "100"}
"""Width of the command line's help."""


def write(root: Path, docs: Path) -> None:
    """Write the pages into the folder of the other pages."""
    reference = docs / "reference"
    public = [name for name in rankbound.__all__ if not name.startswith("_")]
    names = [(name, (inspect.getdoc(getattr(rankbound, name)) or "").partition("\n")[0]) for name in public]
    (reference / "index.md").write_text(filled("names.md", names=names), "utf-8")
    (reference / "names.md").write_text(filled("other_names.md", rows=other_names.table()), "utf-8")
    for page, steps, main in (("command_line", library.SUBCOMMANDS, library.main), ("steps", study.STEPS, study.main)):
        helped = {name: _printed(main, [name, "--help"]) for name in steps}
        (reference / f"{page}.md").write_text(filled("commands.md", page=page, commands=helped), "utf-8")
    changes = (root / "CHANGELOG.md").read_text("utf-8").replace("](docs/", "](")
    (docs / "changes.md").write_text(filled("changes.md", changes=changes), "utf-8")


def filled(template: str, **facts: Any) -> str:
    """Return a page of `templates`, filled in; its filters show the characters of a text as they are."""
    layout: dict[str, Any] = {"trim_blocks": True, "keep_trailing_newline": True}
    environment = Environment(loader=PackageLoader("website"), undefined=StrictUndefined, **layout)
    plain = partial(re.sub, r"([*_<`$\\])", r"\\\1")
    environment.filters |= {"plain": plain, "text": lambda text: plain(typeset(text))}
    return environment.get_template(template).render(facts)


def _printed(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> str:
    with redirect_stdout(io.StringIO()) as out, suppress(SystemExit), patch.dict(os.environ, WIDTH):
        main(arguments)
    return out.getvalue()
