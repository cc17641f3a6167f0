"""The study's command line: `python -m rankbound_study STEP`, with a record of each step if requested."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rankbound.cli import build_parser, run
from rankbound_study.steps import BY_NAME, STEPS, loaded

RECORDS_VARIABLE = "RANKBOUND_PROVENANCE"
"""Environment variable: the folder, inside the results folder, for step records (`rankbound_study.provenance`)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `python -m rankbound_study ARGUMENTS`; the exit status is that of `rankbound.cli.run`."""
    return run(own_parser(), list(sys.argv[1:] if argv is None else argv), _recorded)


def own_parser() -> argparse.ArgumentParser:
    """Return the parser of all steps."""
    return build_parser(
        "python -m rankbound_study",
        "The steps of the study, from raw archives to the document. Snakemake runs them all: `snakemake --cores 2`.",
        [(step.name, step.summary, step.help, step.configure, step.run) for step in STEPS],
    )


def _recorded(arguments: argparse.Namespace) -> AbstractContextManager[None]:
    """Leave a record of the step if the workflow requests one."""
    folder = os.environ.get(RECORDS_VARIABLE)
    if not folder:
        return nullcontext()
    from rankbound_study.provenance.records import recorded

    also = BY_NAME[arguments.subcommand].also_read
    return recorded(arguments, Path(folder), loaded(also)(**vars(arguments)) if also else {})
