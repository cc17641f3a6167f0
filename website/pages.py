"""The pages that repeat what stands in code: names, command lines, changes."""

import inspect
import io
import os
from collections.abc import Callable, Iterator, Sequence
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
    (reference / "index.md").write_text(NAMES + "".join(_rows()), "utf-8")
    commands = _helped(LIBRARY, "rankbound", library.SUBCOMMANDS, library.main)
    (reference / "command_line.md").write_text(commands, "utf-8")
    steps = _helped(STUDY, "python -m rankbound_study", list(study.step_modules()), study.main)
    (reference / "steps.md").write_text(steps, "utf-8")
    changes = (root / "CHANGELOG.md").read_text("utf-8")
    (docs / "changes.md").write_text(SECONDARY + changes.replace("](docs/", "]("), "utf-8")


def _rows() -> Iterator[str]:
    """Yield the table's row of every public name: its call, and the first line of its docstring."""
    for name in rankbound.__all__:
        if not name.startswith("_"):
            first = (inspect.getdoc(getattr(rankbound, name)) or "").partition("\n")[0]
            yield f"| `rb.{name}` | {first} |\n"


def _helped(introduction: str, program: str, names: Sequence[str], main: Callable[[Sequence[str]], int]) -> str:
    sections = (f"\n## {name}\n\n```text\n{_help(main, name)}```\n" for name in names)
    return SECONDARY + introduction + "".join(sections)


def _help(main: Callable[[Sequence[str]], int], name: str) -> str:
    """Return what a subcommand prints for `--help`."""
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit), patch.dict(os.environ, {"COLUMNS": str(COLUMNS)}):
        main([name, "--help"])
    return printed.getvalue()
