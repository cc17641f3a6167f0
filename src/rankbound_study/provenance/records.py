"""The record of one step: its inputs, outputs, code and machine. The step writes it, as one JSON file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound_study.provenance.checksums import RECORDS, Checksum, open_regular
from rankbound_study.provenance.facts import Code, Machine
from rankbound_study.provenance.loaded import digest

T = TypeVar("T")

SHOWN = 60
"""Number of characters shown of unexpected content."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt that did not finish; the result may include parts of it."""

    started: str
    machine: Machine


@dataclass(frozen=True, kw_only=True)
class Record:
    """A step that succeeded. Paths are relative to the results folder, with slashes.

    Attributes:
        schema: the version of this description.
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
        cpu_seconds: processor time of its process, from the start of Python on; 0 in records of older versions.
        peak_mib: peak memory, if the system reports it.
        attempts: earlier attempts that were killed or failed.
    """

    schema: Literal["rankbound.step/1"] = "rankbound.step/1"
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
    cpu_seconds: float = 0.0
    attempts: tuple[Attempt, ...] = ()

    def __post_init__(self) -> None:
        if self.ended.tzinfo is None:
            raise ValueError("a time without a time zone")

    @property
    def ended(self) -> datetime:
        """The time when the step ended."""
        return datetime.fromisoformat(self.started) + timedelta(seconds=self.seconds)

    def to_json(self) -> str:
        """Return the record as one line."""
        return json.dumps(asdict(self), sort_keys=True)


def read_record(path: Path) -> Record:
    """Read a step's record; DataError if the file is none of this version."""
    return read_json(Record, path, "repeat the step that made it")


def read_json(kind: type[T], path: Path, remedy: str) -> T:
    """Read a JSON file into a dataclass or a tuple of them; DataError if keys or types are not as annotated."""
    from pydantic import ValidationError

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


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, "utf-8")


def code_file(results: Path, sha256: str) -> Path:
    """Return the place of the list of the files that steps loaded: what `sha256sum --check` reads beside them."""
    return results / RECORDS / "code" / f"{sha256}.sha256"


def read_code(results: Path, sha256: str) -> dict[str, str]:
    """Return the checksums of the files that steps loaded, by their paths; empty if they are not known."""
    try:
        text = code_file(results, sha256).read_text("utf-8")
        files = {path: checksum for checksum, path in (line.split("  ", 1) for line in text.splitlines())}
    except (OSError, ValueError):
        return {}
    return files if digest(files) == sha256 else {}


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
