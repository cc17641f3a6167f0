"""How the workflow calls its steps, ends on a signal, and tells what failed."""

import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote, split
from threading import Thread
from typing import Any


def step_command(results: str, mirror: str) -> Callable[[Any, Any], str]:
    """Return a parameter function: the command of a step, before its name, with the variables that it needs.

    They stand in the command, not in Snakemake's environment, which other workflows may share (`module`). Steps run
    with Snakemake's Python, except in a container, which has its own; in one thread each (lists are small: two parallel
    jobs beat two threads); and reuse the memory of freed tensors instead of returning it after each operation.

    Args:
        results: the folder in whose `provenance` every step leaves a record of inputs, outputs and machine.
        mirror: a folder or address of archives, unless RANKBOUND_MIRROR names one.
    """
    variables = {
        "PATH": f"${{SINGULARITY_CONTAINER:+$PATH:}}{quote(str(Path(sys.executable).parent))}{os.pathsep}$PATH",
        "RANKBOUND_MIRROR": f"${{RANKBOUND_MIRROR-{quote(mirror)}}}",
        "RANKBOUND_PROVENANCE": quote(str(Path(results, "provenance"))),
        "POLARS_MAX_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "MALLOC_MMAP_THRESHOLD_": "1073741824",
        "MALLOC_TRIM_THRESHOLD_": "4294967296",
    }
    command = " ".join([*(f"{name}={text}" for name, text in variables.items()), "python -m rankbound_study"])
    # Snakemake takes what depends on resources for no reason to run a step again: it differs between machines.
    return lambda wildcards, resources: command


def end_by_signal_in_a_thread() -> None:
    """Let another thread handle SIGTERM as before.

    Snakemake's handler waits for a lock, for ever if the main thread holds it, which it interrupts.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler):
        signal.signal(signal.SIGTERM, lambda *arguments: Thread(target=handler, args=arguments).start())


def failures(logs: Sequence[str]) -> str:
    """Return the logs of steps that failed; with `--quiet rules`, Snakemake's own logs have only their commands."""
    text = "".join(Path(log).read_text(encoding="utf-8", errors="replace") for log in logs)
    if re.search(r"^Error in (rule|group) ", text, re.MULTILINE):
        return ""
    places = [Path(*split(place)) for place in re.findall(r" > ('.+?'|\S+) 2>&1' returned non-zero", text)]
    return "\n".join(f"{place}:\n{place.read_text('utf-8', 'replace')}" for place in places if place.is_file())
