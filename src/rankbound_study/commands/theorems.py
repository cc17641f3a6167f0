"""The step `theorems`: check the theorems of the sources, which takes no results."""

import argparse
from pathlib import Path

SUMMARY = "Check the theorems of the sources: by all orders of short lists, by formulas, and by other libraries"
EXAMPLES = """\
  python -m rankbound_study theorems --out results/theorems.json

`python -m rankbound_study claims --theorems results/theorems.json` quotes the file beside what the results decide."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the JSON file to write")


def run(arguments: argparse.Namespace) -> None:
    """Check them, and write the rulings."""
    from rankbound_study.claims.theorems import check, write

    rulings = check()
    write(arguments.out, rulings)
    print(f"{len(rulings)} theorems")
