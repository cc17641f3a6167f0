"""The step `compare`: selections of runs tables, compared topic by topic."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound.commands.compare import add_test_flags, print_report
from rankbound_study.commands._selection_flags import add_selection_flags, given_selection

if TYPE_CHECKING:
    from rankbound.compare.comparison import Settings
    from rankbound.compare.report import Report

SUMMARY = "Compare runs of results topic by topic: difference, interval, tests, effect size, margins"
EXAMPLES = """\
  python -m rankbound_study compare results --dataset movielens --nsr 1 --loss AP --a bounding=none --b bounding=min-max
  python -m rankbound_study compare results --nsr 1 --a model=popularity --b loss=nDCG bounding=none \\
      --margin noise --json
  python -m rankbound_study compare results other/results -m nDCG@10 --csv

A and B are two results folders or runs tables; without B, two selections of A. Topics that both have are compared,
and those that one lacks are named. Positive differences favour A. docs/statistics.md explains the numbers."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("a_file", type=Path, metavar="A", help="a results folder, or a runs table")
    parser.add_argument("b_file", type=Path, metavar="B", nargs="?", help="compared with A (default: A itself)")
    parser.add_argument(
        "-m", "--metric", dest="metrics", action="append", default=[], metavar="METRIC", help="may be repeated"
    )
    add_test_flags(parser)
    group = add_selection_flags(
        parser, "which runs are compared (default: the honest protocol, if both have it; its own selection)"
    )
    for side in ("a", "b"):
        group.add_argument(
            f"--{side}",
            nargs="+",
            action="extend",
            default=[],
            metavar="KEY=VALUE",
            help=f"applies to {side.upper()} only",
        )


def run(arguments: argparse.Namespace) -> None:
    """Compare and print."""
    print_report(arguments, lambda settings: _report(arguments, settings))


def _report(arguments: argparse.Namespace, settings: "Settings") -> "Report":
    from rankbound_study.results.compare_runs import Choice, compare_runs

    choice = Choice.of(given_selection(arguments), arguments.a, arguments.b)
    files = (arguments.a_file, arguments.b_file or arguments.a_file)
    return compare_runs(files, choice, arguments.metrics, settings)
