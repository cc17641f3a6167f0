"""Runs steps in forks of a process that has loaded what they need, so that each starts in milliseconds.

A fork is a process like any other: a leader of its own group, killed, starved and refused by the system itself. What
differs from `sh -c` is only that nothing is imported anew. Requests and answers are lines of JSON.
"""

import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

LONGEST_STEP = 300
"""Seconds after which a step that hangs is ended."""

_ON_FIRST_USE = """matplotlib.pyplot matplotlib.backends.backend_svg matplotlib.backends.backend_pdf pyarrow.csv
safetensors.torch requests scipy.stats sklearn.linear_model sklearn.metrics PIL.JpegImagePlugin encodings.cp437
encodings.utf_16_be encodings.utf_32_be"""
_IDLE = {"jemalloc_bg_thd", "polars-ooc-clea"}
"""Threads that only give memory and files back."""
_OF_FILES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


def serve() -> None:
    """Answer requests until standard input ends."""
    _preload()
    working = {task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()} - _IDLE
    if working != {Path(f"/proc/{os.getpid()}/comm").read_text().strip()}:
        raise SystemExit(f"loading has started threads, which forks of this process would lack: {working}")
    # A fork that collects garbage would copy all that is loaded.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        ended = os.waitpid(request["wait"], 0)[1] if "wait" in request else None
        print(_start(request) if ended is None else os.waitstatus_to_exitcode(ended), flush=True)


def _preload() -> None:
    for name in ("rankbound", "rankbound_study"):
        _load(name)
    # Most of these are loaded on first use: another user may not be allowed to where Python itself is installed.
    for name in _ON_FIRST_USE.split():
        importlib.import_module(name)
    # What polars loads on its first scan: a signal in the middle of that makes it print a traceback of its own.
    pl.scan_parquet("nowhere.parquet", glob=False)


def _load(name: str) -> None:
    module = importlib.import_module(name)
    for part in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        # No step uses the bridges to other libraries, which take half a minute, or kernels of a GPU, which need Triton.
        if not part.name.endswith((".__main__", ".interop", ".gpu")):
            _load(part.name)


def _start(request: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        # Where the log's disk is full, nothing can be said.
        with suppress(BaseException):
            try:
                status = _step(request)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
    return child


def _step(request: dict[str, Any]) -> int:
    from rankbound_study.cli import main

    os.setsid()
    signal.alarm(LONGEST_STEP)
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for target in (1, 2):
        os.dup2(log, target)
    if user := request.get("user"):
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    if "largest_file" in request:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"], resource.RLIM_INFINITY))
    events = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        """Count what the step does to files, and kill its group just before one of these deeds."""
        nonlocal events
        if event == "open":
            if not isinstance(arguments[0], str | os.PathLike) or not arguments[2] & (os.O_WRONLY | os.O_RDWR):
                return
        elif event not in _OF_FILES:
            return
        events += 1
        if events == request.get("kill_at"):
            os.killpg(0, signal.SIGKILL)

    sys.addaudithook(count)
    status = main(request["arguments"])
    counted = events
    if "events" in request:
        Path(request["events"]).write_text(str(counted), "utf-8")
    return status


if __name__ == "__main__":
    serve()
