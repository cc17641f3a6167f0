"""Mark files that DVC restored as current for Snakemake.

A pull gives files arbitrary times and no record of how they were made, so Snakemake would make everything again. If
every file matches DVC's lock file, all are current by content, and Snakemake can record them as such.
"""

import filecmp
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankbound.errors import DataError
from rankbound_study.config.code_digests import LIBRARY, STUDY
from rankbound_study.config.sections.base import SOURCES
from rankbound_study.provenance.checksums import MANIFEST
from rankbound_study.provenance.manifest import restore_records

LOCK = "dvc.lock"
SHOWN, _TAIL = 10, 15  # differing files that are named, and last lines of what a failed snakemake printed
_PAPER, _RAW, _LICENSED = "paper", "raw", "licensed"
_RAW_REASON = "another archive with the same content is accepted only if snakemake made data/ from it"


def settle(folder: Path) -> None:
    """Record every file of the workflow in `folder` as made by its present rules, code and configuration.

    Raw archives may differ from the lock file's if Snakemake itself made the data from them: those of a publisher and a
    mirror may differ in their bytes. Outputs that show licensed pictures may be missing: they are made from the rest in
    a minute.

    Raises:
        DataError: a file or dependency differs from dvc.lock, dvc.yaml does not name every output, or one of the two
            programs failed. In the first two cases nothing has been changed.
    """
    from dvc.exceptions import DvcException  # type: ignore[import-untyped]
    from dvc.repo import Repo  # type: ignore[import-untyped]

    if not (folder / LOCK).is_file():
        raise DataError(f"nothing was touched: {folder.resolve()} has no {LOCK}, so nothing was recorded: `dvc repro`")
    _refuse("the package that runs is not the one in this folder", _other_package(folder), "pip install -e .")
    made = _outputs(folder)
    # A fresh cache of checksums: DVC's own goes by size and time, and misses damage that preserves both.
    with tempfile.TemporaryDirectory() as cache:
        try:
            with Repo(str(folder.resolve()), config={"core": {"site_cache_dir": cache}}) as repo:
                stages = [stage for stage in repo.index.stages if stage.cmd]
                _refuse("dvc cannot check every file", list(_unnamed(stages, made)), "mend dvc.yaml: docs/dvc.md")
                missing = [
                    out.def_path
                    for out in repo.index.outs
                    if out.stage.addressing == _PAPER and out.remote == _LICENSED and not out.exists
                ]
                differences = list(_differences(repo, stages, made, missing))
        except DvcException as error:
            raise DataError(f"nothing was touched: {error}") from error
    remedy = "restore them with `dvc pull` or `dvc checkout`, or make them with `snakemake --cores 2`"
    _refuse(f"these differ from {LOCK}, so steps may be out of date", differences, remedy)
    # --forceall: outputs that are current by time alone also get a record of their inputs' checksums and options.
    _snakemake(folder, "--touch", "--forceall")
    for path in made:
        if path.name == MANIFEST and (folder / path).is_file():
            restore_records(folder / path.parent)
    if missing:
        print(f"settled, except outputs with licensed pictures: `snakemake --cores 2` makes {', '.join(missing)}")
    else:
        print("settled: `snakemake -n` has nothing to do; an edit reruns what depends on it")


def _refuse(what: str, problems: Sequence[str], remedy: str) -> None:
    if problems:
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise DataError("\n  ".join([f"nothing was touched: {what}:", *problems[:SHOWN], *more, remedy]))


def _other_package(folder: Path) -> list[str]:
    """Return files of the running packages that differ from the checkout, which DVC compares."""
    own = folder.resolve() / "src"
    files = {
        file.relative_to(base).as_posix()
        for base in (own, SOURCES)
        for package in (LIBRARY, STUDY)
        for file in (base / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    _, differing, absent = filecmp.cmpfiles(own, SOURCES, files, shallow=False)
    return [f"{SOURCES / name} is not {own / name}" for name in sorted([*differing, *absent])]


def _outputs(folder: Path) -> dict[Path, bool]:
    """Return every file that the target `all` requires, and whether Snakemake has a record of it as current."""
    table = _snakemake(folder, "--summary")
    names, *rows = (line.split("\t") for line in table.splitlines() if "\t" in line)
    files = [dict(zip(names, row, strict=True)) for row in rows]
    # A file without a record has no log either.
    return {
        Path(file["output_file"]): file["plan"] == "no update" and file["log-file(s)"] != "-"
        for file in sorted(files, key=lambda file: file["output_file"])
    }


def _snakemake(folder: Path, *arguments: str) -> str:
    """Return the output of snakemake for the target `all`; DataError if it fails."""
    # Not the user's own profile, which may name another configuration; the workflow's profile applies.
    options = ["--profile", "none", "--cores", "1", "--quiet", "all", *arguments, "--", "all"]
    command = [sys.executable, "-m", "snakemake", *options]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        tail = "\n".join((result.stdout + result.stderr).strip().splitlines()[-_TAIL:])
        raise DataError(f"`snakemake {' '.join(options)}` failed with status {result.returncode}:\n{tail}")
    return result.stdout


def _unnamed(stages: Sequence[Any], made: Mapping[Path, bool]) -> Iterator[str]:
    """Yield the outputs in no stage, and the code and settings that only some of the stages depend on."""
    outs = {out.def_path for stage in stages for out in stage.outs}
    for path in made:
        if not any(path.is_relative_to(out) for out in outs):
            yield f"{path} is made, but no stage names it"
    code = {dependency.def_path for stage in stages for dependency in stage.deps} - outs
    for stage in stages:
        for path in sorted(code.difference(dependency.def_path for dependency in stage.deps)):
            yield f"the stage {stage.addressing} does not depend on {path}"


def _differences(repo: Any, stages: Sequence[Any], made: Mapping[Path, bool], missing: Sequence[str]) -> Iterator[str]:
    """Yield what differs from the lock file, with the files inside a changed folder."""
    yield from (f"the command of the stage {stage.addressing} is modified" for stage in stages if stage.changed_stage())
    differing = {
        item.def_path: "missing" if kind == "deleted" else kind
        for stage in stages
        for item in (*stage.deps, *stage.outs)
        if item.def_path not in missing
        for kind in item.workspace_status().values()
    }
    raw = next((path for path in differing if Path(path).name == _RAW), "")
    if list(differing) == [raw] and all(
        # Snakemake's records say that it made the derived data here, from these raw archives.
        current
        for path, current in made.items()
        if path.is_relative_to(Path(raw).parent) and not path.is_relative_to(raw)
    ):
        return
    inside = repo.data_status(granular=True).get("uncommitted", {}) if differing else {}
    for path, kind in differing.items():
        yield f"{path} is {kind}" + (f": {_RAW_REASON}" if path == raw else "")
        for inner, files in inside.items():
            names = [file["new"] if isinstance(file, dict) else file for file in files] if inner != "unknown" else []
            yield from (f"  {name} is {inner}" for name in sorted(names) if name.startswith(f"{path}/"))
