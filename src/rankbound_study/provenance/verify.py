"""Check a results folder against its provenance; and report what differs."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from rankbound.texts import LONGEST, printable, quantity, shortened
from rankbound_study.config.sections.base import SOURCES
from rankbound_study.config.study import Study
from rankbound_study.options import as_json
from rankbound_study.provenance.checksums import MANIFEST, PAPER, Checksum, Places, hidden_files, result_files
from rankbound_study.provenance.manifest import Manifest, known_of, read_manifest, records_in
from rankbound_study.provenance.records import digest
from rankbound_study.vocabulary import EXPERIMENTS

DIFFERS = ("changed", "missing", "unknown", "input", "chain", "origin", "record", "config")
"""Kinds of findings that are differences from the provenance; the others cannot be decided here."""

RAW = "raw"
"""Folder of raw archives in the data folder: the steps that read one compare its content with known checksums."""

SHOWN = 3
"""Number of files named in one finding."""


@dataclass(frozen=True)
class Deviation:
    """A deviation from the record: its kind, its subject, and what was found."""

    kind: str
    subject: str
    text: str


@dataclass(frozen=True)
class Verification:
    """The result of a check: how many files and inputs are as recorded, and what is not."""

    manifest: Manifest
    files: int
    inputs: int
    findings: tuple[Deviation, ...]

    def holds(self, *, strict: bool) -> bool:
        """Return whether nothing differs and, with `strict`, nothing is undecided."""
        return not any(finding.kind in DIFFERS or strict for finding in self.findings)


def verify(results: Path, config: Mapping[str, Any] | None = None) -> Verification:
    """Check every file of `results`, the inputs of its steps as far as they are here, the configuration and the code.

    Args:
        results: a results folder, here or copied from elsewhere.
        config: its expected configuration; None: not checked.

    Raises:
        DataError: the folder has no provenance, or it cannot be read.
    """
    manifest = known_of(results, config)
    places = Places.of(results, manifest.config if config is None else config, trusted=config is not None)
    try:
        study = Study(manifest.config)
    except ValidationError:
        study = None
    inside = {path: checksum for path, checksum in manifest.files().items() if not path.startswith("../")}
    files, inputs = list(_files(places, manifest, inside)), list(_inputs(places, manifest))
    differing = {finding.subject for finding in (*files, *inputs) if finding.kind in DIFFERS}
    unchecked = {finding.subject for finding in inputs if finding.kind == "unchecked"}
    read = {path for step in manifest.steps for path in step.inputs if path not in inside}
    told = {(step.name, step.started): step for step in read_manifest(results / MANIFEST).steps}
    contradicting = [one.name for one in records_in(results) if told.get((one.name, one.started), one) != one]
    if config is None:
        of_config = []
    elif not manifest.config:
        of_config = [Deviation("unchecked", "configuration", f"none is recorded in {MANIFEST}")]
    else:
        # In JSON, as it was recorded, all keys are texts.
        pairs = _differing(manifest.config, json.loads(json.dumps(config)), "nothing")
        # The archives' origin is not part of a study: their content is checked.
        of_config = [Deviation("config", key, f"found {b}, recorded {a}") for key, a, b in pairs if key != "mirror"]
    of_record = f"its record says something else than {MANIFEST} of the same run of the step"
    of_unrecorded = "its checksum is known, but not the step that made it"
    of_hidden = "hidden, or left by a training that was ended: no result"
    findings = (
        *_origins(manifest, study),
        *(Deviation("record", name, of_record) for name in contradicting),
        *files,
        *inputs,
        *of_config,
        *_options(manifest, study),
        *_code(manifest),
        *(Deviation("unrecorded", path, of_unrecorded) for path in sorted(manifest.unrecorded)),
        *(Deviation("unchecked", path, of_hidden) for path in hidden_files(results)),
    )
    return Verification(manifest, len(set(inside) - differing), len(read - differing - unchecked), findings)


def _files(places: Places, manifest: Manifest, inside: Mapping[str, Checksum]) -> Iterator[Deviation]:
    makers = manifest.makers()
    for path, checksum in sorted(inside.items()):
        maker = f"made by {makers[path].subcommand}" if path in makers else "made by a step that left no record"
        if (file := places.file(path)) is None:
            yield Deviation("missing", path, f"{maker}; {places.why_absent(path)}")
        elif not checksum.fits(file):
            yield Deviation("changed", path, f"{maker}; its content has changed")
    for path in result_files(places.results):
        if path not in inside and path.startswith(PAPER):
            yield Deviation("unchecked", path, f"made after {MANIFEST}, and its record is missing")
        elif path not in inside:
            yield Deviation("unknown", path, "no step made it")


def _inputs(places: Places, manifest: Manifest) -> Iterator[Deviation]:
    """Check files that steps read: those of other folders on disk, all against the steps that made them."""
    known = manifest.files()
    checksums_read: dict[str, set[Checksum]] = {}
    for step in manifest.steps:
        for path, checksum in step.inputs.items():
            checksums_read.setdefault(path, set()).add(checksum)
    for path, checksums in sorted(checksums_read.items()):
        (first, *others) = sorted(checksums, key=lambda one: one.sha256)
        if others or (path in known and known[path] != first):
            yield Deviation("chain", path, "steps read other content than the last recorded one")
        elif path.startswith("../"):
            if (file := places.file(path)) is None:
                yield Deviation("unchecked", path, places.why_absent(path))
            elif not first.fits(file):
                yield Deviation("input", path, "its content has changed")


def _options(manifest: Manifest, study: Study | None) -> Iterator[Deviation]:
    """Compare the recorded options of steps with those that the recorded configuration requests.

    A manifest may be made again with another configuration than the steps had: their own records remain.
    """
    config = manifest.config
    if config and study is None:
        text = "the recorded configuration is not one that this version reads"
        yield Deviation("unchecked", "options of steps", text)
    requests = study.requests.items() if study else ()
    requested = {_from_results(path, config): json.loads(as_json(request.options)) for path, request in requests}
    for step in manifest.steps:
        recorded = step.arguments.get("options")
        recorded = recorded if isinstance(recorded, Mapping) else {}
        wanted = next((requested[path] for path in step.outputs if path in requested), None)
        if wanted is None:
            # No single path tells the options of results; of other steps, nothing is known.
            is_result = step.subcommand in ("table", "figure", "claims") and config.get("protocols")
            known = {"protocol": config["protocols"][0], "study": config.get("study")} if is_result else {}
            wanted = {**recorded, **{key: value for key, value in known.items() if key in recorded}}
        elif not recorded:
            # Some steps have a flag for each option, whose value may be a text.
            flags = {key: step.arguments[key] for key in (*wanted, "planted") if key in step.arguments}
            same = [key for key, value in flags.items() if key in wanted and str(value) == str(wanted[key])]
            recorded = {**flags, **{key: wanted[key] for key in same}}
        if step.outputs and recorded != wanted:
            pairs = _differing(recorded, wanted, "unset")
            found = ", ".join(f"{key} {was} instead of {expected}" for key, was, expected in pairs)
            text = f"not made as the recorded configuration requests: {found}"
            yield Deviation("config", min(step.outputs), text)


def _origins(manifest: Manifest, study: Study | None) -> Iterator[Deviation]:
    """Check that all inputs come from recorded steps, which read what the configuration requests, or are raw files."""
    # Somebody's own files lie anywhere; conversion compares them with the checksums of their description, if any.
    own = {path for step in manifest.steps if step.subcommand == "convert" for path in step.inputs}
    for path in sorted({path for step in manifest.steps for path in step.inputs} - set(manifest.makers()) - own):
        if not (path.startswith("../") and PurePosixPath(path).parent.name == RAW):
            yield Deviation("origin", path, "no recorded step made it, but one read it")
    if study is None:
        return
    files = {path: request.paths for path, request in study.requests.items() if request.inputs}
    files["<results>/runs.parquet"] = [*study.joined.runs, *study.joined.beside]
    for part, (runs, beside) in study.collected.items():
        path = "<results>/experiments.parquet" if part == EXPERIMENTS else f"<results>/collected/{part}.parquet"
        files[path] = [*runs, *beside]
    config = manifest.config
    requested = {
        _from_results(path, config): {_from_results(one, config) for one in read} for path, read in files.items()
    }
    for step in manifest.steps:
        for path in step.outputs:
            if path in requested and (others := sorted(requested[path] ^ set(step.inputs))):
                some = ", ".join(others[:SHOWN]) + (f" and {len(others) - SHOWN} more" if len(others) > SHOWN else "")
                yield Deviation("origin", path, f"not made from what the recorded configuration requests: {some}")


def _from_results(path: str, config: Mapping[str, Any]) -> str:
    """Return a path of the workflow relative to the results folder."""
    folders = config["pathvars"]
    for name in ("data", "results"):
        path = path.replace(f"<{name}>", str(folders[name]))
    return Path(os.path.relpath(path, folders["results"])).as_posix()


def _code(manifest: Manifest) -> Iterator[Deviation]:
    """Compare the files of the packages that steps loaded with those that are here."""
    loaded = Counter[tuple[str, str]]()
    for sha256, steps in Counter(step.code.sha256 for step in manifest.steps).items():
        files = manifest.files_of_code.get(sha256, {})
        if digest(files) != sha256:
            text = f"the files that {quantity(steps, 'step')} loaded are not known"
            yield Deviation("code", f"code {sha256[:12]}", text)
        else:
            loaded.update(dict.fromkeys(files.items(), steps))
    files_here = {path: Places(SOURCES).file(path) for path, _ in loaded}
    here = {path: Checksum.of(file).sha256 if file else None for path, file in files_here.items()}
    for (path, checksum), steps in sorted(loaded.items()):
        if here[path] != checksum:
            found = "is not here" if here[path] is None else "has changed"
            yield Deviation("code", path, f"{found} since {quantity(steps, 'step')} loaded it")


def _differing(first: Mapping[str, Any], second: Mapping[str, Any], absent: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the keys of nested sections, joined by dots, whose values differ, with both values."""
    for key in sorted({*first, *second}):
        one, other = first.get(key, absent), second.get(key, absent)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from ((f"{key}.{inner}", a, b) for inner, a, b in _differing(one, other, absent))
        elif one != other:
            yield key, one, other


def report_text(report: Verification, *, strict: bool, config_checked: bool) -> str:
    """Return the counts of what is as recorded, a line per deviation, and the verdict."""
    manifest, findings = report.manifest, report.findings
    differing = sum(finding.kind == "config" for finding in findings)
    of_config = f"differs in {quantity(differing, 'key')}" if differing else "as recorded"
    lines = [
        f"{manifest.config.get('study', 'unknown study')}: {quantity(len(manifest.steps), 'step')}, recorded until "
        f"{manifest.created[:19]} UTC",
        f"  files   {report.files} as recorded",
        f"  inputs  {report.inputs} as recorded",
        f"  config  {of_config if config_checked else 'not checked: name it with --config'}",
    ]
    for title, differs in (("differs:", True), ("undecided:", False)):
        kinds = list(dict.fromkeys(finding.kind for finding in findings if (finding.kind in DIFFERS) == differs))
        lines += ["", title] if kinds else []
        for kind in kinds:
            lines += [f"  {kind:<11}{one.subject}: {one.text}" for one in findings if one.kind == kind]
    count = sum(finding.kind in DIFFERS or strict for finding in findings)
    lines += ["", f"{quantity(count, 'difference') if count else 'nothing differs'} from what was recorded"]
    # Names are from files that others may have made: none of them breaks a line.
    return "\n".join(shortened(printable(line), LONGEST) for line in lines)
