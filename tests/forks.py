"""Runs programs in forks of an interpreter that has imported what takes most of their start: Snakemake, DVC, or torch.

A fork ends as any interpreter does, and takes nothing of this package's code along: it finds that by its own
PYTHONPATH.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

PROGRAMS = (
    *("snakemake.cli", "snakemake.api", "snakemake_executor_plugin_slurm", "dvc.cli", "dvc.repo"),
    *("grimp", "numpy", "polars", "pydantic", "yaml"),
)
"""Snakemake with its plugin, DVC, and what the study's configuration takes long to import."""
TORCH = ("torch",)
LIBRARIES = (
    *("torch", "numba", "polars", "pyarrow.parquet", "scipy.stats"),
    *("matplotlib.backends.backend_pdf", "matplotlib.backends.backend_svg"),
)
"""What the study's steps take long to import, and nothing of this package."""
PATIENCE = 600
"""Seconds until a program that hangs is ended; a busy machine may take its time."""


def run_with_torch(code: str, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run `python -c CODE ...` with more environment variables; torch is imported before it begins."""
    environment = {**os.environ, **variables}
    return run({"args": [sys.executable, "-c", code, *arguments], "cwd": Path.cwd(), "env": environment}, TORCH)


def run(
    command: dict[str, Any], imported: tuple[str, ...], seconds: int = PATIENCE
) -> "subprocess.CompletedProcess[str]":
    """Run a command of `python -m` or `-c`, as arguments of `subprocess.run`, for so many seconds at most."""
    server = _server(imported)
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.NamedTemporaryFile("r") as printed, tempfile.NamedTemporaryFile("r") as errors:
        request = {**command, "cwd": str(command["cwd"]), "seconds": seconds, "files": [printed.name, errors.name]}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(command["args"], status, printed.read(), errors.read())


@cache
def _server(imported: tuple[str, ...]) -> "subprocess.Popen[str]":
    """The interpreter, which ends with this process."""
    command = [sys.executable, __file__, *imported]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)
    return server


def _serve() -> None:
    for name in sys.argv[1:]:
        __import__(name)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(request: dict[str, Any]) -> None:
    """Be `python -m MODULE ...` or `python -c CODE ...` in another folder and environment."""
    signal.alarm(request["seconds"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for target, file in enumerate((os.devnull, *request["files"])):
        os.dup2(os.open(file, os.O_RDWR), target)
    _, option, program, *arguments = request["args"]
    sys.path[:1] = [request["cwd"], *filter(None, request["env"].get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv[1:] = arguments
    if option == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        exec(program, {"__name__": "__main__"})


if __name__ == "__main__":
    _serve()
