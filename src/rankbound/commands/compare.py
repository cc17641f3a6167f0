"""`rankbound compare`: how sure one can be that two runs differ, or that they don't."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.commands.flags import add_column_flags, plain_errors
from rankbound_study.commands.selection_flags import add_selection_flags, given_selection
from rankbound.errors import ConfigError

if TYPE_CHECKING:
    from rankbound.compare.comparison import Settings
    from rankbound.compare.report import Report

SUMMARY = "Compare two runs topic by topic: difference, interval, tests, effect size, margins"
EXAMPLES = """\
  rankbound compare a.txt b.txt --qrels qrels.txt -m nDCG@10 -m AP
  rankbound compare a.csv b.csv --margin 0.01
  rankbound compare results --dataset movielens --nsr 1 --loss AP --a bounding=none --b bounding=min-max
  rankbound compare results --nsr 1 --a model=popularity --b loss=nDCG bounding=none --margin noise --json
  rankbound compare results other/results -m nDCG@10 --csv

A and B are two runs that QRELS judge (any files that `rankbound evaluate` takes), two files of scores by topic
(`rankbound evaluate --per-topic --json`, or a table with the columns topic, maybe fold and seed, and one for each
metric), or two results folders or runs tables; without B, two selections of one of them. What both have is compared,
and what one of them lacks is named. Positive differences are A's. docs/statistics.md says what the numbers mean."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("a_file", type=Path, metavar="A", help="a run, scores by topic, or results")
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
    _add_test_flags(parser)
    group = add_selection_flags(
        parser, "which runs of results are compared (default: the honest protocol, if both have it; its own selection)"
    )
    for side in ("a", "b"):
        group.add_argument(
            f"--{side}", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=f"of {side.upper()} alone"
        )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON instead of tables")
    output.add_argument("--csv", action="store_true", help="print CSV instead of tables")
    add_column_flags(parser)


def _add_test_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--margin",
        nargs="?",
        const="default",
        metavar="MARGIN",
        help="test whether A is no worse than B, and whether they are alike, by this margin in units of the metric "
        "(0.01 without a number), or by `noise`: what a change of seed does",
    )
    parser.add_argument("--confidence", type=float, default=0.95, metavar="SHARE", help="of intervals (default: 0.95)")
    parser.add_argument(
        "--interval", default="BCa", choices=("BCa", "percentile", "t"), help="which interval (default: BCa)"
    )
    parser.add_argument("--resamples", type=int, default=9999, metavar="N", help="of the bootstrap (default: 9999)")
    parser.add_argument("--flips", type=int, default=9999, metavar="N", help="of signs, for p (default: 9999)")
    parser.add_argument(
        "--random-seed", type=int, default=0, metavar="SEED", help="of resamples and flips (default: 0)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Compare and print."""
    from rankbound.io.files import needs_extra

    with needs_extra("statistics"):
        import rich
        import scipy  # noqa: F401

        from rankbound.compare.report import as_csv, as_json, as_text

        del rich
    with plain_errors():
        report = _report(arguments)
    print(as_json(report) if arguments.json else as_csv(report) if arguments.csv else as_text(report))


def _report(arguments: argparse.Namespace) -> "Report":
    from rankbound.compare import compare_files
    from rankbound_study.results import compare_runs

    settings = _settings(arguments)
    a_file, b_file = arguments.a_file, arguments.b_file
    if arguments.qrels is not None:
        _refuse_choices(arguments, "--qrels")
        qrels = compare_files.Judged(
            arguments.qrels,
            {name: getattr(arguments, name) for name in ("topic", "item", "relevance")},
            arguments.missing,
        )
        return compare_files.compare_trec(_both(a_file, b_file), qrels, arguments.metrics, arguments.names, settings)
    if compare_runs.holds_runs(a_file):
        choice = given_selection(arguments)
        given = compare_runs.Choice.of(choice, arguments.a, arguments.b)
        return compare_runs.compare_runs((a_file, b_file or a_file), given, arguments.metrics, settings)
    _refuse_choices(arguments, "files of scores by topic")
    return compare_files.compare_scores(_both(a_file, b_file), arguments.metrics, settings)


def _settings(arguments: argparse.Namespace) -> "Settings":
    from rankbound.compare.comparison import NOISE, Settings
    from rankbound.compare.margins import MARGIN

    margin: Any = arguments.margin
    if margin == "default":
        margin = MARGIN
    elif margin not in (None, NOISE):
        try:
            margin = float(margin)
        except ValueError:
            raise ConfigError(f"--margin: found {margin!r}, expected a number, or {NOISE}") from None
    return Settings(
        confidence=arguments.confidence,
        interval=arguments.interval,
        resamples=arguments.resamples,
        flips=arguments.flips,
        seed=arguments.random_seed,
        margin=margin,
    )


def _both(a: Path, b: Path | None) -> tuple[Path, Path]:
    if b is None:
        raise ConfigError(f"{a}: found one file, expected two: only a runs table can be compared with itself")
    return a, b


def _refuse_choices(arguments: argparse.Namespace, what: str) -> None:
    given = [f"--{key.replace('_', '-')}" for key in given_selection(arguments)]
    given += [f"--{side}" for side in ("a", "b") if getattr(arguments, side)]
    if given:
        raise ConfigError(f"{given[0]} chooses rows of a runs table: it means nothing with {what}")
