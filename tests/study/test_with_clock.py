"""The clock of silent commands: seconds on a terminal, one line elsewhere, always the command's status."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "envs" / "with_clock.py"
COMMAND = (sys.executable, "-c", "print('a line'); raise SystemExit(3)")


def on_a_terminal(*command: str) -> tuple[str, int]:
    """Return what a command writes to a terminal, and its status."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, SCRIPT, *command], stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 4096):
            written += part
    except OSError:
        # The other end is closed.
        pass
    os.close(ours)
    return written.decode(), process.wait()


def test_a_terminal_shows_seconds_and_the_lines_of_the_command() -> None:
    shown, status = on_a_terminal("count", *COMMAND)
    assert status == 3
    assert "make: count ... 0 s" in shown
    assert "\033[Ka line\r\n" in shown
    assert shown.splitlines()[-1].split("\033[K")[-1].startswith("make: count ... failed after ")


def test_elsewhere_there_is_one_line_and_no_control_character() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "count", *COMMAND], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("a line\n", "make: count\n", 3)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_killed_command_has_the_status_of_a_shell(terminal: bool) -> None:
    command = ("end", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    if terminal:
        assert on_a_terminal(*command)[1] == 137
    else:
        assert subprocess.run([sys.executable, SCRIPT, *command], capture_output=True, check=False).returncode == 137


def test_a_failure_of_pip_gives_advice() -> None:
    command = (sys.executable, "-m", "pip", "install", "--no-index", "--quiet", "no-such-package-anywhere")
    done = subprocess.run([sys.executable, SCRIPT, "install", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "No matching distribution found" in done.stderr
    assert "set PIP_INDEX_URL" in done.stderr
