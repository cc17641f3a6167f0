"""Making files that DVC brought current for Snakemake.

A pull gives files arbitrary times and no record of how they were made, so Snakemake would make everything again. If DVC
finds every file as its lock file says, they are current by content, and Snakemake may be told so.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rankbound.errors import DataError


def settle(folder: Path, snakemake_flags: Sequence[str] = ()) -> None:
    """Record every file of the workflow in `folder` as made by its present rules, code and configuration.

    Raises:
        DataError: DVC finds a file or a dependency that differs from dvc.lock; nothing has been touched then. Or one
            of the two programs failed.
    """
    differing = list(_differences(folder))
    if differing:
        raise DataError(
            "\n  ".join(
                [
                    "nothing was touched: these are not what dvc.lock says, so that steps may be out of date:",
                    *differing,
                    "bring them back with `dvc pull` or `dvc checkout`, or make them with `snakemake --cores 2`",
                ]
            )
        )
    # --forceall: also what looks current by its time alone gets a record of its inputs' checksums and options.
    _run(["snakemake", "--touch", "--forceall", "--cores", "1", "--quiet", "all", *snakemake_flags], folder)


def _differences(folder: Path) -> Iterator[str]:
    """The files that `dvc status` reports, one line each."""
    try:
        status: dict[str, Any] = json.loads(_run(["dvc", "status", "--json"], folder))
    except json.JSONDecodeError as error:
        raise DataError(f"`dvc status --json` printed no JSON in {folder.resolve()}") from error
    for stage, changes in status.items():
        for change in changes:
            if isinstance(change, str):
                yield f"stage {stage}: {change}"
                continue
            for kind, files in change.items():
                yield from (f"stage {stage}, {kind}: {file} is {what}" for file, what in files.items())


def _run(command: Sequence[str], folder: Path) -> str:
    result = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        tail = "\n".join((result.stdout + result.stderr).strip().splitlines()[-15:])
        raise DataError(f"`{' '.join(command)}` failed with status {result.returncode}:\n{tail}")
    return result.stdout
