"""The step `check-config`: validate a study's configuration."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankbound_study.config.study import Study, TrainingRun

SUMMARY = "Check a study's configuration: list every problem with key, line, value found and values allowed"
EXAMPLES = """\
  python -m rankbound_study check-config
  python -m rankbound_study check-config config.yaml mine.yaml"""


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
    parser.add_argument(
        "--schema",
        action="store_true",
        help="print the JSON schema of such files for an editor instead, generated from the models",
    )


def run(arguments: argparse.Namespace) -> None:
    """Check, and report what would run."""
    import json

    from rankbound.texts import quantity
    from rankbound_study.commands._rehearsal import rehearse
    from rankbound_study.config.check import check_config, editor_schema
    from rankbound_study.config.comparisons import method_options
    from rankbound_study.config.estimate import estimated, uncounted
    from rankbound_study.config.lines import merged
    from rankbound_study.config.own_files import require_files
    from rankbound_study.config.study import Study
    from rankbound_study.config.trainings import trainings_of
    from rankbound_study.figures import figure_specs
    from rankbound_study.report.tables import table_names

    if arguments.schema:
        print(json.dumps(editor_schema(), indent=2))
        return
    config = merged(arguments.files)
    check_config(config, arguments.files, figures=figure_specs(), tables=table_names())
    study = Study(config)
    require_files(study, arguments.files)
    tried = rehearse(study, arguments.files)
    print(
        f"valid: study {config['study']!r}, {quantity(len(study.instances), 'data set')}, "
        f"{_jobs(len(study.runs), _trainings(study, study.runs))}"
    )
    for name in dict.fromkeys(variant.experiment for variant in study.variants):
        runs = [run for run in study.experiments if run.variant and run.variant.experiment == name]
        print(f"experiment {name}: {_jobs(len(runs), _trainings(study, runs))}")
    for name, section in study.comparisons.items():
        compared = [job for job in study.compared if job.comparison == name]
        trainings = sum(
            trainings_of(method_options(section, job.instances, job.method), study.repeats_of(job.instances.source))
            for job in compared
        )
        print(f"comparison {name}: {_jobs(len(compared), trainings)}")
    runs = [*study.runs, *study.experiments]
    if study.instances:
        print(f"all of it takes {estimated(study, runs, study.compared)} (rough)")
    for note in tried:
        print(note)
    for note in uncounted(runs):
        print(note)
    for reason in study.left_out.values():
        print(reason)
    print(f"writes below {', '.join(dict.fromkeys(config['pathvars'].values()))}")


def _jobs(jobs: int, trainings: int) -> str:
    from rankbound.texts import quantity

    return f"{quantity(jobs, 'training job')}, {quantity(trainings, 'training')}"


def _trainings(study: "Study", runs: Sequence["TrainingRun"]) -> int:
    from rankbound_study.config.trainings import trainings_of

    return sum(trainings_of(study.options(run), study.repeats_of(run.instances.source)) for run in runs)
