"""The manifest: one file that states, for every file of a results folder, which step made it from what.

It combines the records that still match the files with the configuration. It is self-contained: a folder can be checked
against it on a machine where no step has run.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from rankbound.errors import DataError
from rankbound.io.atomic import write_text
from rankbound.texts import printable, quantity
from rankbound_study.options import parse_options
from rankbound_study.provenance.checksums import MANIFEST, PAPER, RECORDS, Checksum, Places, open_regular, result_files
from rankbound_study.provenance.records import Code, Record, code, code_file, digest, listing, read_code

T = TypeVar("T")

SHOWN = 60
"""Number of characters shown of unexpected content."""

_adapter = cache(TypeAdapter[Any])


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
        files_of_code: the SHA-256 of each file of the packages that a step loaded, by the SHA-256 of the step's code;
            none for steps of older versions.
    """

    schema: Literal["rankbound.provenance/1"] = "rankbound.provenance/1"
    created: str
    config: Mapping[str, Any]
    code: Code
    steps: tuple[Record, ...]
    unrecorded: Mapping[str, Checksum]
    files_of_code: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if datetime.fromisoformat(self.created).tzinfo is None:
            raise ValueError("a time without a time zone")

    def makers(self) -> dict[str, Record]:
        """Return the step that made each file, by file."""
        return {path: step for step in self.steps for path in step.outputs}

    def files(self) -> dict[str, Checksum]:
        """Return every known file, including those of other folders."""
        return {**self.unrecorded, **{path: content for step in self.steps for path, content in step.outputs.items()}}


def collect_manifest(results: Path, options: str, out: Path) -> None:
    """Run the step `provenance`: collect the records, check them against the files, write, and count."""
    manifest = make_manifest(results, parse_options(options))
    write_manifest(manifest, out)
    made = quantity(sum(len(step.outputs) for step in manifest.steps), "file")
    unrecorded = quantity(len(manifest.unrecorded), "file")
    print(f"{quantity(len(manifest.steps), 'step')} made {made}; without a record: {unrecorded}")


def make_manifest(results: Path, config: Mapping[str, Any]) -> Manifest:
    """Read the records in `results`, and compute the checksums of files without one.

    Raises:
        DataError: a file differs from the record of the last step that made it.
    """
    places = Places.of(results, config, trusted=True)
    records = _makers((record for record in records_in(results) if not _is_later(record)), places)
    created = datetime.now(UTC).isoformat(timespec="microseconds")
    recorded = Manifest(created=created, config=config, code=code(), steps=tuple(records), unrecorded={})
    check_recorded(places, recorded)
    steps = [step for step in records if all(map(places.file, step.outputs))]
    known = {path for step in steps for path in step.outputs}
    others = [path for path in result_files(results) if path not in known]
    unrecorded = {path: Checksum.of(results / path) for path in others if not path.startswith(PAPER)}
    return replace(recorded, steps=tuple(steps), unrecorded=unrecorded, files_of_code=_files_of_code(results, steps))


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write it as JSON, one line per step."""
    content = {**asdict(manifest), "steps": []}
    steps = ",\n".join(step.to_json() for step in manifest.steps)
    text = json.dumps(content, sort_keys=True, indent=1).replace('"steps": []', f'"steps": [\n{steps}\n ]')
    write_text(path, f"{text}\n")


def read_manifest(path: Path) -> Manifest:
    """Read a manifest; DataError if the file is none."""
    return _read(Manifest, path, "make it with `python -m rankbound_study provenance`")


def read_record(path: Path) -> Record:
    """Read a step's record; DataError if the file is none of this version."""
    return _read(Record, path, "repeat the step that made it")


def known_of(results: Path, config: Mapping[str, Any] | None = None) -> Manifest:
    """Return the provenance of a folder: its manifest, and records of later steps, such as the paper's.

    Where they contradict each other, the one whose checksums the files have is right: clocks decide nothing.

    Args:
        results: the folder.
        config: its configuration, if the reader has one; otherwise that of the manifest is used to find its data.

    Raises:
        DataError: there is no manifest.
    """
    path = results / MANIFEST
    if not path.exists():
        make = "`python -m rankbound_study provenance` makes it of the steps' records and the present checksums"
        raise DataError(f"{results}: no provenance: expected {MANIFEST}, as the workflow leaves it; {make}")
    manifest = read_manifest(path)
    places = Places.of(results, manifest.config if config is None else config, trusted=config is not None)
    others = [record for record in records_in(results) if _is_later(record) or any(map(places.file, record.outputs))]
    steps = _makers([*manifest.steps, *others], places)
    remade = {path for step in steps for path in step.outputs}
    unrecorded = {path: checksum for path, checksum in manifest.unrecorded.items() if path not in remade}
    files_of_code = {**_files_of_code(results, steps), **manifest.files_of_code}
    return replace(manifest, steps=tuple(steps), unrecorded=unrecorded, files_of_code=files_of_code)


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
        maker, file = makers.get(path), printable(str(places.results / path))
        made = f"`python -m rankbound_study {maker.subcommand}` made and " if maker else ""
        record = f"{RECORDS}/{maker.name}.json" if maker else MANIFEST
        where = printable(record if (places.results / record).exists() else MANIFEST)
        remedy = f"delete it and run the step that makes it again (remade without a record: delete {where})"
        raise DataError(f"{file}: its content is not what {made}{where} recorded: {remedy}")


def records_in(results: Path) -> Iterator[Record]:
    """Yield the records in a results folder, in the order of their file names."""
    for path in sorted((results / RECORDS).rglob("*.json")):
        if not path.name.startswith("."):
            yield read_record(path)


def restore_records(results: Path) -> int:
    """Write the records that only the manifest has, or has in another version; return their number.

    The manifest is self-contained, but the next one is made from records.

    Raises:
        DataError: a record's name points outside the folder.
    """
    count = 0
    manifest = read_manifest(results / MANIFEST)
    for sha256, files in manifest.files_of_code.items():
        # Its name is its content's, so that it cannot lead elsewhere.
        if digest(files) == sha256 and not code_file(results, sha256).exists():
            write_text(code_file(results, sha256), listing(files))
    for step in manifest.steps:
        place = PurePosixPath(step.name)
        if place.is_absolute() or ".." in place.parts:
            raise DataError(f"{results / MANIFEST}: a record is named {step.name}, expected a path without ..")
        path, text = results / RECORDS / f"{step.name}.json", f"{step.to_json()}\n"
        if not path.exists() or path.read_text("utf-8") != text:
            write_text(path, text)
            count += 1
    return count


def _read(kind: type[T], path: Path, remedy: str) -> T:
    """Read a JSON file into a dataclass; DataError if keys or types are not as annotated."""
    try:
        with open_regular(path) as file:
            content: T = _adapter(kind).validate_json(file.read(), strict=True)  # type: ignore[arg-type]
        return content
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"])) or "content"
        expected = problem["msg"].replace("Input should be", "expected").replace("Value error, ", "")
        raise DataError(f"{path}: {place}: {expected}, found {str(problem['input'])[:SHOWN]!r}: {remedy}") from error
    except (OSError, OverflowError) as error:
        raise DataError(f"{path}: {error}: {remedy}") from error


def _files_of_code(results: Path, steps: Iterable[Record]) -> dict[str, dict[str, str]]:
    known = {sha256: read_code(results, sha256) for sha256 in sorted({step.code.sha256 for step in steps})}
    return {sha256: files for sha256, files in known.items() if files}


def _is_later(record: Record) -> bool:
    """Return whether the record is of the manifest or of something made from it."""
    return any(path == MANIFEST or path.startswith(PAPER) for path in record.outputs)


def _makers(records: Iterable[Record], places: Places) -> list[Record]:
    """Return, by start time, the records that no other record of the same outputs replaces.

    Of several records of a file, those replace the others whose checksum it has; among these, the last one.
    """
    in_order = sorted(records, key=lambda record: (record.started, sorted(record.outputs)))
    ordered = list({record.to_json(): record for record in in_order}.values())
    claims: dict[str, list[Record]] = {}
    for record in ordered:
        for path in record.outputs:
            claims.setdefault(path, []).append(record)
    makers: dict[str, Record] = {}
    for path, claimed in claims.items():
        file = places.file(path) if len(claimed) > 1 else None
        found = file and Checksum.of(file)
        makers[path] = max(claimed, key=lambda record: (record.outputs[path] == found, record.started))
    return [record for record in ordered if all(makers[path] is record for path in record.outputs)]
