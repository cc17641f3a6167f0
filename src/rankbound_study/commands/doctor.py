"""The step `doctor`: say what is installed, what is there, what is missing, and how to get it."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankbound_study.doctor.finding import Finding

SUMMARY = "Say on one screen what a study needs here: packages, GPUs, data, programs, memory; and how to get the rest"
EXAMPLES = """\
  python -m rankbound_study doctor                               # for config.yaml
  python -m rankbound_study doctor profiles/demo/study.yaml
  python -m rankbound_study doctor config.yaml mine.yaml
  make doctor                                                    # also before anything is installed

Lines that begin with ! are missing, and a step will fail without them; lines that begin with - are worth knowing.
Nothing is installed, downloaded or checked for its content. The exit status is 0 if nothing is missing (a file that
will be downloaded is not), 1 if something is."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files",
        metavar="FILE",
        type=Path,
        nargs="*",
        default=[Path("config.yaml")],
        help="configuration files, merged in this order (default: config.yaml)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Look, print, and return the exit status."""
    from rankbound.texts import quantity
    from rankbound_study.doctor.finding import MISSING, lines

    findings = list(_findings(arguments.files))
    print("\n".join(lines(findings)))
    missing = sum(finding.level == MISSING for finding in findings)
    files = " ".join(map(str, arguments.files))
    print(f"\n{quantity(missing, 'thing')} missing" if missing else f"\nready for the study of {files}")
    return 1 if missing else 0


def _findings(files: Sequence[Path]) -> "Iterator[Finding]":
    """Yield what was found; what needs packages that are missing is left out."""
    from rankbound_study.doctor.finding import MISSING
    from rankbound_study.doctor.machine import accelerators, disk, kernels, nothing_installed, packages

    found = list(packages())
    yield from found
    if nothing_installed():
        yield from disk([Path.cwd()])
        return
    yield accelerators()
    yield kernels()
    if not any(finding.level == MISSING for finding in found):
        yield from _of_study(files)


def _of_study(files: Sequence[Path]) -> "Iterator[Finding]":
    """Yield what the configured study needs: data, programs, memory, disk."""
    from rankbound.errors import ConfigError
    from rankbound_study.config.check import check_config
    from rankbound_study.config.estimate import estimated
    from rankbound_study.config.lines import merged
    from rankbound_study.config.study import Study
    from rankbound_study.doctor.data_sets import data_sets, raw_files
    from rankbound_study.doctor.finding import MISSING, Finding
    from rankbound_study.doctor.machine import disk, memory, tools

    try:
        config = merged(files)
        check_config(config, files)
    except ConfigError as error:
        named = " ".join(map(str, files))
        problems = " ".join(str(error).split())
        yield Finding("config", f"{problems}: see python -m rankbound_study check-config {named}", MISSING)
        return
    study = Study(config)
    raw = raw_files(study)
    yield from data_sets(study, raw)
    yield from tools([file.source for file in raw if file.is_rar])
    if study.instances:
        estimate = estimated(study, [*study.runs, *study.experiments], study.compared)
        yield memory(estimate.largest, estimate.gigabytes)
    yield from disk([Path(config["pathvars"][name]) for name in ("data", "results")])
