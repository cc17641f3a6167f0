"""The pages that repeat what stands in code: names, command lines, changes."""

import inspect
import io
import os
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from unittest.mock import patch

import rankbound
from rankbound import cli as library
from rankbound_study import cli as study

COLUMNS = 100
"""Width of the command line's help."""

NAMES = """\
# Reference

Every public name of `import rankbound as rb`. [Losses at a glance](../losses.md) and [metrics](metrics.md) have the
texts that `rb.loss` and `rb.metric` read; [the command line](command_line.md) its flags.

| name | what it is |
|---|---|
"""
SECONDARY = """\
---
search:
  boost: 0.5
---
"""
"""Of pages that repeat the words of others: the search ranks them lower."""
LIBRARY = """\
# Command line

`pip install '.[data]'` installs the program `rankbound`; comparisons need the extra `statistics`.
"""
STUDY = """\
# Steps of the study

Snakemake runs all of them; each can be run by hand, in a clone of the repository.
"""


def write(root: Path, docs: Path) -> None:
    """Write the pages into the folder of the other pages."""
    reference = docs / "reference"
    public = [name for name in rankbound.__all__ if not name.startswith("_")]
    first_lines = ((inspect.getdoc(getattr(rankbound, name)) or "").partition("\n")[0] for name in public)
    rows = (f"| `rb.{name}` | {line} |\n" for name, line in zip(public, first_lines, strict=True))
    (reference / "index.md").write_text(NAMES + "".join(rows), "utf-8")
    commands = _helped(LIBRARY, library.SUBCOMMANDS, library.main)
    (reference / "command_line.md").write_text(commands, "utf-8")
    (reference / "steps.md").write_text(_helped(STUDY, list(study.step_modules()), study.main), "utf-8")
    changes = (root / "CHANGELOG.md").read_text("utf-8")
    (docs / "changes.md").write_text(SECONDARY + changes.replace("](docs/", "]("), "utf-8")


def _helped(introduction: str, names: Sequence[str], main: Callable[[Sequence[str]], int]) -> str:
    """Return a page of what subcommands print for `--help`."""
    page = SECONDARY + introduction
    for name in names:
        printed = io.StringIO()
        with redirect_stdout(printed), suppress(SystemExit), patch.dict(os.environ, {"COLUMNS": str(COLUMNS)}):
            main([name, "--help"])
        page += f"\n## {name}\n\n```text\n{printed.getvalue()}```\n"
    return page
