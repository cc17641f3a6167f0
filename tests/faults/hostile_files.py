"""Helpers of the tests of hostile files: readers with little memory, and checks of what they leave behind."""

import resource
import subprocess
import sys
from pathlib import Path

_MEGABYTE = 2**20

_CALL = """
import resource, sys
{code}
resource.setrlimit(resource.RLIMIT_AS, (held() + {megabytes} * 2**20,) * 2)
from rankbound.errors import RankboundError
try:
    run(*sys.argv[1:])
except RankboundError as error:
    print("refused:", error)
else:
    print("read")
"""

_HELD = """
def held():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
"""


def with_little_memory(code: str, *arguments: object, megabytes: int = 512, seconds: float = 120) -> str:
    """Return the output of `run(*arguments)` of `code` in a process limited to so many megabytes beyond its imports.

    "read", or "refused: " and the message. An error that is not ours, a crash, and taking longer fail the test.
    """
    script = _HELD + _CALL.format(code=code, megabytes=megabytes)
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not done.stderr, done.stderr[-2000:]
    return done.stdout


def files_below(folder: Path) -> set[str]:
    """Every file and folder below `folder`, by its path there."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def peak_megabytes() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
