"""The process that has loaded the libraries, and forks for every step."""

import gc
import json
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from rankbound_study.warm import OFF, STARTED, VARIABLE

LOADED = (
    *("rankbound_study.cli", "rankbound_study.provenance.recorder", "rankbound_study.jobs.train_job"),
    *("rankbound_study.figures.style", "matplotlib.backends.backend_pdf", "matplotlib.backends.backend_svg"),
    *("polars", "scipy.stats"),
)
"""What most steps load. Nothing here may start a thread that a step needs: a fork has the thread that forked alone."""

DISPENSABLE = {"jemalloc_bg_thd", "polars-ooc-clea"}
"""Threads of loaded libraries, by the names that Linux keeps of them, that return unused memory and disk space."""

INDIFFERENT = {VARIABLE, "_", "SHLVL", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP", "TEMPDIR"}
"""Environment variables that nothing reads while it is loaded."""

LONGEST = 2**20
"""Number of bytes read at a time."""

ONE_THREAD = (
    *("OMP_NUM_THREADS", "GOTO_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"),
)
"""Environment variables that Snakemake sets to a step's number of threads, which is 1."""


def start() -> subprocess.Popen[bytes] | None:
    """Start a server that ends with this process, and name it in the environment; None if warm starts are off."""
    if os.environ.get(VARIABLE) == OFF or sys.platform != "linux":
        return None
    name = f"rankbound-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        server = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            start_new_session=True,
            env=os.environ | dict.fromkeys(ONE_THREAD, "1"),
        )
    os.environ[VARIABLE] = name
    return server


def serve(listener: socket.socket) -> None:
    """Fork for every client until standard input is closed; what steps load is loaded for the first one."""
    # What is loaded may change it.
    environment, loaded = dict(os.environ), False
    # The kernel reaps the forks.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection = listener.accept()[0]
        with connection:
            if not loaded:
                _load()
                loaded = True
            if _is_own_user(connection) and os.fork() == 0:
                listener.close()
                _run(connection, environment)


def _load() -> None:
    from rankbound.kernels import usable
    from rankbound.kernels.gradients import times_upstream

    for module in LOADED:
        import_module(module)
    if usable():
        # The smallest of the compiled kernels, with which Numba is loaded.
        times_upstream.load()
    threads = Path("/proc/self/task").glob("*/comm")
    names = {path.read_text("utf-8").strip() for path in threads if path.parent.name != str(os.getpid())}
    if started := sorted(names - DISPENSABLE):
        sys.exit(f"warm starts: a library has started the threads {', '.join(started)}: every step loads torch itself")
    # Python 3.12 warns of forks beside any thread.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    gc.freeze()


def _is_own_user(connection: socket.socket) -> bool:
    """Return whether the client runs as the same user: an abstract name has no permissions."""
    credentials = struct.Struct("3i")
    content = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    _, user, _ = credentials.unpack(content)
    return bool(user == os.geteuid())


def _run(connection: socket.socket, environment: Mapping[str, str]) -> NoReturn:
    """Run the client's step in this fork, and send its exit status; nothing if the environment is another one."""
    status = 1
    try:
        request, streams = _received(connection)
        if _differing(environment, request["environment"]) <= INDIFFERENT:
            _become(request, streams)
            _end_with(connection)
            connection.sendall(STARTED)
            status = _ran(request["words"])
            connection.sendall(bytes([status]))
    except OSError:
        # The client has ended.
        pass
    finally:
        os._exit(status)


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    text, streams, _, _ = socket.recv_fds(connection, LONGEST, maxfds=3)
    while not text.endswith(b"\n"):
        more = connection.recv(LONGEST)
        if not more:
            raise ConnectionError("the client has ended")
        text += more
    return json.loads(text), streams


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    """Return the variables whose values differ between two environments."""
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Take over the client's standard streams, folder and environment."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])


def _end_with(connection: socket.socket) -> None:
    """Let the kernel send SIGTERM to this process when the client shuts the connection down, or ends."""
    import fcntl

    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([connection], [], [], 0)[0]:
        signal.raise_signal(signal.SIGTERM)


def _ran(words: Sequence[str]) -> int:
    """Run the step and return its exit status, as the interpreter would."""
    from rankbound_study.cli import main

    try:
        return main(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as inherited:
        serve(inherited)
