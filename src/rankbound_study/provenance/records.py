"""The record of one step: what it read, made, ran and ran on. One JSON file each, written by the step itself."""

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
"""What reading something else than was expected ends in."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A try at a step that never ended: what it finished may be part of the result."""

    started: str
    machine: Machine


@dataclass(frozen=True, kw_only=True)
class Record:
    """A step that ended well. Paths are relative to the results folder, with slashes.

    Attributes:
        schema: `SCHEMA`.
        name: of the record's file in the folder of records, without its ending: the step's first output.
        subcommand: of `python -m rankbound_study`.
        arguments: its arguments but for files; options that are JSON as what they say.
        seeds: all seeds among the arguments.
        inputs: the files that it was given.
        outputs: the files that it made.
        code: the package that ran.
        versions: of the libraries that were loaded.
        switches: environment variables that choose instructions, threads or algorithms.
        machine: where it ran.
        started: time in UTC, ISO 8601.
        seconds: how long it took.
        peak_mib: the most memory that it had, if the system said.
        attempts: earlier tries that were killed, or failed.
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
        """When the step ended."""
        return datetime.fromisoformat(self.started) + timedelta(seconds=self.seconds)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self), sort_keys=True)


def read_record(path: Path) -> Record:
    """Read a step's record.

    Raises:
        DataError: it is no such file.
    """
    return record_of(read_json(path), path)


def read_json(path: Path) -> Any:
    """The content of a JSON file; DataError says which file is none."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not readable as JSON: {error}") from error


def record_of(content: Any, path: Path) -> Record:
    """The record that JSON content from `path` holds; DataError if it holds none of this version."""
    found = content.get("schema") if isinstance(content, dict) else None
    if found != SCHEMA:
        raise DataError(f"{path}: found the schema {found!r}, expected {SCHEMA!r}: run the step again that made it")
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
            raise ValueError("started: a time without its zone")
    except WRONG as error:
        raise DataError(f"{path}: not a step's record ({error}): run the step again that made it") from error
    return record


def attempt_of(content: Mapping[str, Any]) -> Attempt:
    """An attempt of its JSON content; one of `WRONG` if it is none."""
    return built(Attempt, {**content, "machine": built(Machine, content["machine"])})


def listed(content: Any) -> list[Any]:
    """JSON content that is a list; TypeError if it is none."""
    if not isinstance(content, list):
        raise TypeError(f"found {content!r}, expected a list")
    return content


def checksums_of(content: Mapping[str, Any]) -> dict[str, Checksum]:
    """Checksums by file, of their JSON content; one of `WRONG` if it is none."""
    return {path: built(Checksum, one) for path, one in content.items()}


def built(kind: type[T], content: Mapping[str, Any]) -> T:
    """A dataclass of its JSON content: the same keys, values of their types, lists as tuples; one of `WRONG` if not."""
    types = get_type_hints(kind)
    if wrong := set(content).symmetric_difference(types):
        raise KeyError(f"{kind.__name__}: missing or unknown: {', '.join(sorted(wrong))}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
    for name, value in values.items():
        if not _is_of(value, types[name]):
            raise TypeError(f"{name} is {value!r}")
    return kind(**values)


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value is of a type as this package's dataclasses have them."""
    inner, origin = get_args(kind), get_origin(kind)
    if isinstance(kind, UnionType):
        return any(_is_of(value, one) for one in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_of(one, inner[0]) for one in value)
    if origin is Mapping:
        return (
            isinstance(value, dict)
            and all(isinstance(key, str) for key in value)
            and all(_is_of(one, inner[1]) for one in value.values())
        )
    if kind is Any:
        return True
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is not int or not isinstance(value, bool))
