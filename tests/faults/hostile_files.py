"""Helpers of the tests of hostile files: readers with little memory, and checks of what they leave behind."""

import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import resource, sys
def held():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
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


def with_little_memory(code: str, *arguments: object, megabytes: int = 512, seconds: float = 120) -> str:
    """Return the output of `run(*arguments)` of `code` in a process limited to so many megabytes beyond its imports.

    "read", or "refused: " and the message. An error that is not ours, a crash, and taking longer fail the test.
    """
    command = [sys.executable, "-c", _SCRIPT.format(code=code, megabytes=megabytes), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not done.stderr, done.stderr[-2000:]
    return done.stdout


def files_below(folder: Path) -> set[str]:
    """Every file and folder below `folder`, by its path there."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
