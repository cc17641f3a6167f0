"""`rankbound compare`: test runs for differences, or for equivalence."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.commands import Source, add_evaluation_flags, add_file_flags, columns_of, topics_of
from rankbound.errors import ConfigError, plain_errors

if TYPE_CHECKING:
    from rankbound.compare.comparison import Settings
    from rankbound.compare.report import Report

SUMMARY = "Compare runs topic by topic: difference, interval, tests, effect size, margins"
EXAMPLES = """\
  rankbound compare a.txt b.txt --qrels qrels.txt -m nDCG@10 -m AP
  rankbound compare a.csv b.csv --margin 0.01
  rankbound compare a.txt b.txt c.txt --baseline bm25.txt --qrels qrels.txt -m nDCG@10 --markdown
  rankbound compare a.txt b.txt --qrels qrels.txt -m AP --test t --correction bonferroni --topics @hard.txt

The files are runs (any that `rankbound evaluate` reads) with their QRELS, or per-topic scores (`rankbound evaluate
--per-topic --json`, or a table with the columns topic, optionally fold and seed, and one per metric). Every file is
compared with the baseline; without one, all pairs of files are compared. A comparison covers the topics that both
have, and lists what is left out. Differences are A minus B, the baseline. The correction is over all tests.
--latex prints tables for \\input, with fewer columns. For a table of systems by metrics, see `rankbound evaluate`.
The page docs/statistics.md of the repository explains the numbers."""

FORMATS = {"json": "JSON", "csv": "CSV", "markdown": "Markdown", "latex": "LaTeX (package booktabs)"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", type=Source, metavar="FILE", nargs="+", help="a run, or per-topic scores")
    parser.add_argument("--baseline", type=Source, metavar="FILE", help="the file to compare all others with")
    parser.add_argument("--qrels", type=Source, metavar="QRELS", help="judgements, if the files are runs")
    add_evaluation_flags(parser)
    parser.add_argument(
        "--missing",
        default="skip",
        choices=("skip", "zero"),
        help="topics of QRELS that a run lacks: left out (default), or evaluated as empty results",
    )
    add_test_flags(parser)
    add_file_flags(parser, groups=False)


def run(arguments: argparse.Namespace) -> None:
    """Compare and print."""

    def report(settings: "Settings") -> "Report":
        from rankbound.compare.runs import compare_files

        for folder in filter(Path.is_dir, arguments.files):
            raise ConfigError(
                f"{folder}: found a folder, expected a file; compare results folders of the study with "
                "`python -m rankbound_study compare`"
            )
        return compare_files(
            arguments.files,
            arguments.metrics,
            settings,
            arguments.baseline,
            qrels=arguments.qrels,
            columns=columns_of(arguments),
            names=arguments.names,
            missing=arguments.missing,
            topics=topics_of(arguments),
            format=arguments.format,
        )

    print_report(arguments, report)


def add_test_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of tests, which the study's comparison of runs tables has, too."""
    parser.add_argument(
        "--margin",
        nargs="?",
        const="default",
        metavar="MARGIN",
        help="test whether A is no worse than B, and whether they are alike, by this margin in units of the metric "
        "(0.01 without a number), or by `noise`, the repeatability limit between seeds",
    )
    parser.add_argument(
        "--confidence", type=float, default=0.95, metavar="SHARE", help="level of the intervals (default: 0.95)"
    )
    parser.add_argument(
        "--interval", default="BCa", choices=("BCa", "percentile", "t"), help="kind of interval (default: BCa)"
    )
    parser.add_argument("--resamples", type=int, default=9999, metavar="N", help="bootstrap resamples (default: 9999)")
    add_significance_flags(parser, FORMATS)


def add_significance_flags(parser: argparse.ArgumentParser, formats: Mapping[str, str]) -> None:
    """Declare the flags of p-values, without which the defaults of `Settings` hold, and of the output's formats."""
    meaning = (
        "sign flips (default), Student's t test, or Wilcoxon's signed-rank test, which leaves out differences of 0"
    )
    parser.add_argument("--test", choices=("flips", "t", "wilcoxon"), help=meaning)
    meaning = "of p for all tests together: Holm (default), Bonferroni, or Benjamini-Hochberg (false discovery rate)"
    parser.add_argument("--correction", choices=("holm", "bonferroni", "bh"), help=meaning)
    parser.add_argument("--flips", type=int, metavar="N", help="sign flips for p (default: 9999)")
    meaning = "seed of resamples and flips (default: 0)"
    parser.add_argument("--random-seed", type=int, metavar="SEED", help=meaning)
    output = parser.add_mutually_exclusive_group()
    for name, kind in formats.items():
        output.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=f"print {kind} instead of text")


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of p-values that flags name."""
    names = {"test": "test", "correction": "correction", "flips": "flips", "random_seed": "seed"}
    found = {name: getattr(arguments, flag) for flag, name in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def print_report(arguments: argparse.Namespace, report_of: Callable[["Settings"], "Report"]) -> None:
    """Print the report of a comparison with the settings, and in the format, of the flags.

    Raises:
        RankboundError: a library of the extra `statistics` is missing.
        ConfigError: a margin that is not a number, or settings that cannot be.
    """
    from rankbound.io.files import needs_extra

    with needs_extra("statistics"):
        import scipy  # noqa: F401

    from rankbound.compare.comparison import NOISE, Settings
    from rankbound.compare.margins import MARGIN

    margin: Any = MARGIN if arguments.margin == "default" else arguments.margin
    if margin not in (None, NOISE):
        try:
            margin = float(margin)
        except ValueError:
            raise ConfigError(f"--margin: found {margin!r}, expected a number or `{NOISE}`") from None
    settings = {name: getattr(arguments, name) for name in ("confidence", "interval", "resamples")}
    with plain_errors():
        report = report_of(Settings(**settings, **settings_of(arguments), margin=margin))
    form = next((name for name in FORMATS if getattr(arguments, name)), None)
    print(report if form is None else getattr(report, f"to_{form}")())
