"""Run the workflow's programs, snakemake and dvc, with the current Python."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rankbound.errors import DataError

SNAKEMAKE = ("snakemake", "--profile", "none", "--cores", "1", "--quiet", "all")
"""Snakemake without the user's own profile, which may name another configuration; the workflow's profile applies."""

TAIL = 15
"""Number of lines shown from a failed program's output."""


def run_program(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Return the output of a program (`["dvc", "status", "--json"]`) that runs in `folder`.

    Args:
        command: a Python module that runs as a program, and its arguments.
        folder: where it runs.
        environment: variables in addition to the current ones.

    Raises:
        DataError: it failed; the text ends with the last lines of its output.
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
