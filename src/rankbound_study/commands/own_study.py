"""The steps before a study runs: its configuration is written, checked, and compared with what is here."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound.texts import quantity

if TYPE_CHECKING:
    from rankbound_study.config.study import Job, Study
    from rankbound_study.doctor import Finding

OF_DEFAULT = {"temperature": 1.0, "distributions": {"method": "exact", "samples": 1, "seed": 0}}
"""Keys that a written configuration leaves to config.yaml; no data depend on them."""


def check(files: list[Path], schema: bool) -> None:
    """Check a configuration, and report what would run."""
    from rankbound_study.commands.rehearsal import rehearse
    from rankbound_study.config.check import check_config, editor_schema
    from rankbound_study.config.estimate import estimated, uncounted
    from rankbound_study.config.lines import merged
    from rankbound_study.config.own_files import require_files
    from rankbound_study.config.study import Study
    from rankbound_study.figures import figure_specs
    from rankbound_study.report.tables import table_names

    if schema:
        print(json.dumps(editor_schema(), indent=2))
        return
    study = Study(check_config(merged(files), files, figures=figure_specs(), tables=table_names()))
    require_files(study, files)
    tried = rehearse(study, files)
    config = study.config
    print(f"valid: study {config.study!r}, {quantity(len(study.instances), 'data set')}, {_counted(study, study.runs)}")
    for name in config.varying:
        of_experiment = [job for job in study.experiments if job.variant and job.variant.experiment == name]
        print(f"experiment {name}: {_counted(study, of_experiment)}")
    for name in study.comparisons:
        print(f"comparison {name}: {_counted(study, [job for job in study.compared if job.comparison == name])}")
    if study.instances:
        print(f"all of it takes {estimated(study, study.jobs)} (rough)")
    for note in (*tried, *uncounted([*study.runs, *study.experiments]), *study.left_out.values()):
        print(note)
    print(f"writes below {', '.join(dict.fromkeys(config.pathvars.given().values()))}")


def _counted(study: "Study", jobs: "Sequence[Job]") -> str:
    trainings = sum(job.request.count_trainings(study.repeats_of(job.instances.source)) for job in jobs)
    return f"{quantity(len(jobs), 'training job')}, {quantity(trainings, 'training')}"


def new(path: Path, out: Path, name: str | None, threshold: float | None, implicit: bool) -> None:
    """Inspect files, write a configuration, and try what is written."""
    from rankbound.errors import ConfigError
    from rankbound.io.atomic import atomic_path
    from rankbound_study.commands.rehearsal import rehearse
    from rankbound_study.config.lines import merged
    from rankbound_study.config.new_study import new_study, study_name
    from rankbound_study.config.sections.known_sets import known_names, known_set
    from rankbound_study.config.study import Study
    from rankbound_study.data.inspection import inspect, with_relevance

    if out.exists():
        raise ConfigError(f"{out}: there is a file of that name: choose another one")
    found, relevance = with_relevance(inspect(path), threshold, implicit=implicit)
    for known in [known for known in known_names() if path.name in (known_set(known).archives or ())]:
        found.notes.append(
            f"an archive of this name is known as {known}: with that name, and archive: {path.name}, nothing needs "
            "describing"
        )
    size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
    name = study_name(name or path.resolve().name.partition(".")[0])
    text = new_study(name, str(out), found.kind, found.description, found.labels, found.notes, size, **relevance)
    with atomic_path(out) as temporary:
        temporary.write_text(text, "utf-8")
        tried = rehearse(Study.of(merged([temporary]) | OF_DEFAULT))
    print(f"{path}: {found.description['format']}, {found.kind}")
    for note in (*found.notes, *tried):
        print(f"  {note}")
    print(f"wrote {out}. Now:\n  python -m rankbound_study check-config config.yaml {out}")
    print(f"  snakemake --configfile {out} --cores 2")


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
