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

_PRELOADED = ("rankbound", "rankbound_study")
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
        answer = _wait(request["wait"]) if "wait" in request else _start(request)
        print(json.dumps(answer), flush=True)


def _preload() -> None:
    for name in _PRELOADED:
        _load(name)
    for name in ("pyplot", "backends.backend_svg", "backends.backend_pdf"):
        importlib.import_module(f"matplotlib.{name}")
    # Most of these are loaded on first use: another user may not be allowed to where Python itself is installed.
    for name in (
        "pyarrow.csv",
        "safetensors.torch",
        "requests",
        "scipy.stats",
        "sklearn.linear_model",
        "sklearn.metrics",
        "PIL.JpegImagePlugin",
        "encodings.cp437",
        "encodings.utf_16_be",
        "encodings.utf_32_be",
    ):
        importlib.import_module(name)
    # What polars loads on its first scan: a signal in the middle of that makes it print a traceback of its own.
    pl.scan_parquet("nowhere.parquet", glob=False)


def _load(name: str) -> None:
    module = importlib.import_module(name)
    for part in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        # No step uses the bridges to other libraries, which take half a minute.
        if not part.name.endswith((".__main__", ".interop")):
            _load(part.name)


def _start(request: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        os._exit(_forked(request))
    return child


def _forked(request: dict[str, Any]) -> int:
    status = 1
    # Where the log's disk is full, nothing can be said.
    with suppress(BaseException):
        try:
            status = _step(request)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    return status


def _wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _step(request: dict[str, Any]) -> int:
    from rankbound_study.cli import main

    os.setsid()
    signal.alarm(LONGEST_STEP)
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for target in (1, 2):
        os.dup2(log, target)
    if request["user"]:
        os.setgroups([])
        os.setgid(request["user"])
        os.setuid(request["user"])
    if request["largest_file"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"], resource.RLIM_INFINITY))
    events = _Events(request["folder"], request["kill_at"])
    sys.addaudithook(events.count)
    status = main(request["arguments"])
    if request["events"]:
        Path(request["events"]).write_text(str(events.number), "utf-8")
    return status


class _Events:
    """Counts what a step does to files, and kills its group just before one of these deeds."""

    def __init__(self, folder: str, kill_at: int | None) -> None:
        self._folder, self._kill_at, self.number = folder, kill_at, 0

    def count(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            if not isinstance(arguments[0], str | os.PathLike) or not arguments[2] & (os.O_WRONLY | os.O_RDWR):
                return
        elif event not in _OF_FILES:
            return
        self.number += 1
        if self.number == self._kill_at:
            os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    serve()
