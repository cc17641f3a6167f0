"""The study's command line: `python -m rankbound_study STEP`, with a record of each step if requested.

The steps are a table, `steps.toml`: each step's name, function, help and flags. A step is a function of its flags, by
their names. Its module is imported when the step runs. The digest of a step's code (`config/code_digests.py`) is that
of its row of the table and of its function: another row never reruns it.
"""

import argparse
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from rankbound import commands
from rankbound.cli import build_parser, run
from rankbound.commands import declare

TABLE: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("steps.toml").read_text("utf-8"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run `python -m rankbound_study ARGUMENTS`; the exit status is that of `rankbound.cli.run`."""
    return run(own_parser(), list(sys.argv[1:] if argv is None else argv), _recorded)


def own_parser() -> argparse.ArgumentParser:
    """Return the parser of all steps."""
    return build_parser(
        "python -m rankbound_study",
        "The steps of the study, from raw archives to the document. Snakemake runs them all: `snakemake --cores 2`.",
        [(step.name, step.summary, step.help, step.configure, step.run) for step in STEPS.values()],
    )


def _recorded(arguments: argparse.Namespace) -> AbstractContextManager[None]:
    """Leave a record of the step if the workflow names a folder for records, inside the results folder."""
    folder = os.environ.get("RANKBOUND_PROVENANCE")
    if not folder:
        return nullcontext()
    from rankbound_study.provenance.records import recorded

    also = STEPS[arguments.subcommand].also_read
    return recorded(arguments, Path(folder), loaded(also)(**vars(arguments)) if also else {})


class Step(NamedTuple):
    """A row of the table, which explains its keys."""

    name: str
    function: str
    summary: str
    flags: Sequence[Any]
    examples: str
    named: str = ""
    also_read: str = ""

    @property
    def help(self) -> str:
        """The examples as they are shown."""
        return re.sub(r"^\$ ", "  python -m rankbound_study ", self.examples.strip("\n"), flags=re.M)

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        declare(parser, self.flags, {**commands.TABLE["shared"], **TABLE["shared"]})
        if self.named:
            parser.set_defaults(name=self.named)

    def run(self, arguments: argparse.Namespace) -> int | None:
        """Run the step, and return its exit status; None for success."""
        values = {name: value for name, value in vars(arguments).items() if name not in ("run", "subcommand")}
        status: int | None = loaded(self.function)(**values)
        return status


def loaded(path: str) -> Callable[..., Any]:
    """Return a function by its `module:function`."""
    module, name = path.split(":")
    function: Callable[..., Any] = getattr(import_module(f"rankbound_study.{module}"), name)
    return function


STEPS: Mapping[str, Step] = {name: Step(name, **row) for name, row in TABLE["step"].items()}
