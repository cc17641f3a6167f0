"""Steps of the study as separate processes, with their time and peak memory."""

import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

# Runs a step and writes its peak memory; not ru_maxrss, which a process inherits from its parent.
_PROBE = """\
import re, sys
from rankbound_study.cli import main
status = main(sys.argv[2:])
with open("/proc/self/status") as own, open(sys.argv[1], "w") as out:
    out.write(re.search(r"VmHWM:\\s*(\\d+)", own.read())[1])
sys.exit(status)
"""


@dataclass(frozen=True)
class Step:
    """A step with its elapsed time, processor time and peak memory."""

    name: str
    seconds: float
    processor_seconds: float
    peak_bytes: float

    def __str__(self) -> str:
        return (
            f"{self.name:24}{self.seconds:9.1f} s{self.processor_seconds:10.1f} s of processor"
            f"{self.peak_bytes / 1e6:10.0f} MB at most"
        )


def run_step(folder: Path, *arguments: object, name: str | None = None, first: str = "", told: str = "") -> Step:
    """Run a step of the study; `first` is code that precedes it, which takes `told` from `sys.argv[2]`."""
    peak = folder / "peak.txt"
    start, used = time.perf_counter(), processor_seconds()
    extra = [told] if first else []
    subprocess.run([sys.executable, "-c", first + _PROBE, str(peak), *extra, *map(str, arguments)], check=True)
    seconds, spent = time.perf_counter() - start, processor_seconds() - used
    return Step(name or str(arguments[0]), seconds, spent, float(peak.read_text()) * 1024)


def processor_seconds() -> float:
    """Return the processor time of the child processes that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime
