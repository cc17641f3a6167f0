"""The step `verify`: check whether results have changed since they were made."""

import argparse
from pathlib import Path

SUMMARY = "Check a results folder against its provenance, or against another results folder"
EXAMPLES = """\
  python -m rankbound_study verify                                  # results/: files, inputs, config.yaml
  python -m rankbound_study verify results/demo --config profiles/demo/study.yaml
  python -m rankbound_study verify /copied/results --json           # missing inputs are not checked
  python -m rankbound_study verify results --strict                 # undecided findings count as differences
  python -m rankbound_study verify results --against other/results --tolerance 0.01

The exit status is 0 if nothing differs, 1 if something does, 2 if nothing could be checked. Differences:
  changed, missing   a result file has changed since its step wrote it, or is missing
  unknown            a file that no step made
  input              a file in another folder that steps read has changed
  chain              a step read other content of a file than its maker recorded
  config             a key of the configuration has another value, or a step had other options than it requests
Undecided, and differences only with --strict:
  code               the installed packages differ from those that made the results
  unchecked          a file is missing here, lies elsewhere, is hidden or part of an unfinished training
  unrecorded         a file's checksum is known, but not how it was made

With --against, files are compared by their bytes, except the paper, which states where it was made. With --tolerance,
only mean scores over topics, folds and seeds count: docs/reproducibility.md has those between machines."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "folder", type=Path, nargs="?", default=Path("results"), metavar="FOLDER", help="results (default: results)"
    )
    parser.add_argument(
        "--config",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="the study's configuration, merged in this order (default: config.yaml, if its results are this folder)",
    )
    parser.add_argument("--strict", action="store_true", help="count undecided findings as differences")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another results folder to compare with")
    parser.add_argument("--tolerance", type=float, metavar="X", help="with --against: largest difference in means")
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Check, print, and return the exit status."""
    import math

    from rankbound.errors import ConfigError
    from rankbound_study.provenance.verify import (
        compare,
        comparison_json,
        comparison_text,
        report_json,
        report_text,
        verify,
    )

    tolerance: float | None = arguments.tolerance
    if tolerance is not None and (arguments.against is None or not math.isfinite(tolerance) or tolerance < 0):
        raise ConfigError(f"--tolerance {tolerance}: expected a number of at least 0, together with --against FOLDER")
    if arguments.against is not None:
        comparison = compare(arguments.folder, arguments.against)
        print(comparison_json(comparison, tolerance) if arguments.json else comparison_text(comparison, tolerance))
        return 0 if comparison.holds(tolerance) else 1
    config = _config(arguments.folder, arguments.config)
    report = verify(arguments.folder, config)
    texts = report_json if arguments.json else report_text
    print(texts(report, strict=arguments.strict, config_checked=config is not None))
    return 0 if report.holds(strict=arguments.strict) else 1


def _config(folder: Path, files: list[Path] | None) -> dict[str, object] | None:
    """Return the named configuration, or config.yaml if it is that of this folder."""
    if files is None and not Path("config.yaml").is_file():
        return None
    from rankbound_study.config.lines import merged

    if files is not None:
        return merged(files)
    config = merged([Path("config.yaml")])
    results = (config.get("pathvars") or {}).get("results", "results")
    return config if Path(results).resolve() == folder.resolve() else None
