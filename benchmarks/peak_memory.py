"""The peak memory of a step, for a process of its own, as a process may keep memory that it used."""

import sys
from collections.abc import Callable
from pathlib import Path


def added_peak(step: Callable[[], object]) -> float:
    """Return the bytes that a step adds to the process' peak memory."""
    before = _start_of_peak()
    step()
    return _peak() - before


def _start_of_peak() -> float:
    """Reset the peak memory (on Linux; elsewhere it counts from the start), and return the current memory in bytes."""
    marks = Path("/proc/self/clear_refs")
    if not marks.exists():
        return _peak()
    marks.write_text("5", encoding="ascii")
    return _status("VmRSS")


def _peak() -> float:
    if Path("/proc/self/status").exists():
        return _status("VmHWM")
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _status(key: str) -> float:
    # Not ru_maxrss, which a process inherits from its parent.
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (line,) = [line for line in lines if line.startswith(f"{key}:")]
    return float(line.split()[1]) * 1024
