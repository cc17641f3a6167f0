"""The steps `new` and `check-config`: the configuration of a study is written and checked, its first steps are tried.

The steps that are tried are those of the workflow's rules, with the same arguments, in a temporary folder: conversion,
folds and lists, so that what is accepted runs. Of large files, the beginning is converted.
"""

import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jinja2
import numpy as np
import polars as pl
import yaml  # type: ignore[import-untyped]

from rankbound.errors import ConfigError, DataError, SourceError
from rankbound.io.atomic import atomic_path
from rankbound.texts import printable, quantity
from rankbound_study.commands.data import convert, sample, split
from rankbound_study.config.check import ConfigLines, check_config, editor_schema, merged
from rankbound_study.config.data_sets import GRADED
from rankbound_study.config.estimate import estimated
from rankbound_study.config.sections.base import listed
from rankbound_study.config.sections.description import DescriptionKeys, known_sets, own_files
from rankbound_study.config.study import Job, Study
from rankbound_study.data.inspection import inspect, relevance_of
from rankbound_study.data.reader import read_instances
from rankbound_study.data.sources import is_archive
from rankbound_study.data.table_layout import Inspected, Said, UnclearError, beginning_of
from rankbound_study.figures import figure_specs
from rankbound_study.options import as_json
from rankbound_study.report.tables import table_names
from rankbound_study.vocabulary import BEST_FEATURE, BOUNDINGS, LOSSES, POPULARITY, needs_distributions

OF_DEFAULT = {"temperature": 1.0, "distributions": {"method": "exact", "samples": 1, "seed": 0}}
"""Keys that a written configuration leaves to config.yaml; no data depend on them."""

WHOLE, PACKED = 2**23, 2**20
"""Bytes of files, and of archives or packed files, that are tried whole."""

ROWS = 1000
"""Rows of a large table in parquet that are converted."""

FEW_TOPICS = 6
"""With fewer pairs, no sign test is significant at 5 %: 2 / 2^5 > 0.05."""


def check(files: list[Path], schema: bool) -> None:
    """Check a configuration, and report what would run."""
    if schema:
        print(json.dumps(editor_schema(), indent=2))
        return
    study = Study(check_config(merged(files), files, figures=figure_specs(), tables=table_names()))
    tried, config = rehearse(study, files), study.config
    print(f"valid: study {config.study!r}, {quantity(len(study.instances), 'data set')}, {_counted(study, study.runs)}")
    for name in config.varying:
        of_experiment = [job for job in study.experiments if job.variant and job.variant.experiment == name]
        print(f"experiment {name}: {_counted(study, of_experiment)}")
    for name in study.comparisons:
        print(f"comparison {name}: {_counted(study, [job for job in study.compared if job.comparison == name])}")
    if study.instances:
        print(f"all of it takes {estimated(study, study.jobs)} (rough)")
    for note in (*tried, *study.left_out.values()):
        print(note)
    print(f"writes below {', '.join(dict.fromkeys(config.pathvars.given().values()))}")


def _counted(study: Study, jobs: Sequence[Job]) -> str:
    trainings = sum(job.request.count_trainings(study.repeats_of(job.instances.source)) for job in jobs)
    return f"{quantity(len(jobs), 'training job')}, {quantity(trainings, 'training')}"


def new(path: Path, out: Path, name: str | None, **said: Any) -> None:
    """Inspect files, print how they are read, write a configuration, and try what is written.

    Args:
        path, out, name: the files, the configuration to write, and the name of the data set.
        said: the fields of `rankbound_study.data.table_layout.Said`.
    """
    if out.exists():
        raise ConfigError(f"{out}: there is a file of that name: choose another one")
    try:
        found = inspect(path, Said(**said))
        _print_plan(path, f"{found.description['format']}, {found.kind}", [*found.plan, *found.notes])
        least, fewest = relevance_of(found, said["threshold"])
    except UnclearError as error:
        if error.plan:
            _print_plan(path, "not clear", error.plan)
        raise
    name = study_name(name or path.resolve().name.partition(".")[0])
    text = _configuration(name, out, found, least, fewest)
    what = "label" if found.kind == "lists" else "rating"
    relevant = "labels are grades of relevance" if least is None else f"relevant: a {what} of at least {least:g}"
    print(f"  {relevant}", flush=True)
    with atomic_path(out) as temporary:
        temporary.write_text(text, "utf-8")
        tried = rehearse(Study(merged([temporary]) | OF_DEFAULT))
    for note in tried:
        print(f"  {printable(note)}")
    print(f"wrote {out}. Now:\n  python -m rankbound_study check-config config.yaml {out}")
    print(f"  snakemake --configfile {out} --cores 2")


def study_name(text: str) -> str:
    """Return a name of small letters, digits and hyphens from a file's name, which no known data set has."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "mine"
    return f"my-{name}" if name in known_sets() or name.startswith("synthetic") else name


def _configuration(name: str, out: Path, found: Inspected, threshold: float | None, min_relevant: int) -> str:
    """Return the text of a configuration for a data set, with what was found in its files as comments."""
    described, is_lists, is_graded = found.description, found.kind == "lists", threshold is None
    reading = GRADED if threshold is None else repr(float(threshold)).removesuffix(".0")
    # Distributions are tabulated for binary relevance.
    boundings = [name for name in BOUNDINGS if not (is_graded and needs_distributions(name))]
    block = yaml.safe_dump(described, sort_keys=False, default_flow_style=None, width=100)
    source = [*(f"# {note[0].upper()}{note[1:]}." for note in found.notes), *block.splitlines()]
    few = [f"{label:g}" for label in found.labels]
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(Path(__file__).with_name("new_study.yaml.j2").read_text("utf-8"))
    return template.render(
        file=out,
        name=name,
        kind=found.kind,
        lists=is_lists,
        losses=", ".join(LOSSES),
        boundings=", ".join(boundings),
        folds=", ".join(map(str, range(1, DescriptionKeys.model_validate(described).n_folds + 1))),
        baseline=BEST_FEATURE if is_lists else POPULARITY,
        instances=f"{name}-{GRADED if is_graded else f'label{reading}'}" if is_lists else f"{name}-nsr1",
        source="\n".join(f"      {line}" for line in source),
        threshold=reading,
        fewest=min_relevant,
        found=", ".join(few) or "none" if len(few) <= 12 else f"{few[0]} to {few[-1]}",
    )


def _print_plan(path: Path, what: str, plan: Sequence[str]) -> None:
    """Print how files are read, before anything is written."""
    for line in (f"{path}: {what}", *(f"  {line}" for line in plan)):
        print(printable(line), flush=True)


def rehearse(study: Study, config_files: Sequence[Path] = ()) -> list[str]:
    """Convert, split and sample the data sets that are described by a path; return a sentence about each.

    Raises:
        ConfigError: a line for each data set that a step refuses, with its place in the configuration.
    """
    notes: list[str] = []
    problems: list[str] = []
    for name in study.converted:
        described = study.described(name)
        if (path := described.path) is None:
            continue
        with TemporaryDirectory(prefix="rankbound-") as folder:
            try:
                with redirect_stdout(io.StringIO()):
                    notes += _tried(study, name, described, Path(folder))
            except (ConfigError, DataError, SourceError) as error:
                key = (study.sources[name].kind, name, "source")
                place = f"{ConfigLines(config_files).locate(key)}{'.'.join(key)}: " if config_files else ""
                # Temporary files are those of what was made from the path.
                made = rf"{re.escape(folder)}/(?:raw(?:/{re.escape(Path(path).name)})?|\w+\.parquet)"
                problems.append(place + path.join(re.split(made, str(error))))
    if problems:
        several = "several data sets cannot be used:\n  " if len(problems) > 1 else ""
        raise ConfigError(several + "\n  ".join(problems))
    return notes


def _tried(study: Study, name: str, described: DescriptionKeys, folder: Path) -> Iterator[str]:
    files = list(map(Path, own_files(described)))
    if missing := [file for file in files if not file.is_file()]:
        more = f", nor {quantity(len(missing) - 1, 'other')}" if len(missing) > 1 else ""
        raise ConfigError(f"there is no file {missing[0]}{more}")
    is_packed = any(file.suffix == ".gz" or is_archive(file) for file in files)
    data, folds, out = (folder / f"{part}.parquet" for part in ("data", "folds", "instances"))
    if sum(file.stat().st_size for file in files) > (PACKED if is_packed else WHOLE):
        if not is_packed and described.format != "lightgbm":
            started = _beginnings(described, files, folder)
            convert(name, list(map(Path, own_files(started))), data, started.model_dump_json(exclude_defaults=True))
        return
    text = "" if name in known_sets() else described.model_dump_json(exclude_defaults=True)
    convert(name, files, data, text)
    split(name, data, folds, as_json(study.requests[f"<data>/folds/{name}.parquet"].options))
    for instances in (one for one in study.instances.values() if one.source == name):
        sample(name, data, folds, out, as_json(instances.options))
        made = read_instances(out)
        # AP, nRBP and RR count every grade above 0 as relevant: training lists need others, too.
        used = set(study.config.losses) if instances.name in study.bounded_instances else set()
        used |= {loss for variant in study.variants if instances.name in variant.datasets for loss in variant.losses}
        losses = sorted(used & {"AP", "nRBP", "RR"})
        for fold in made.folds if losses else ():
            part = made.split(fold, "train")
            if not ((part.positives > 0) & (part.positives < part.sizes)).any():
                raise ConfigError(
                    f"{listed(losses)} count every label above 0 as relevant, and no training list of fold {fold} has "
                    "such labels beside 0: set a threshold of relevant labels, write grades from 0 on, or leave these "
                    "losses out"
                )
        parts = made.splits.values()
        sizes = np.concatenate([part.sizes for part in parts])
        relevant = sum(int(part.positives.sum()) for part in parts) / max(int(sizes.sum()), 1)
        tests = (part for (_, split_name), part in made.splits.items() if split_name == "test")
        count = len({int(topic) for part in tests for topic in part.topics})
        few = " (too few for any difference to be significant)" if count < FEW_TOPICS else ""
        length = f"{sizes.min()} to {sizes.max()}" if sizes.min() < sizes.max() else str(sizes.max())
        lists = f"lists of {length} items, {relevant:.0%} relevant"
        yield f"{instances.name}: {quantity(count, 'test topic')}{few}, {lists}"


def _beginnings(described: DescriptionKeys, files: Sequence[Path], folder: Path) -> DescriptionKeys:
    """Write the beginnings of files to a folder; return the description of these."""
    path = Path(described.path or "")
    for file in files:
        to = folder / "raw" / (file.relative_to(path) if path.is_dir() else file.name)
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.read_bytes()[:4] == b"PAR1":
            pl.scan_parquet(file).head(ROWS).collect().write_parquet(to)
        else:
            to.write_bytes(beginning_of(file)[0])
    at = folder / "raw" if path.is_dir() else folder / "raw" / path.name
    return described.model_copy(update={"path": str(at), "sizes": None, "content": None})
