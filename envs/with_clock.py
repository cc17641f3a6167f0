"""Run a command that is silent for minutes: say beforehand what it does, and meanwhile how long it has taken.

`python envs/with_clock.py "install torch" COMMAND ...` shows the seconds on a terminal, and only the text elsewhere.
What the command prints is passed on line by line; the exit status is the command's. It needs nothing but Python, since
`make setup` calls it before anything is installed.
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO

CLEAR = "\r\033[K"

OF_PIP = """\
make: pip says above why. If it was retrying, or found no version at all, it does not reach the package index: check the
make: network and the settings that `pip config list` shows; behind a mirror, set PIP_INDEX_URL. Then run make again."""


def main(argv: Sequence[str]) -> int:
    """Run the command `argv[1:]`, which `argv[0]` describes, and return its exit status."""
    text, *command = argv
    shown = f"make: {text}"
    if not sys.stderr.isatty():
        print(shown, file=sys.stderr, flush=True)
        return _advised(command, subprocess.run(command, check=False).returncode)
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    assert process.stdout is not None
    reader = threading.Thread(target=pass_on, args=(process.stdout,), daemon=True)
    reader.start()
    status = None
    while status is None:
        _show(f"{CLEAR}{shown} ... {time.monotonic() - start:.0f} s")
        try:
            status = process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            continue
        except KeyboardInterrupt:
            # The command has received it, too.
            status = process.wait() or -signal.SIGINT
    reader.join()
    _show(f"{CLEAR}{shown} ... {'done' if status == 0 else 'failed'} after {time.monotonic() - start:.0f} s\n")
    return _advised(command, status)


def pass_on(output: IO[str]) -> None:
    """Print the command's lines in place of the line with the seconds, which follows them."""
    for line in output:
        _show(f"{CLEAR}{line}")


def _advised(command: Sequence[str], status: int) -> int:
    """Return the exit status as a shell does, with advice if pip failed."""
    if status > 0 and "pip" in command:
        print(OF_PIP, file=sys.stderr)
    return status if status >= 0 else 128 - status


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
