"""Check a results folder for changes since it was made."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from rankbound.texts import quantity
from rankbound_study.provenance.checksums import MANIFEST, PAPER, Checksum, hidden_files, result_files
from rankbound_study.provenance.facts import code
from rankbound_study.provenance.manifest import Manifest, contradicting_records, known_of
from rankbound_study.provenance.places import Places
from rankbound_study.provenance.requested import contradictions, other_inputs

DIFFERS = ("changed", "missing", "unknown", "input", "chain", "origin", "record", "config")
"""Kinds of findings that are differences from the provenance."""

OPEN = ("code", "unchecked", "unrecorded")
"""Kinds that cannot be decided: another package than here, a missing file, a file without a record."""

RAW = "raw"
"""Folder of raw archives in the data folder: the steps that read one compare its content with known checksums."""

SHOWN = 3
"""Number of files named in one finding."""


@dataclass(frozen=True)
class Deviation:
    """A deviation from the record: its kind (of `DIFFERS` or `OPEN`), its subject, and what was found."""

    kind: str
    subject: str
    text: str


@dataclass(frozen=True)
class Verification:
    """The result of a check: what was checked, how much is as recorded, and what is not."""

    manifest: Manifest
    checked: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Deviation, ...] = ()

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
    inside = {path: checksum for path, checksum in manifest.files().items() if not path.startswith("../")}
    files = list(_files(places, manifest, inside))
    inputs = list(_inputs(places, manifest))
    configured = list(_config(manifest, config))
    differing = {finding.subject for finding in (*files, *inputs) if finding.kind in DIFFERS}
    unchecked = {finding.subject for finding in inputs if finding.kind == "unchecked"}
    read = {path for step in manifest.steps for path in step.inputs if path not in inside}
    return Verification(
        manifest,
        {
            "files": len(set(inside) - differing),
            "inputs": len(read - differing - unchecked),
            "steps": len(manifest.steps),
        },
        (
            *_origins(manifest),
            *_records(results),
            *files,
            *inputs,
            *configured,
            *_contradictions(manifest),
            *_code(manifest),
            *_unrecorded(manifest),
            *_hidden(results),
        ),
    )


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


def _config(manifest: Manifest, config: Mapping[str, Any] | None) -> Iterator[Deviation]:
    if config is None:
        return
    if not manifest.config:
        yield Deviation("unchecked", "configuration", f"none is recorded: {MANIFEST}, which would have it, is missing")
        return
    recorded, present = _flat(manifest.config), _flat(config)
    for key in sorted(set(recorded) | set(present)):
        # The archives' origin is not part of a study: their content is checked.
        if key != "mirror" and recorded.get(key, _ABSENT) != present.get(key, _ABSENT):
            found, expected = present.get(key, "nothing"), recorded.get(key, "nothing")
            yield Deviation("config", key, f"found {found}, recorded {expected}")


def _contradictions(manifest: Manifest) -> Iterator[Deviation]:
    for path, recorded, requested in contradictions(manifest):
        was, wanted = _flat(recorded), _flat(requested)
        keys = [key for key in sorted(was | wanted) if was.get(key, _ABSENT) != wanted.get(key, _ABSENT)]
        found = ", ".join(f"{key} {was.get(key, 'unset')} instead of {wanted.get(key, 'unset')}" for key in keys)
        yield Deviation("config", path, f"not made as the recorded configuration requests: {found}")


def _origins(manifest: Manifest) -> Iterator[Deviation]:
    """Check that all inputs come from recorded steps, which read what the configuration requests, or are raw files."""
    # Somebody's own files lie anywhere; conversion compares them with the checksums of their description, if any.
    own = {path for step in manifest.steps if step.subcommand == "convert" for path in step.inputs}
    for path in sorted({path for step in manifest.steps for path in step.inputs} - set(manifest.makers()) - own):
        if not (path.startswith("../") and PurePosixPath(path).parent.name == RAW):
            yield Deviation("origin", path, "no recorded step made it, but one read it")
    for path, others in other_inputs(manifest):
        yield Deviation("origin", path, f"not made from what the recorded configuration requests: {_some(others)}")


def _records(results: Path) -> Iterator[Deviation]:
    for name in contradicting_records(results):
        yield Deviation("record", name, f"its record says something else than {MANIFEST} of the same run of the step")


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:SHOWN]) + (f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else "")


def _hidden(results: Path) -> Iterator[Deviation]:
    for path in hidden_files(results):
        yield Deviation("unchecked", path, "hidden, or left by a training that was ended: no result")


def _code(manifest: Manifest) -> Iterator[Deviation]:
    here = code()
    by_code: dict[tuple[str, str], int] = {}
    for step in manifest.steps:
        if step.code.sha256 != here.sha256:
            name = f"commit {step.code.commit[:12]}" if step.code.commit else f"code {step.code.sha256[:12]}"
            changed = f" with {quantity(len(step.code.modified), 'modified file')}" if step.code.modified else ""
            by_code[(name, changed)] = by_code.get((name, changed), 0) + 1
    for (name, changed), count in by_code.items():
        yield Deviation(
            "code", name + changed, f"another package than the installed one made {quantity(count, 'step')}"
        )


def _unrecorded(manifest: Manifest) -> Iterator[Deviation]:
    for path in sorted(manifest.unrecorded):
        yield Deviation("unrecorded", path, "its checksum is known, but not the step that made it")


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested sections into keys joined by dots."""
    if not isinstance(value, Mapping) or not value:
        return {prefix: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return found


_ABSENT = object()
