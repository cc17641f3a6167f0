"""Making files that DVC brought current for Snakemake.

A pull gives files arbitrary times and no record of how they were made, so Snakemake would make everything again. If DVC
finds every file as its lock file says, they are current by content, and Snakemake may be told so.
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
"""Differing files that are named; of more, the rest is counted."""

_NOT_IN_CACHE = " is not in cache"
"""What DVC says of files that were made here: it has not looked at their content then."""

_RAW_REASON = "another archive with the same content is accepted only where snakemake made data/ from it"


def settle(folder: Path) -> list[str]:
    """Record every file of the workflow in `folder` as made by its present rules, code and configuration.

    Raw archives may differ from the lock file's where Snakemake itself finds that the data were made from them: a
    publisher's and a mirror's need not have the same bytes. What shows licensed pictures may be missing: it is made of
    the rest in a minute.

    Returns:
        What is missing of it, for Snakemake to make.

    Raises:
        DataError: DVC finds a file or a dependency that differs from dvc.lock, or there are outputs that it knows
            nothing of; nothing has been touched then. Or one of the two programs failed.
    """
    if not (folder / LOCK).is_file():
        raise DataError(f"nothing was touched: {folder.resolve()} has no {LOCK}, so nothing was recorded: `dvc repro`")
    _refuse("the package that runs is not the one in this folder", _other_package(folder), "pip install -e .")
    _refuse("dvc.yaml does not fit config.yaml, so that dvc cannot vouch for every file", misfits(folder), WRITE)
    missing = [path for path in pictures_of(folder) if not (folder / path).exists()]
    _refuse(
        f"these are not what {LOCK} says, so that steps may be out of date",
        _differences(folder, missing),
        "bring them back with `dvc pull` or `dvc checkout`, or make them with `snakemake --cores 2`",
    )
    # --forceall: also what looks current by its time alone gets a record of its inputs' checksums and options.
    run_program([*SNAKEMAKE, "--touch", "--forceall", "--", "all"], folder)
    return missing


def _refuse(what: str, problems: Sequence[str], remedy: str) -> None:
    if problems:
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise DataError("\n  ".join([f"nothing was touched: {what}:", *problems[:SHOWN], *more, remedy]))


def _other_package(folder: Path) -> list[str]:
    """Files of the running packages that the checkout, which DVC looks at, does not have in the same bytes."""
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
    """What DVC finds changed but for what may be missing, one line each, with the files inside a changed folder."""
    # A fresh cache of checksums: DVC's own goes by a file's size and time, and misses a damage that kept both.
    with tempfile.TemporaryDirectory() as cache:
        fresh = {"DVC_SITE_CACHE_DIR": cache}
        changes = _changes(_json(["dvc", "status", "--json"], folder, fresh))
        found = {path: line for path, line in changes if path not in missing}
        for path in [path for path, line in found.items() if line.endswith(_NOT_IN_CACHE)]:
            line = found.pop(path)
            there = (folder / path).exists()
            if not (there and _as_locked(folder, path, cache)):
                found[path] = f"{line.removesuffix(_NOT_IN_CACHE)} is {'modified' if there else 'missing'}"
        raw = f"{folders_of(folder)['data']}/raw"
        if not found or (list(found) == [raw] and _made_from(folder, raw)):
            return []
        inside = _json(["dvc", "data", "status", "--granular", "--json"], folder, fresh).get("uncommitted", {})
    told = {kind: _names(paths) for kind, paths in inside.items() if kind != "unknown"}
    files = sorted((file, kind) for kind, names in told.items() for file in names if not file.endswith("/"))
    lines = []
    for path, line in found.items():
        lines.append(line + (f": {_RAW_REASON}" if path == raw else ""))
        lines += [f"  {file} is {kind}" for file, kind in files if file.startswith(f"{path}/")]
    return lines


def _as_locked(folder: Path, path: str, cache: str) -> bool:
    """Whether an output's content is what the lock file says; DVC's commands only tell of what it has a copy of."""
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
    """What `dvc status` reports: a path (or the stage, where a command changed), and a line about it."""
    for stage, changes in status.items():
        for change in changes:
            if isinstance(change, str):
                yield f"{stage}: {change}", f"stage {stage}: {change}"
                continue
            for kind, files in change.items():
                yield from ((file, f"stage {stage}, {kind}: {file} is {what}") for file, what in files.items())


def _names(paths: Any) -> list[str]:
    """File names of one kind of difference; DVC gives a renamed file as its old and new name."""
    return [str(one["new"] if isinstance(one, dict) else one) for one in paths] if isinstance(paths, list) else []


def _made_from(folder: Path, raw: str) -> bool:
    """Whether Snakemake, by its own records, made what is derived from the raw archives here, from these."""
    made = {Path(path): current for path, current in outputs_of_workflow(folder).items()}
    return all(
        current
        for path, current in made.items()
        if path.is_relative_to(Path(raw).parent) and not path.is_relative_to(raw)
    )
