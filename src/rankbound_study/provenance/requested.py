"""Compare the recorded options of trainings, tables and figures with those that the recorded configuration requests.

A manifest may be made again with another configuration than the steps had: their own records remain.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rankbound_study.config.comparisons import method_options
from rankbound_study.config.steps import as_json
from rankbound_study.config.study import Study
from rankbound_study.provenance.manifest import Manifest
from rankbound_study.provenance.records import Record

Options = Mapping[str, Any]

_RESULTS = "<results>/"
_NOT_WHOLE = (AttributeError, LookupError, TypeError, ValueError)


def contradictions(manifest: Manifest) -> Iterator[tuple[str, Options, Options]]:
    """Yield the first output of each step whose options differ, with the recorded options and the requested ones."""
    trainings = _trainings(manifest.config)
    for step in manifest.steps:
        recorded = step.arguments.get("options")
        if isinstance(recorded, Mapping) and step.outputs:
            wanted = _requested(step, recorded, trainings, manifest.config)
            if recorded != wanted:
                yield min(step.outputs), recorded, wanted


def _requested(step: Record, recorded: Options, trainings: Mapping[str, Options], config: Options) -> Options:
    """Return the options that a step should have had; the recorded ones if the configuration does not tell."""
    if step.subcommand == "job":
        return next((trainings[path] for path in step.outputs if path in trainings), recorded)
    if step.subcommand in ("table", "figure", "claims") and config.get("protocols"):
        # As `rankbound_study.config.steps` passes them.
        known = {"protocol": config["protocols"][0], "study": config.get("study")}
        return {**recorded, **{key: value for key, value in known.items() if key in recorded}}
    return recorded


def _trainings(config: Options) -> dict[str, Options]:
    """Return the options of every training by its table of runs; none if the configuration is not a whole one."""
    try:
        study = Study(config)
        options = {run.stem: study.options(run) for run in (*study.runs, *study.experiments)}
        for job in study.compared:
            options[job.stem] = method_options(study.comparisons[job.comparison], job.instances, job.method)
        return {f"{stem.removeprefix(_RESULTS)}.parquet": json.loads(as_json(own)) for stem, own in options.items()}
    except _NOT_WHOLE:
        return {}
