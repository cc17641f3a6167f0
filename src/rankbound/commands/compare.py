"""`rankbound compare`: test two runs for a difference, or for equivalence."""

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

A and B are two runs (any files that `rankbound evaluate` reads) with their QRELS, or two files of per-topic scores
(`rankbound evaluate --per-topic --json`, or a table with the columns topic, optionally fold and seed, and one per
metric). The comparison covers the topics that both have, and lists what is left out. Differences are A minus B.
The page docs/statistics.md of the repository explains the numbers."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("a_file", type=Path, metavar="A", help="a run, or per-topic scores")
    parser.add_argument("b_file", type=Path, metavar="B", nargs="?", help="the file to compare A with")
    parser.add_argument("--qrels", type=Path, metavar="QRELS", help="judgements, if A and B are runs")
    parser.add_argument(
        "-m", "--metric", dest="metrics", action="append", default=[], metavar="METRIC", help="may be repeated"
    )
    parser.add_argument(
        "--names",
        default="rankbound",
        metavar="LIBRARY",
        help="whose names of metrics are used: rankbound (default), ir_measures, trec_eval",
    )
    parser.add_argument(
        "--missing",
        default="skip",
        choices=("skip", "zero"),
        help="topics of QRELS that a run lacks: left out (default), or evaluated as empty results",
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
            f"{arguments.a_file}: found a folder, expected a file; compare results folders of the study with "
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
