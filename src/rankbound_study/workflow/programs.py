"""Running the workflow's programs, snakemake and dvc, with the Python that runs us."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rankbound.errors import DataError

SNAKEMAKE = ("snakemake", "--profile", "none", "--cores", "1", "--quiet", "all")
"""Without a profile of the user's, which may name another configuration; the workflow's own counts."""

TAIL = 15
"""Lines of a failed program's output that are shown."""


def run_program(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """What a program (`["dvc", "status", "--json"]`) prints when it runs in `folder`.

    Args:
        command: a Python module that runs as a program, and its arguments.
        folder: where it runs.
        environment: variables besides our own.

    Raises:
        DataError: it failed; the text ends with the last lines of what it said.
    """
    result = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if f"No module named {command[0]}" in result.stderr:
        raise DataError(f"{command[0]} is not installed: `pip install -e '.[study]'` in the clone")
    if result.returncode:
        tail = "\n".join((result.stdout + result.stderr).strip().splitlines()[-TAIL:])
        raise DataError(f"`{' '.join(command)}` failed with status {result.returncode}:\n{tail}")
    return result.stdout
