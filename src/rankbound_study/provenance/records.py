"""The record of one step: its inputs, outputs, code and machine. The step writes it, as one JSON file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from rankbound.errors import DataError
from rankbound_study.provenance.checksums import Checksum
from rankbound_study.provenance.facts import Code, Machine

SCHEMA = "rankbound.step/1"

WRONG = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""The errors of reading unexpected content."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt that did not finish; the result may include parts of it."""

    started: str
    machine: Machine


@dataclass(frozen=True, kw_only=True)
class Record:
    """A step that succeeded. Paths are relative to the results folder, with slashes.

    Attributes:
        schema: `SCHEMA`.
        name: of the record's file in the folder of records, without suffix: the step's first output.
        subcommand: of `python -m rankbound_study`.
        arguments: its arguments except files; JSON options as their content.
        seeds: all seeds among the arguments.
        inputs: the files that it read.
        outputs: the files that it made.
        code: the code that ran.
        versions: of the loaded libraries.
        switches: environment variables that choose instructions, threads or algorithms.
        machine: where it ran.
        started: time in UTC, ISO 8601.
        seconds: duration.
        peak_mib: peak memory, if the system reports it.
        attempts: earlier attempts that were killed or failed.
    """

    schema: str = SCHEMA
    name: str
    subcommand: str
    arguments: Mapping[str, Any]
    seeds: tuple[int, ...]
    inputs: Mapping[str, Checksum]
    outputs: Mapping[str, Checksum]
    code: Code
    versions: Mapping[str, str]
    switches: Mapping[str, str]
    machine: Machine
    started: str
    seconds: float
    peak_mib: float | None
    attempts: tuple[Attempt, ...] = ()

    @property
    def ended(self) -> datetime:
        """The time when the step ended."""
        return datetime.fromisoformat(self.started) + timedelta(seconds=self.seconds)

    def to_json(self) -> str:
        """Return the record as one line."""
        return json.dumps(asdict(self), sort_keys=True)


def read_record(path: Path) -> Record:
    """Read a step's record.

    Raises:
        DataError: the file is not a record.
    """
    return record_of(read_json(path), path)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; DataError names the file if it is not JSON."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not readable as JSON: {error}") from error


def record_of(content: Any, path: Path) -> Record:
    """Return the record in JSON content from `path`; DataError if it has none of this version."""
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise DataError(f"{path}: found the schema {schema!r}, expected {SCHEMA!r}: repeat the step that made it")
    try:
        record = built(
            Record,
            {
                **content,
                "inputs": checksums_of(content["inputs"]),
                "outputs": checksums_of(content["outputs"]),
                "code": built(Code, content["code"]),
                "machine": built(Machine, content["machine"]),
                "attempts": [attempt_of(one) for one in listed(content["attempts"])],
            },
        )
        if record.ended.tzinfo is None:
            raise ValueError("started: a time without a time zone")
    except WRONG as error:
        raise DataError(f"{path}: not a step's record ({error}): repeat the step that made it") from error
    return record


def attempt_of(content: Mapping[str, Any]) -> Attempt:
    """Return the attempt in JSON content; one of `WRONG` if it is none."""
    return built(Attempt, {**content, "machine": built(Machine, content["machine"])})


def listed(content: Any) -> list[Any]:
    """Return JSON content that is a list; TypeError otherwise."""
    if not isinstance(content, list):
        raise TypeError(f"found {content!r}, expected a list")
    return content


def checksums_of(content: Mapping[str, Any]) -> dict[str, Checksum]:
    """Return checksums by file from JSON content; one of `WRONG` if it has none."""
    return {path: built(Checksum, one) for path, one in content.items()}


def built(kind: type[T], content: Mapping[str, Any]) -> T:
    """Build a dataclass from JSON content with the same keys and types, lists as tuples; or raise one of `WRONG`."""
    types = get_type_hints(kind)
    if wrong := set(content).symmetric_difference(types):
        raise KeyError(f"{kind.__name__}: missing or unknown: {', '.join(sorted(wrong))}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
    for name, value in values.items():
        if not _is_of(value, types[name]):
            raise TypeError(f"{name} is {value!r}")
    return kind(**values)


def _is_of(value: Any, kind: Any) -> bool:
    """Return whether a value has a type, as annotated in this package's dataclasses."""
    inner, origin = get_args(kind), get_origin(kind)
    if isinstance(kind, UnionType):
        return any(_is_of(value, part) for part in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_of(part, inner[0]) for part in value)
    if origin is Mapping:
        return (
            isinstance(value, dict)
            and all(isinstance(key, str) for key in value)
            and all(_is_of(part, inner[1]) for part in value.values())
        )
    if kind is Any:
        return True
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is not int or not isinstance(value, bool))
