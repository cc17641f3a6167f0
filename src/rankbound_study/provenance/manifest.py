"""The manifest: one file that states, for every file of a results folder, which step made it from what.

It combines the records that still match the files with the configuration. It is self-contained: a folder can be checked
against it on a machine where no step has run.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound.printable import printable
from rankbound_study.provenance.checksums import MANIFEST, PAPER, RECORDS, Checksum, result_files
from rankbound_study.provenance.facts import Code, code
from rankbound_study.provenance.places import Places
from rankbound_study.provenance.records import Record, read_json, read_record


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The provenance of a results folder. Paths are relative to it, with slashes.

    Attributes:
        schema: the version of this description.
        created: time in UTC, ISO 8601.
        config: the study's configuration.
        code: the code that made the manifest; every step has its own.
        steps: records, by start time.
        unrecorded: files made without a record.
    """

    schema: Literal["rankbound.provenance/1"] = "rankbound.provenance/1"
    created: str
    config: Mapping[str, Any]
    code: Code
    steps: tuple[Record, ...]
    unrecorded: Mapping[str, Checksum]

    def __post_init__(self) -> None:
        if datetime.fromisoformat(self.created).tzinfo is None:
            raise ValueError("a time without a time zone")

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
    records = _in_order(record for record in records_in(results) if not _is_later(record))
    recorded = Manifest(created=_now(), config=config, code=code(), steps=tuple(records), unrecorded={})
    places = Places.of(results, config, trusted=True)
    check_recorded(places, recorded)
    steps = [step for step in _last_makers(records) if all(map(places.file, step.outputs))]
    known = {path for step in steps for path in step.outputs}
    others = [path for path in result_files(results, costs_folder(config)) if path not in known]
    unrecorded = {path: Checksum.of(results / path) for path in others if not path.startswith(PAPER)}
    return replace(recorded, steps=tuple(steps), unrecorded=unrecorded)


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write it as JSON, one line per step."""
    content = {**asdict(manifest), "steps": []}
    steps = ",\n".join(step.to_json() for step in manifest.steps)
    text = json.dumps(content, sort_keys=True, indent=1).replace('"steps": []', f'"steps": [\n{steps}\n ]')
    with atomic_path(path) as temporary:
        temporary.write_text(text + "\n", "utf-8")


def read_manifest(path: Path) -> Manifest:
    """Read a manifest; DataError if the file is none."""
    return read_json(Manifest, path, "make it with `python -m rankbound_study provenance`")


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
    unrecorded = {path: checksum for path, checksum in manifest.unrecorded.items() if path not in remade}
    return replace(manifest, steps=tuple(_last_makers([*manifest.steps, *later])), unrecorded=unrecorded)


def check_recorded(places: Places, manifest: Manifest, folders: Sequence[str] = ("",)) -> None:
    """Compare the files of some folders in the results with the manifest.

    Raises:
        DataError: a file has other content. Files that the manifest lacks, and missing files, are no error.
    """
    makers = manifest.makers()
    for path, checksum in manifest.files().items():
        content = places.file(path) if path.startswith(tuple(folders)) else None
        if content is None or checksum.fits(content):
            continue
        file, records = printable(str(places.results / path)), places.results / RECORDS
        remedy = "delete it and run the step that makes it again"
        if path not in makers:
            raise DataError(f"{file}: its content is not what {MANIFEST} recorded: {remedy}")
        raise DataError(
            f"{file}: its content is not what `python -m rankbound_study {makers[path].subcommand}` made and recorded: "
            f"{remedy} (if it was remade without a record, delete {records / printable(makers[path].name)}.json)"
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _is_later(record: Record) -> bool:
    """Return whether the record is of the manifest or of something made from it."""
    return any(path == MANIFEST or path.startswith(PAPER) for path in record.outputs)


def _in_order(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (record.started, sorted(record.outputs)))


def _last_makers(records: Iterable[Record]) -> list[Record]:
    """Return the records whose outputs no later step has made again, in order."""
    ordered = _in_order(records)
    makers = {path: record for record in ordered for path in record.outputs}
    return [record for record in ordered if all(makers[path] is record for path in record.outputs)]
