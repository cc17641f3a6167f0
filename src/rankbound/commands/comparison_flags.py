"""Flags of a comparison: tests, margin and output."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rankbound.errors import ConfigError, plain_errors

if TYPE_CHECKING:
    from rankbound.compare.comparison import Settings
    from rankbound.compare.report import Report


FORMATS = {"json": "JSON", "csv": "CSV", "markdown": "Markdown", "latex": "LaTeX (package booktabs)"}


def add_test_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
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
    parser.add_argument("--flips", type=int, default=9999, metavar="N", help="sign flips for p (default: 9999)")
    parser.add_argument(
        "--random-seed", type=int, default=0, metavar="SEED", help="seed of resamples and flips (default: 0)"
    )
    output = parser.add_mutually_exclusive_group()
    for name, kind in FORMATS.items():
        output.add_argument(f"--{name}", action="store_true", help=f"print {kind} instead of text")


def settings_of(arguments: argparse.Namespace) -> "Settings":
    """Return the settings of the comparison from the flags; ConfigError for a margin that is not a number."""
    from rankbound.compare.comparison import NOISE, Settings
    from rankbound.compare.margins import MARGIN

    margin: Any = arguments.margin
    if margin == "default":
        margin = MARGIN
    elif margin not in (None, NOISE):
        try:
            margin = float(margin)
        except ValueError:
            raise ConfigError(f"--margin: found {margin!r}, expected a number or `{NOISE}`") from None
    return Settings(
        confidence=arguments.confidence,
        interval=arguments.interval,
        resamples=arguments.resamples,
        flips=arguments.flips,
        seed=arguments.random_seed,
        margin=margin,
    )


def print_report(arguments: argparse.Namespace, report_of: Callable[[argparse.Namespace], "Report"]) -> None:
    """Print a comparison in the format of the flags.

    Raises:
        RankboundError: a library of the extra `statistics` is missing.
    """
    from rankbound.io.files import needs_extra

    with needs_extra("statistics"):
        import rich
        import scipy  # noqa: F401

        del rich
    with plain_errors():
        report = report_of(arguments)
    form = next((name for name in FORMATS if getattr(arguments, name)), None)
    print(report if form is None else getattr(report, f"to_{form}")())
