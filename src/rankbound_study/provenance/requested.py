"""Compare recorded options and inputs of steps with those that the recorded configuration requests.

A manifest may be made again with another configuration than the steps had: their own records remain.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rankbound_study.config.steps import as_json
from rankbound_study.config.study import Study
from rankbound_study.provenance.manifest import Manifest
from rankbound_study.provenance.records import Record

Options = Mapping[str, Any]

_FLAGS = ("seed", "side", "size")
"""Flags that some steps have instead of options."""


def contradictions(manifest: Manifest) -> Iterator[tuple[str, Options, Options]]:
    """Yield the first output of each step whose options differ, with the recorded options and the requested ones."""
    requests = {} if (study := study_of(manifest.config)) is None else study.requests
    requested = {
        _from_results(path, manifest.config): json.loads(as_json(request.options)) for path, request in requests.items()
    }
    for step in manifest.steps:
        if step.outputs:
            recorded = _recorded(step)
            wanted = next((requested[path] for path in step.outputs if path in requested), None)
            wanted = _of_results(step, manifest.config) if wanted is None else wanted
            texts = {key: str(wanted[key]) for key in _FLAGS if key in wanted and key in step.arguments}
            # Flags that the configuration leaves to their defaults are not requested.
            wanted = {**{key: recorded[key] for key in _FLAGS if key in step.arguments}, **wanted, **texts}
            if recorded != wanted:
                yield min(step.outputs), recorded, wanted


def other_inputs(manifest: Manifest) -> Iterator[tuple[str, list[str]]]:
    """Yield each output with the inputs that its step lacks, or read without being requested."""
    study, config = study_of(manifest.config), manifest.config
    if study is None:
        return
    files = {path: request.paths for path, request in study.requests.items() if request.inputs}
    files["<results>/runs.parquet"] = [*study.run_files(), *study.beside_runs()]
    files["<results>/experiments.parquet"] = [*study.experiment_files(), *study.beside_experiments()]
    requested = {
        _from_results(path, config): {_from_results(one, config) for one in own} for path, own in files.items()
    }
    for step in manifest.steps:
        for path in step.outputs:
            if path in requested and (others := requested[path] ^ set(step.inputs)):
                yield path, sorted(others)


def _recorded(step: Record) -> dict[str, Any]:
    """Return the options of a step, and its flags as text."""
    options, planted = step.arguments.get("options"), step.arguments.get("planted")
    flags = {key: str(step.arguments[key]) for key in _FLAGS if key in step.arguments}
    flags |= {"planted": planted} if planted else {}
    return {**flags, **(options if isinstance(options, Mapping) else {})}


def _of_results(step: Record, config: Options) -> Options:
    """Return the requested options of a step that no single path tells; the recorded ones where nothing is known."""
    recorded = _recorded(step)
    if step.subcommand in ("table", "figure", "claims") and config.get("protocols"):
        # As `rankbound_study.config.steps` passes them.
        known = {"protocol": config["protocols"][0], "study": config.get("study")}
        return {**recorded, **{key: value for key, value in known.items() if key in recorded}}
    return recorded


def _from_results(path: str, config: Options) -> str:
    """Return a path of the workflow relative to the results folder."""
    folders = config["pathvars"]
    for name in ("data", "results"):
        path = path.replace(f"<{name}>", str(folders[name]))
    return Path(os.path.relpath(path, folders["results"])).as_posix()


def study_of(config: Options) -> Study | None:
    """Return the study of a recorded configuration; None if it is not a whole one."""
    try:
        return Study.of(config)
    except ValidationError:
        return None
