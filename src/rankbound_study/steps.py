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

from rankbound.texts import names, positive

TABLE: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
TYPES: Mapping[str, Callable[..., Any]] = {
    "path": Path, "int": int, "float": float, "positive": positive, "names": names
}  # fmt: skip


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
        _declare(parser, self.flags)
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


def _declare(parser: Any, flags: Sequence[Any]) -> None:
    """Declare flags of the table for a parser or a group of it."""
    for flag in flags:
        match flag:
            case "tests":
                from rankbound.commands.compare import add_test_flags

                add_test_flags(parser)
            case str(shared):
                _declare(parser, TABLE["shared"][shared])
            case {"group": title, "flags": inner}:
                _declare(parser.add_argument_group(title), inner)
            case {"either": inner}:
                _declare(parser.add_mutually_exclusive_group(), inner)
            case {"flag": text}:
                options: dict[str, Any] = {key: value for key, value in flag.items() if key != "flag"}
                if "type" in options:
                    kind = options["type"] = TYPES[options["type"]]
                    default = options.get("default")
                    options["default"] = list(map(kind, default)) if isinstance(default, list) else default
                parser.add_argument(*text.split(), **options)


STEPS = tuple(Step(name, **row) for name, row in TABLE["step"].items())
BY_NAME: Mapping[str, Step] = {step.name: step for step in STEPS}
