"""The step `dvc-stages`: write dvc.yaml from the configuration."""

import argparse
from pathlib import Path

SUMMARY = "Write dvc.yaml: stages that name the workflow's outputs for config.yaml"
EXAMPLES = """\
  python -m rankbound_study dvc-stages
  python -m rankbound_study dvc-stages --check && dvc repro"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", default=Path(), help="the workflow's root (default: the working folder)"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if dvc.yaml does not name the workflow's outputs"
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the file, or check it."""
    from rankbound.errors import ConfigError
    from rankbound_study.workflow.dvc_stages import WRITE, misfits, write_stages

    if not arguments.check:
        print(f"written: {write_stages(arguments.folder)}")
        return
    problems = misfits(arguments.folder)
    if problems:
        raise ConfigError("\n  ".join(["dvc.yaml does not match config.yaml:", *problems, f"write it anew: {WRITE}"]))
