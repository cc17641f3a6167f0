"""The step `doctor`: what a study needs here. It runs before anything is installed: functions import what they need."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound.texts import quantity

if TYPE_CHECKING:
    from rankbound_study.doctor import Finding


def doctor(files: list[Path]) -> int:
    """Say what is installed, what is there, what is missing, and how to get it; return the exit status."""
    from rankbound_study.doctor import MISSING, lines

    findings = list(_findings(files))
    print("\n".join(lines(findings)))
    missing = sum(finding.level == MISSING for finding in findings)
    named = " ".join(map(str, files))
    print(f"\n{quantity(missing, 'thing')} missing" if missing else f"\nready for the study of {named}")
    return 1 if missing else 0


def _findings(files: Sequence[Path]) -> "Iterator[Finding]":
    """Yield what was found; what needs packages that are missing is left out."""
    from rankbound_study.doctor import MISSING, accelerators, disk, kernels, nothing_installed, packages

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
    from rankbound_study.doctor import MISSING, Finding, data_sets, disk, memory

    try:
        study = Study(check_config(merged(files), files))
    except ConfigError as error:
        named = " ".join(map(str, files))
        problems = " ".join(str(error).split())
        yield Finding("config", f"{problems}: see python -m rankbound_study check-config {named}", MISSING)
        return
    yield from data_sets(study)
    if study.instances:
        estimate = estimated(study, study.jobs)
        yield memory(estimate.largest, estimate.gigabytes)
    yield from disk([Path(study.config.pathvars.data), Path(study.config.pathvars.results)])
