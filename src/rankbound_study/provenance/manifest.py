"""The manifest: one file that states, for every file of a results folder, which step made it from what.

It combines the records that still match the files with the configuration. It is self-contained: a folder can be checked
against it on a machine where no step has run.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound_study.provenance.checksums import MANIFEST, PAPER, RECORDS, Checksum, result_files
from rankbound_study.provenance.facts import Code, code
from rankbound_study.provenance.records import (
    WRONG,
    Record,
    built,
    checksums_of,
    listed,
    read_json,
    read_record,
    record_of,
)

SCHEMA = "rankbound.provenance/1"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The provenance of a results folder. Paths are relative to it, with slashes.

    Attributes:
        schema: `SCHEMA`.
        created: time in UTC, ISO 8601.
        config: the study's configuration.
        code: the code that made the manifest; every step has its own.
        steps: records, by start time.
        unrecorded: files made without a record.
    """

    schema: str = SCHEMA
    created: str
    config: Mapping[str, Any]
    code: Code
    steps: tuple[Record, ...]
    unrecorded: Mapping[str, Checksum]

    def makers(self) -> dict[str, Record]:
        """Return the step that made each file, by file."""
        return {path: step for step in self.steps for path in step.outputs}

    def files(self) -> dict[str, Checksum]:
        """Return every known file, including those of other folders."""
        files = {path: checksum for step in self.steps for path, checksum in step.outputs.items()}
        return dict(self.unrecorded) | files


def make_manifest(results: Path, config: Mapping[str, Any]) -> Manifest:
    """Read the records in `results`, and compute the checksums of files without one.

    Raises:
        DataError: a file differs from the record of the last step that made it.
    """
    records = [record for record in records_in(results) if not _is_later(record)]
    records.sort(key=lambda record: (record.started, sorted(record.outputs)))
    makers = {path: record for record in records for path in record.outputs}
    _refuse_changed(results, makers)
    steps = [record for record in records if all(makers[path] is record for path in record.outputs)]
    steps = [record for record in steps if all((results / path).is_file() for path in record.outputs)]
    known = {path for record in steps for path in record.outputs}
    every = result_files(results, costs_folder(config))
    others = [path for path in every if path not in known and not path.startswith(PAPER)]
    return Manifest(
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        config=config,
        code=code(),
        steps=tuple(steps),
        unrecorded={path: Checksum.of(results / path) for path in others},
    )


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write it as JSON, one line per step."""
    content = {**asdict(manifest), "steps": []}
    steps = ",\n".join(step.to_json() for step in manifest.steps)
    text = json.dumps(content, sort_keys=True, indent=1).replace('"steps": []', f'"steps": [\n{steps}\n ]')
    with atomic_path(path) as temporary:
        temporary.write_text(text + "\n", "utf-8")


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        DataError: the file is not a manifest.
    """
    content = read_json(path)
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise DataError(
            f"{path}: found the schema {schema!r}, expected {SCHEMA!r}: make it with "
            "`python -m rankbound_study provenance`"
        )
    try:
        manifest = built(
            Manifest,
            {
                **content,
                "code": built(Code, content["code"]),
                "steps": [record_of(step, path) for step in listed(content["steps"])],
                "unrecorded": checksums_of(content["unrecorded"]),
            },
        )
        if datetime.fromisoformat(manifest.created).tzinfo is None:
            raise ValueError("created: a time without a time zone")
        return manifest
    except WRONG as error:
        raise DataError(
            f"{path}: not a manifest ({error}): make it with `python -m rankbound_study provenance`"
        ) from error


def known_of(results: Path) -> Manifest:
    """Return the provenance of a folder: its manifest, and later records (the paper comes last).

    Raises:
        DataError: there is neither a manifest nor a record.
    """
    path = results / MANIFEST
    if not path.exists():
        steps = tuple(records_in(results))
        if not steps:
            raise DataError(
                f"{results}: no provenance: expected {MANIFEST}, or records of steps in {RECORDS}/, as the workflow "
                "leaves them; without either, `python -m rankbound_study provenance` records the present checksums"
            )
        return Manifest(created=steps[0].started, config={}, code=steps[0].code, steps=steps, unrecorded={})
    manifest = read_manifest(path)
    created = datetime.fromisoformat(manifest.created)
    later = [record for record in records_in(results) if record.ended >= created or MANIFEST in record.outputs]
    remade = {path for record in later for path in record.outputs}
    earlier = [step for step in manifest.steps if not remade.intersection(step.outputs)]
    unrecorded = {path: checksum for path, checksum in manifest.unrecorded.items() if path not in remade}
    return Manifest(
        created=manifest.created,
        config=manifest.config,
        code=manifest.code,
        steps=(*earlier, *later),
        unrecorded=unrecorded,
    )


def check_recorded(results: Path, manifest: Manifest, folders: Sequence[str]) -> None:
    """Compare the files of some folders in `results` with the manifest.

    Raises:
        DataError: a file has other content. Files that the manifest lacks, and missing files, are no error.
    """
    for path, checksum in manifest.files().items():
        file = results / path
        if path.startswith(tuple(f"{folder}/" for folder in folders)) and file.is_file() and not checksum.fits(file):
            raise DataError(
                f"{file}: its content is not what {MANIFEST} recorded: delete it and run the step that makes it again"
            )


def records_in(results: Path) -> Iterator[Record]:
    """Yield the records in a results folder, in the order of their file names."""
    for path in sorted((results / RECORDS).rglob("*.json")):
        if not path.name.startswith("."):
            yield read_record(path)


def config_digest(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a configuration's values, independent of the order of keys."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def restore_records(results: Path) -> int:
    """Write the records that only the manifest has, or has in another version; return their number.

    The manifest is self-contained, but the next one is made from records.

    Raises:
        DataError: a record's name points outside the folder.
    """
    count = 0
    for step in read_manifest(results / MANIFEST).steps:
        place = PurePosixPath(step.name)
        if place.is_absolute() or ".." in place.parts:
            raise DataError(f"{results / MANIFEST}: a record is named {step.name}, expected a path without ..")
        path = results / RECORDS / f"{step.name}.json"
        text = step.to_json() + "\n"
        if not path.exists() or path.read_text("utf-8") != text:
            with atomic_path(path) as temporary:
                temporary.write_text(text, "utf-8")
            count += 1
    return count


def costs_folder(config: Mapping[str, Any]) -> str:
    """Return the folder of the steps' costs, relative to the results folder."""
    folders = config.get("pathvars") or {}
    costs, results = folders.get("benchmarks", "results/benchmarks"), folders.get("results", "results")
    return str(costs).removeprefix(f"{results}/")


def seeds_of(steps: Sequence[Record]) -> list[int]:
    """Return all seeds of these steps."""
    return sorted({seed for step in steps for seed in step.seeds})


def _is_later(record: Record) -> bool:
    """Return whether the record is of the manifest or of something made from it."""
    return any(path == MANIFEST or path.startswith(PAPER) for path in record.outputs)


def _refuse_changed(results: Path, makers: Mapping[str, Record]) -> None:
    for path, maker in makers.items():
        if (results / path).is_file() and not maker.outputs[path].fits(results / path):
            raise DataError(
                f"{results / path}: its content is not what `python -m rankbound_study {maker.subcommand}` made and "
                "recorded: delete it and run the step that makes it again (if it was remade without a record, "
                f"delete {results / RECORDS / maker.name}.json)"
            )
