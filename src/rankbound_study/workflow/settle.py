"""Mark files that DVC restored as current for Snakemake.

A pull gives files arbitrary times and no record of how they were made, so Snakemake would make everything again. If
every file matches DVC's lock file, all are current by content, and Snakemake can record them as such.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankbound.errors import DataError
from rankbound_study.config.code_digests import LIBRARY, SOURCES, STUDY
from rankbound_study.workflow.dvc_stages import WRITE, folders_of, misfits, outputs_of_workflow, pictures_of
from rankbound_study.workflow.programs import SNAKEMAKE, run_program

LOCK = "dvc.lock"
SHOWN = 10
"""Number of differing files that are named; further ones are counted."""

_NOT_IN_CACHE = " is not in cache"
"""DVC's remark on files that were made here; it has not compared their content then."""

_RAW_REASON = "another archive with the same content is accepted only if snakemake made data/ from it"


def settle(folder: Path) -> list[str]:
    """Record every file of the workflow in `folder` as made by its present rules, code and configuration.

    Raw archives may differ from the lock file's if Snakemake itself made the data from them: those of a publisher and a
    mirror may differ in their bytes. Outputs that show licensed pictures may be missing: they are made from the rest in
    a minute.

    Returns:
        The missing outputs, for Snakemake to make.

    Raises:
        DataError: a file or dependency differs from dvc.lock, there are outputs unknown to DVC, or one of the two
            programs failed. In the first two cases nothing has been changed.
    """
    if not (folder / LOCK).is_file():
        raise DataError(f"nothing was touched: {folder.resolve()} has no {LOCK}, so nothing was recorded: `dvc repro`")
    _refuse("the package that runs is not the one in this folder", _other_package(folder), "pip install -e .")
    _refuse("dvc.yaml does not match config.yaml, so dvc cannot check every file", misfits(folder), WRITE)
    missing = [path for path in pictures_of(folder) if not (folder / path).exists()]
    _refuse(
        f"these differ from {LOCK}, so steps may be out of date",
        _differences(folder, missing),
        "restore them with `dvc pull` or `dvc checkout`, or make them with `snakemake --cores 2`",
    )
    # --forceall: outputs that are current by time alone also get a record of their inputs' checksums and options.
    run_program([*SNAKEMAKE, "--touch", "--forceall", "--", "all"], folder)
    return missing


def _refuse(what: str, problems: Sequence[str], remedy: str) -> None:
    if problems:
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise DataError("\n  ".join([f"nothing was touched: {what}:", *problems[:SHOWN], *more, remedy]))


def _other_package(folder: Path) -> list[str]:
    """Return files of the running packages that differ from the checkout, which DVC compares."""
    own = folder.resolve() / "src"
    if own == SOURCES.resolve():
        return []
    files = {
        file.relative_to(base)
        for base in (own, SOURCES)
        for package in (LIBRARY, STUDY)
        for file in (base / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    differing = [
        name
        for name in sorted(files)
        if not ((own / name).is_file() and (SOURCES / name).is_file() and _same_bytes(own / name, SOURCES / name))
    ]
    return [f"{SOURCES / name} is not {own / name}" for name in differing]


def _same_bytes(first: Path, second: Path) -> bool:
    return first.read_bytes() == second.read_bytes()


def _differences(folder: Path, missing: Sequence[str]) -> list[str]:
    """Return DVC's differences, one line each, with the files inside a changed folder, except those in `missing`."""
    # A fresh cache of checksums: DVC's own goes by size and time, and misses damage that preserves both.
    with tempfile.TemporaryDirectory() as cache:
        fresh = {"DVC_SITE_CACHE_DIR": cache}
        changes = _changes(_json(["dvc", "status", "--json"], folder, fresh))
        differences = {path: line for path, line in changes if path not in missing}
        for path in [path for path, line in differences.items() if line.endswith(_NOT_IN_CACHE)]:
            line = differences.pop(path)
            there = (folder / path).exists()
            if not (there and _as_locked(folder, path, cache)):
                differences[path] = f"{line.removesuffix(_NOT_IN_CACHE)} is {'modified' if there else 'missing'}"
        raw = f"{folders_of(folder)['data']}/raw"
        if not differences or (list(differences) == [raw] and _made_from(folder, raw)):
            return []
        inside = _json(["dvc", "data", "status", "--granular", "--json"], folder, fresh).get("uncommitted", {})
    reported = {kind: _names(paths) for kind, paths in inside.items() if kind != "unknown"}
    files = sorted((file, kind) for kind, names in reported.items() for file in names if not file.endswith("/"))
    lines = []
    for path, line in differences.items():
        lines.append(line + (f": {_RAW_REASON}" if path == raw else ""))
        lines += [f"  {file} is {kind}" for file, kind in files if file.startswith(f"{path}/")]
    return lines


def _as_locked(folder: Path, path: str, cache: str) -> bool:
    """Return whether an output matches the lock file; DVC's commands only report outputs that it has a copy of."""
    from dvc.repo import Repo  # type: ignore[import-untyped]

    with Repo(str(folder.resolve()), config={"core": {"site_cache_dir": cache}}) as repo:
        (output,) = repo.find_outs_by_path(str(folder.resolve() / path))
        return not output.changed_checksum()


def _json(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    text = run_program(command, folder, environment)
    try:
        content: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"`{' '.join(command)}` printed no JSON in {folder.resolve()}") from error
    return content


def _changes(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the differences of `dvc status`: a path (or the stage, if a command changed), and a line about it."""
    for stage, changes in status.items():
        for change in changes:
            if isinstance(change, str):
                yield f"{stage}: {change}", f"stage {stage}: {change}"
                continue
            for kind, files in change.items():
                yield from ((file, f"stage {stage}, {kind}: {file} is {what}") for file, what in files.items())


def _names(paths: Any) -> list[str]:
    """Return the file names of one kind of difference; DVC gives a renamed file as its old and new name."""
    return [str(path["new"] if isinstance(path, dict) else path) for path in paths] if isinstance(paths, list) else []


def _made_from(folder: Path, raw: str) -> bool:
    """Return whether Snakemake's records say that it made the derived data here, from these raw archives."""
    outputs = {Path(path): current for path, current in outputs_of_workflow(folder).items()}
    return all(
        current
        for path, current in outputs.items()
        if path.is_relative_to(Path(raw).parent) and not path.is_relative_to(raw)
    )
