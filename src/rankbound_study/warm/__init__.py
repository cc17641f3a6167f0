"""Warm starts: steps forked from one process that has loaded torch, matplotlib and polars, which most steps use.

Snakemake starts a `server` beside itself. A step's process, the `client`, hands its arguments, folder, environment and
standard streams over, the server forks, and the fork runs the step as the client would have. The client waits for the
exit status, and its end is the fork's end. Whatever does not fit (another environment, a system other than Linux, no
server) makes the client run the step itself, with the same results.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

VARIABLE = "RANKBOUND_WARM"
"""Environment variable: the name of the server's socket, in Linux' abstract namespace; `OFF` for none."""

OFF = "0"

STARTED = b"!"
"""What the fork sends before it runs the step. After that the client cannot run it any more."""

KILLED = 128 + 9
"""The exit status of a step that ended without one, as a shell reports it of a process that was killed."""

INTERRUPTED = 128 + 2


def run_warm(words: Sequence[str]) -> int | None:
    """Run a step in a fork of the server; return its exit status, or None if the caller has to run it."""
    name = os.environ.get(VARIABLE, OFF)
    if name == OFF or not hasattr(socket, "send_fds"):
        return None
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(f"\0{name}")
            request = {"words": list(words), "folder": str(Path.cwd()), "environment": dict(os.environ)}
            socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
            started = connection.recv(1) == STARTED
        except OSError:
            return None
        except KeyboardInterrupt:
            print("ended by SIGINT before the step began: run it again", file=sys.stderr)
            return INTERRUPTED
        return _status(connection) if started else None


def _status(connection: socket.socket) -> int:
    """Wait for the exit status; SIGINT and SIGTERM end the step, which ends its fork of the server."""

    def end(_: int, __: FrameType | None) -> None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with suppress(ConnectionResetError):
        if status := connection.recv(1):
            return status[0]
    print("the step was killed, perhaps because memory ran out", file=sys.stderr)
    return KILLED
