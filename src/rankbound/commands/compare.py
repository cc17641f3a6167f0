"""`rankbound compare`: test runs for differences, or for equivalence."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.commands import columns_of, topics_of
from rankbound.errors import ConfigError, plain_errors

if TYPE_CHECKING:
    from rankbound.compare.comparison import Settings
    from rankbound.compare.report import Report


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

    from rankbound.compare.comparison import MARGIN, NOISE, Settings

    margin: Any = MARGIN if arguments.margin == "default" else arguments.margin
    if margin not in (None, NOISE):
        try:
            margin = float(margin)
        except ValueError:
            raise ConfigError(f"--margin: found {margin!r}, expected a number or `{NOISE}`") from None
    settings = {name: getattr(arguments, name) for name in ("confidence", "interval", "resamples")}
    with plain_errors():
        report = report_of(Settings(**settings, **settings_of(arguments), margin=margin))
    print(report if arguments.form is None else getattr(report, f"to_{arguments.form}")())
