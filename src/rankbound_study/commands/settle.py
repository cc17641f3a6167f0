"""The step `settle`: mark the files that `dvc pull` restored as current for Snakemake."""

import argparse
from pathlib import Path

SUMMARY = "After `dvc pull`: mark the files as current for Snakemake, if all match DVC's lock file"
EXAMPLES = """\
  dvc pull && python -m rankbound_study settle && snakemake -n"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", default=Path(), help="the workflow's root (default: the working folder)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Check and settle."""
    from rankbound_study.workflow.settle import settle

    missing = settle(arguments.folder)
    if missing:
        print(f"settled, except outputs with licensed pictures: `snakemake --cores 2` makes {', '.join(missing)}")
    else:
        print("settled: `snakemake -n` has nothing to do; an edit reruns what depends on it")
