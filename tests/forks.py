"""Runs Snakemake in forks of an interpreter that has imported it, which takes half of the time of a start.

A fork ends as any interpreter does, and takes nothing of the study's code along: it finds that by its own PYTHONPATH.
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
from typing import Any

PRELOADED = ("snakemake.cli", "grimp", "numpy", "polars", "pydantic", "yaml")
"""Snakemake, and what the study's configuration takes long to import."""


def run(command: dict[str, Any], seconds: int) -> tuple[int, str]:
    """Run the module of a `Project.command` for so many seconds at most; its exit status, and what it printed."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.NamedTemporaryFile("r") as printed, tempfile.NamedTemporaryFile("r") as errors:
        request = {**command, "cwd": str(command["cwd"]), "seconds": seconds, "files": [printed.name, errors.name]}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        return int(server.stdout.readline()), printed.read() + errors.read()


@cache
def _server() -> "subprocess.Popen[str]":
    """The interpreter, which ends with this process."""
    server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)
    return server


def _serve() -> None:
    for name in PRELOADED:
        __import__(name)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(request: dict[str, Any]) -> None:
    """Be `python -m MODULE ...` in another folder and environment."""
    signal.alarm(request["seconds"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for target, file in enumerate((os.devnull, *request["files"])):
        os.dup2(os.open(file, os.O_RDWR), target)
    _, _, module, *arguments = request["args"]
    sys.path[:1] = [request["cwd"], *request["env"]["PYTHONPATH"].split(os.pathsep)]
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve()
