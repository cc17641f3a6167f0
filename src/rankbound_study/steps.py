"""The steps of the study as a table, `steps.toml`: each step's name, function, help and flags.

A step is a function of its flags, by their names. Its module is imported when the step runs. The digest of a step's
code (`config/code_digests.py`) is that of its row of the table and of its function: another row never reruns it.
"""

import argparse
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from rankbound import commands
from rankbound.commands import declare

TABLE: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


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


STEPS = tuple(Step(name, **row) for name, row in TABLE["step"].items())
BY_NAME: Mapping[str, Step] = {step.name: step for step in STEPS}
