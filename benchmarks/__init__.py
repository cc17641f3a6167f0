"""Benchmarks against public libraries: time, memory, and their ratios to ours.

Each program is a module, whose flags `programs.yaml` lists; docs/benchmarks.md describes the method. `questions` has a
row for each question, `runner` measures them, `page` has the tables and the figure, `data` generates all data.
"""

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import yaml

from rankbound.commands import declare


def rows_of(name: str) -> Any:
    """Return the rows of a YAML file beside the programs."""
    return yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8"))


def asked(
    program: str, about: str | None, arguments: Sequence[str] | None, **choices: Collection[str]
) -> argparse.Namespace:
    """Return the values of a program's flags; `choices` are those of some, all of them by default."""
    flags = rows_of("programs")[program]
    for row in flags:
        if values := choices.get(row["flag"].strip("-")):
            row["choices"], row["help"] = list(values), row.get("help", ", ".join(values))
            if "nargs" in row:
                row.setdefault("default", list(values))
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about, formatter_class=raw)
    declare(parser, flags)
    return parser.parse_args(arguments)
