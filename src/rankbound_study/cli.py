"""The study's command line: `python -m rankbound_study STEP`, with a record of each step if requested."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from pkgutil import iter_modules

from rankbound.cli import USAGE_ERROR, build_parser, run
from rankbound_study import commands

RECORDS_VARIABLE = "RANKBOUND_PROVENANCE"
"""Environment variable: the folder, inside the results folder, for step records (`rankbound_study.provenance`)."""


GONE = {"dvc-stages": "nothing writes dvc.yaml any more: it lists folders, and is edited by hand: docs/dvc.md"}
"""Former steps, and what to do instead."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `python -m rankbound_study ARGUMENTS`; the exit status is that of `rankbound.cli.run`."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in GONE:
        print(f"python -m rankbound_study {words[0]}: {GONE[words[0]]}", file=sys.stderr)
        return USAGE_ERROR
    parser = build_parser(
        "python -m rankbound_study",
        "The steps of the study, from raw archives to the document. Snakemake runs them all: `snakemake --cores 2`.",
        step_modules(),
    )
    return run(parser, words, _recorded)


def step_modules() -> dict[str, str]:
    """Return the module of every step, by its name on the command line."""
    names = sorted(module.name for module in iter_modules(commands.__path__) if not module.name.startswith("_"))
    return {name.replace("_", "-"): f"{commands.__name__}.{name}" for name in names}


def _recorded(arguments: argparse.Namespace) -> AbstractContextManager[None]:
    """Leave a record of the step if the workflow requests one."""
    folder = os.environ.get(RECORDS_VARIABLE)
    if not folder:
        return nullcontext()
    from rankbound_study.provenance.recorder import recorded

    return recorded(arguments, Path(folder))
