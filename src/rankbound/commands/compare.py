"""`rankbound compare`: how sure one can be that two runs differ, or that they don't."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound.commands._columns import add_column_flags
from rankbound.commands.comparison_flags import add_test_flags, print_report, settings_of
from rankbound.errors import ConfigError

if TYPE_CHECKING:
    from rankbound.compare.report import Report

SUMMARY = "Compare two runs topic by topic: difference, interval, tests, effect size, margins"
EXAMPLES = """\
  rankbound compare a.txt b.txt --qrels qrels.txt -m nDCG@10 -m AP
  rankbound compare a.csv b.csv --margin 0.01

A and B are two runs that QRELS judge (any files that `rankbound evaluate` takes), or two files of scores by topic
(`rankbound evaluate --per-topic --json`, or a table with the columns topic, maybe fold and seed, and one for each
metric). What both have is compared, and what one of them lacks is named. Positive differences are A's.
docs/statistics.md says what the numbers mean."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("a_file", type=Path, metavar="A", help="a run, or scores by topic")
    parser.add_argument("b_file", type=Path, metavar="B", nargs="?", help="what A is compared with")
    parser.add_argument("--qrels", type=Path, metavar="QRELS", help="judgements, where A and B are runs")
    parser.add_argument(
        "-m", "--metric", dest="metrics", action="append", default=[], metavar="METRIC", help="may be repeated"
    )
    parser.add_argument(
        "--names", default="rankbound", metavar="LIBRARY", help="whose names the metrics have: rankbound, ir_measures"
    )
    parser.add_argument(
        "--missing",
        default="skip",
        choices=("skip", "zero"),
        help="topics of QRELS that a run does not have: left out (default), or counted as nothing retrieved",
    )
    add_test_flags(parser)
    add_column_flags(parser)


def run(arguments: argparse.Namespace) -> None:
    """Compare and print."""
    print_report(arguments, _report)


def _report(arguments: argparse.Namespace) -> "Report":
    from rankbound.compare import compare_files

    settings = settings_of(arguments)
    if arguments.a_file.is_dir():
        raise ConfigError(
            f"{arguments.a_file}: found a folder, expected a file; results of the study are compared by "
            "`python -m rankbound_study compare`"
        )
    files = _both(arguments.a_file, arguments.b_file)
    if arguments.qrels is None:
        return compare_files.compare_scores(files, arguments.metrics, settings)
    columns = {name: getattr(arguments, name) for name in ("topic", "item", "relevance")}
    qrels = compare_files.Judged(arguments.qrels, columns, arguments.missing)
    return compare_files.compare_trec(files, qrels, arguments.metrics, arguments.names, settings)


def _both(a: Path, b: Path | None) -> tuple[Path, Path]:
    if b is None:
        raise ConfigError(f"{a}: found one file, expected two")
    return a, b
