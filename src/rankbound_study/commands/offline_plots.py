"""The step `offline-plots`: pages of `dvc plots` that work without a network."""

import argparse
from pathlib import Path

SUMMARY = "Make the pages of `dvc plots show` and `dvc plots diff` work without a network, in this checkout"
EXAMPLES = """\
  python -m rankbound_study offline-plots && dvc plots diff HEAD~1"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", default=Path(), help="the workflow's root (default: the working folder)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the template, and make DVC use it."""
    from rankbound_study.workflow.offline_plots import make_plots_offline

    template = make_plots_offline(arguments.folder)
    print(f"written: {template}; `dvc plots show` and `dvc plots diff` now write pages with all their scripts")
