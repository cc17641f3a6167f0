"""Groups of processes on loopback: programs as torchrun starts them, or forks of this process."""

import multiprocessing
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120
"""Seconds after which processes that wait for one another are given up."""


def run_processes(count: int, arguments: list[str], folder: Path) -> None:
    """Run Python as torchrun would, in several processes, and end them all if they take too long."""
    group = _group(count) | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=os.environ | group | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        errors = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * count, errors


def run_forks(count: int, program: Callable[[Path], None], folder: Path) -> None:
    """Run a function in several forks, which have imported what this process has, and end them as above."""
    context, group = multiprocessing.get_context("fork"), _group(count)
    processes = [context.Process(target=_member, args=(group, rank, program, folder)) for rank in range(count)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
        for process in processes:
            process.start()
    try:
        for process in processes:
            process.join(PATIENCE)
    finally:
        for process in processes:
            process.kill()
    assert [process.exitcode for process in processes] == [0] * count


def _member(group: dict[str, str], rank: int, program: Callable[[Path], None], folder: Path) -> None:
    os.environ.update(group | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
    program(folder)


def _group(count: int) -> dict[str, str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count), "GLOO_SOCKET_IFNAME": "lo"}
