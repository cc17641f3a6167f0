"""Record a step while it runs; the command line does this if RANKBOUND_PROVENANCE names a folder."""

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rankbound.errors import DataError
from rankbound.io.atomic import written
from rankbound_study.provenance import facts
from rankbound_study.provenance.checksums import Checksum
from rankbound_study.provenance.loaded import digest, listing, loaded_files, watch
from rankbound_study.provenance.records import Attempt, Record, code_file, read_json, write_text

UNFINISHED = ".unfinished"

HIDDEN = ("run", "subcommand", "mirror")
"""Arguments that do not affect the result: where archives are, since their checksums are compared."""


@contextmanager
def recorded(
    arguments: argparse.Namespace, folder: Path, also_read: Mapping[str, list[Path]] = MappingProxyType({})
) -> Iterator[None]:
    """Leave a record of the block's step under `folder`, which is in the results folder.

    Every step has a separate file, named after its first output. A step without output files leaves none; a failed step
    leaves a note of the attempt for the next one.
    """
    out = getattr(arguments, "out", None)
    target = out[0] if isinstance(out, list) and out else out
    if target is None and hasattr(arguments, "out_dir"):
        first = arguments.names[0] if hasattr(arguments, "names") else arguments.name
        target = arguments.out_dir / f"{first}.csv"
    if not isinstance(target, Path):
        yield
        return
    watch()
    results = folder.parent
    name = _place(target, results)
    path = folder / f"{name}.json"
    note = path.with_name(f"{path.stem}{UNFINISHED}")
    earlier: tuple[Attempt, ...] = ()
    # If the step was killed while it wrote this, on an unreliable file system, nothing is known of the attempt.
    with suppress(DataError):
        earlier = read_json(tuple[Attempt, ...], note, "delete it") if note.exists() else ()
    attempt = Attempt(started=datetime.now(UTC).isoformat(timespec="microseconds"), machine=facts.machine())
    write_text(note, json.dumps([asdict(noted) for noted in (*earlier, attempt)]) + "\n")
    code, began = facts.code(), time.monotonic()
    with written() as files:
        yield
    loaded = loaded_files()
    code = replace(code, sha256=digest(loaded))
    outputs = [file for file in dict.fromkeys([*files, target]) if file.is_file()]
    values = {name: value for name, value in (vars(arguments) | dict(also_read)).items() if name not in HIDDEN}
    plain = {name: _plain(value) for name, value in values.items() if not _paths(value)}
    record = Record(
        name=name,
        subcommand=arguments.subcommand,
        arguments={name: value for name, value in plain.items() if value not in (None, [], {})},
        seeds=tuple(sorted(set(_seeds(plain)))),
        inputs=_checksums([path for path in chain(*map(_paths, values.values())) if path not in outputs], results),
        outputs=_checksums(outputs, results),
        code=code,
        versions=facts.versions(),
        switches=facts.switches(),
        machine=facts.machine(),
        started=attempt.started,
        seconds=round(time.monotonic() - began, 6),
        cpu_seconds=round(time.process_time(), 6),
        peak_mib=facts.peak_memory(),
        attempts=earlier,
    )
    if not (listed := code_file(results, code.sha256)).exists():
        write_text(listed, listing(loaded))
    write_text(path, f"{record.to_json()}\n")
    note.unlink(missing_ok=True)


def _place(target: Path, results: Path) -> str:
    """Return the place of a file's record: that of the file in the results folder, or in the working folder.

    A file elsewhere has the name of its folder before its own.
    """
    for base in (results, Path()):
        relative = Path(os.path.relpath(target, base))
        if ".." not in relative.parts and not relative.is_absolute():
            return relative.as_posix()
    return Path(target.parent.name, target.name).as_posix()


def _checksums(paths: list[Path], results: Path) -> dict[str, Checksum]:
    files = [path for path in dict.fromkeys(paths) if path.is_file()]
    return {Path(os.path.relpath(path, results)).as_posix(): Checksum.of(path) for path in files}


def _paths(value: Any) -> list[Path]:
    values = value if isinstance(value, list | tuple) else [value]
    return [path for path in values if isinstance(path, Path)]


def _plain(value: Any) -> Any:
    """Return an argument as JSON; options are JSON already."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value if isinstance(value, str | int | float | bool | list | None) else str(value)


def _seeds(value: Any) -> Iterator[int]:
    """Yield the values under `seed` and `seeds`, at any depth."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            listed = inner if isinstance(inner, list) else [inner]
            if key in ("seed", "seeds"):
                yield from (seed for seed in listed if isinstance(seed, int) and not isinstance(seed, bool))
            else:
                yield from _seeds(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _seeds(inner)
