"""`rankbound compare`: test runs for differences, or for equivalence."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound.commands._columns import add_column_flags
from rankbound.commands.comparison_flags import add_test_flags, print_report, settings_of
from rankbound.errors import ConfigError

if TYPE_CHECKING:
    from rankbound.compare.report import Report

SUMMARY = "Compare runs topic by topic: difference, interval, tests, effect size, margins"
EXAMPLES = """\
  rankbound compare a.txt b.txt --qrels qrels.txt -m nDCG@10 -m AP
  rankbound compare a.csv b.csv --margin 0.01
  rankbound compare a.txt b.txt c.txt --baseline bm25.txt --qrels qrels.txt -m nDCG@10 --markdown

The files are runs (any that `rankbound evaluate` reads) with their QRELS, or per-topic scores (`rankbound evaluate
--per-topic --json`, or a table with the columns topic, optionally fold and seed, and one per metric). Every file is
compared with the baseline; without one, all pairs of files are compared. A comparison covers the topics that both
have, and lists what is left out. Differences are A minus B, the baseline. Holm's correction is over all tests.
The page docs/statistics.md of the repository explains the numbers."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", type=Path, metavar="FILE", nargs="+", help="a run, or per-topic scores")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="the file to compare all others with")
    parser.add_argument("--qrels", type=Path, metavar="QRELS", help="judgements, if the files are runs")
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
    from rankbound.compare.runs import compare_files

    settings = settings_of(arguments)
    folder = next((path for path in arguments.files if path.is_dir()), None)
    if folder is not None:
        raise ConfigError(
            f"{folder}: found a folder, expected a file; compare results folders of the study with "
            "`python -m rankbound_study compare`"
        )
    columns = {name: getattr(arguments, name) for name in ("topic", "item", "relevance")}
    return compare_files(
        arguments.files,
        arguments.metrics,
        settings,
        arguments.baseline,
        qrels=arguments.qrels,
        columns=columns,
        names=arguments.names,
        missing=arguments.missing,
    )
