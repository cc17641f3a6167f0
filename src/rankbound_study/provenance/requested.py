"""Compare recorded options and inputs of steps with those that the recorded configuration requests.

A manifest may be made again with another configuration than the steps had: their own records remain.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from rankbound_study.config.code_digests import CodeDigests
from rankbound_study.config.comparisons import PROTOCOL, method_options
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.config.steps import Steps, as_json
from rankbound_study.config.study import Study
from rankbound_study.provenance.manifest import Manifest
from rankbound_study.provenance.records import Record

T = TypeVar("T")
Options = Mapping[str, Any]

_FLAGS = ("seed", "side", "size")
_NOT_WHOLE = (AttributeError, LookupError, StopIteration, TypeError, ValueError)


def contradictions(manifest: Manifest) -> Iterator[tuple[str, Options, Options]]:
    """Yield the first output of each step whose options differ, with the recorded options and the requested ones."""
    requested = _of_whole(_requested_options, manifest.config)
    for step in manifest.steps:
        if step.outputs:
            recorded = _recorded(step)
            wanted = next((requested[path] for path in step.outputs if path in requested), None)
            wanted = _of_results(step, manifest.config) if wanted is None else wanted
            # Flags that the configuration leaves to their defaults are not requested.
            wanted = {**{key: recorded[key] for key in _FLAGS if key in step.arguments}, **wanted}
            if recorded != wanted:
                yield min(step.outputs), recorded, wanted


def other_inputs(manifest: Manifest) -> Iterator[tuple[str, list[str]]]:
    """Yield each output with the inputs that its step lacks, or read without being requested."""
    requested = _of_whole(_requested_inputs, manifest.config)
    for step in manifest.steps:
        for path in step.outputs:
            if path in requested and (others := requested[path] ^ set(step.inputs)):
                yield path, sorted(others)


def _recorded(step: Record) -> dict[str, Any]:
    """Return the options of a step, and its flags as text."""
    options = step.arguments.get("options")
    flags = {key: str(step.arguments[key]) for key in _FLAGS if key in step.arguments}
    return {**flags, **(options if isinstance(options, Mapping) else {})}


def _of_results(step: Record, config: Options) -> Options:
    """Return the requested options of a step that no single path tells; the recorded ones where nothing is known."""
    recorded = _recorded(step)
    if step.subcommand in ("table", "figure", "claims") and config.get("protocols"):
        # As `rankbound_study.config.steps` passes them.
        known = {"protocol": config["protocols"][0], "study": config.get("study")}
        return {**recorded, **{key: value for key, value in known.items() if key in recorded}}
    return recorded


def _requested_options(study: Study) -> dict[str, Options]:
    """Return the options of data steps, score distributions, trainings and controls, by output."""
    steps = Steps(study, CodeDigests())
    texts: dict[str, str] = {}
    flags: dict[str, Options] = {}
    for name, section in study.sources.items():
        texts[f"<data>/folds/{name}.parquet"] = steps.split_options(SimpleNamespace(source=name))
        if name.startswith(SYNTHETIC):
            flags[study.converted_path(name)] = {key: str(section[key]) for key in ("seed", "size") if key in section}
        if "vgg16_side" in section:
            flags[f"<data>/features/{name}-vgg16.parquet"] = {"side": str(section["vgg16_side"])}
    for instances in study.instances.values():
        texts[instances.path] = as_json(instances.options)
    for file in study.distributions:
        texts[file.path] = as_json(file.options(study.config))
    for protocol in study.config["protocols"] if study.config["controls"] else ():
        for name in study.bounded_instances:
            key = SimpleNamespace(protocol=protocol, instances=name)
            texts[f"<results>/runs/{protocol}/{name}/controls.parquet"] = steps.control_options(key)
    for name in study.compared_instances if study.config["controls"] else ():
        key = SimpleNamespace(instances=name)
        texts[f"<results>/runs/{PROTOCOL}/{name}/compared/controls.parquet"] = steps.compared_control_options(key)
    for run in (*study.runs, *study.experiments):
        texts[f"{run.stem}.parquet"] = as_json(study.options(run))
    for job in study.compared:
        own = method_options(study.comparisons[job.comparison], job.instances, job.method)
        texts[f"{job.stem}.parquet"] = as_json(own)
    options = {path: json.loads(text) for path, text in texts.items()}
    return {_from_results(path, study.config): own for path, own in (options | flags).items()}


def _requested_inputs(study: Study) -> dict[str, set[str]]:
    """Return the inputs of sampling, trainings and the tables of all runs, by output."""
    steps = Steps(study, CodeDigests())
    files = {
        "<results>/runs.parquet": [*study.run_files(), *study.beside_runs()],
        "<results>/experiments.parquet": [*study.experiment_files(), *study.beside_experiments()],
    }
    for name, instances in study.instances.items():
        files[instances.path] = list(steps.sampled_from(SimpleNamespace(instances=name)).values())
    for run in (*study.runs, *study.experiments):
        files[f"{run.stem}.parquet"] = list(study.inputs(run).values())
    for job in study.compared:
        files[f"{job.stem}.parquet"] = list(job.instances.inputs.values())

    def name_of(path: str) -> str:
        return _from_results(path, study.config)

    return {name_of(path): set(map(name_of, inputs)) for path, inputs in files.items()}


def _from_results(path: str, config: Options) -> str:
    """Return a path of the workflow relative to the results folder."""
    folders = config["pathvars"]
    for name in ("data", "results"):
        path = path.replace(f"<{name}>", str(folders[name]))
    return Path(os.path.relpath(path, folders["results"])).as_posix()


def _of_whole(requested: Callable[[Study], dict[str, T]], config: Options) -> dict[str, T]:
    """Return what a configuration requests; nothing if it is not a whole one."""
    try:
        return requested(Study(config))
    except _NOT_WHOLE:
        return {}
