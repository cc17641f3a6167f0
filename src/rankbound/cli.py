"""The command line `rankbound`: dispatch to subcommands, and report errors as one readable message.

A subcommand is a row of `commands.toml` and a function of its name, which imports heavy packages inside: this keeps
`rankbound --help` fast.
"""

import argparse
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from types import FrameType

from rankbound import _version, commands
from rankbound.errors import RankboundError
from rankbound.texts import printable_message

SUBCOMMANDS = tuple(commands.TABLE["command"])

USAGE_ERROR = 2

OUT_OF_MEMORY = "out of memory: run fewer steps in parallel, or allow this one more (ulimit -v, mem_mb on a cluster)"
SIGNS_OF_MEMORY = re.compile(
    "(cannot|can't) allocate memory|failed to map segment|not enough memory|spawn .*thread", re.IGNORECASE
)
"""Parts of messages of the loader of shared libraries, torch and polars where memory or address space ends."""

# Seconds until a dropped signal is sent again.
_MOMENT = 0.02

Around = Callable[[argparse.Namespace], AbstractContextManager[None]]
Configure = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], int | None]


def main(argv: Sequence[str] | None = None) -> int:
    """Run `rankbound ARGUMENTS` and return the exit status, as `run` does."""
    return run(own_parser(), sys.argv[1:] if argv is None else argv)


def own_parser() -> argparse.ArgumentParser:
    """Return the parser of `rankbound`."""
    rows = []
    for name, row in commands.TABLE["command"].items():
        function = getattr(import_module(f"{commands.__name__}.{row['module']}"), name.replace("-", "_"))
        examples = re.sub(r"^\$ ", "  rankbound ", row["examples"], flags=re.M)
        rows.append((name, row["summary"], examples, partial(commands.declare, flags=row["flags"]), function))
    description = "Pack judged lists, train rankers on them, score with these, fuse, evaluate and compare runs."
    return build_parser("rankbound", description, rows)


def run(parser: argparse.ArgumentParser, argv: Sequence[str], around: Around = lambda arguments: nullcontext()) -> int:
    """Run the subcommand that `argv` names, inside the context manager `around(arguments)`.

    Returns:
        The exit status: 0, 2 after an error with a message on standard error, 128 + n after signal n, or the status
        that the subcommand returns (1 for a negative answer).
    """
    arguments = parser.parse_args(argv)
    status, message = 0, ""
    try:
        with _ended_by_signals(), commands.copied_pipes(arguments), around(arguments):
            status = arguments.run(arguments) or 0
    except RankboundError as error:
        status, message = USAGE_ERROR, str(error)
    except BrokenPipeError:
        # The reader of the output closed the pipe (`rankbound ... | head`): not an error.
        sys.stderr.close()
    except OSError as error:
        where = "" if error.filename is None else f"{os.fspath(error.filename)}: "
        advice = "check that the file exists, its permissions and the free space on its disk"
        status, message = USAGE_ERROR, f"{where}{error.strerror or error}; {advice}"
    except _Signal as error:
        # As shells report a program that a signal ended.
        status, message = 128 + error.number, f"ended by {error}; no partial output is left: run it again"
    except BaseException as error:
        # Compiled libraries raise many other types than MemoryError.
        if not isinstance(error, MemoryError) and not SIGNS_OF_MEMORY.search(str(error)):
            raise
        status, message = USAGE_ERROR, OUT_OF_MEMORY
    if message:
        # Objects of the failed step may keep removed files open and their disk space occupied.
        gc.collect()
        # The exit status remains where printing fails, to a log on a full disk.
        with suppress(OSError):
            print(printable_message(f"{parser.prog} {arguments.subcommand}: {message}"), file=sys.stderr, flush=True)
    return status


def build_parser(
    program: str, description: str, rows: Iterable[tuple[str, str, str, Configure, Run]]
) -> argparse.ArgumentParser:
    """Return the parser of a program; a row has a subcommand's name, summary, examples, arguments and function."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--version", action="version", version=f"rankbound {_version.__version__}")
    subcommands = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
    for name, summary, examples, configure, function in rows:
        subparser = subcommands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        configure(subparser)
        subparser.set_defaults(run=function)
    return parser


class _Signal(BaseException):
    """A signal that requests termination."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Raise `_Signal` on SIGINT and SIGTERM, so that `finally` blocks remove temporary files."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    received: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        received.append(number)
        raise _Signal(number)

    def send_again(ignored: "sys.UnraisableHookArgs") -> None:
        # Python drops what is raised in a destructor or a callback, such as those of a lock at the end of an import.
        if isinstance(ignored.exc_value, _Signal):
            main, number = threading.main_thread().ident or 0, ignored.exc_value.number
            again = threading.Timer(_MOMENT, signal.raise_signal, [number])
            if hasattr(signal, "pthread_kill"):
                again = threading.Timer(_MOMENT, signal.pthread_kill, [main, number])
            again.daemon = True
            again.start()
        else:
            unraisable(ignored)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    unraisable, sys.unraisablehook = sys.unraisablehook, send_again
    try:
        yield
    except BaseException as error:
        # Compiled code may replace the exception by its own (an import of pandas) or by a panic (polars, whose panics
        # aren't an `Exception`).
        if received and not isinstance(error, _Signal):
            raise _Signal(received[0]) from error
        raise
    finally:
        sys.unraisablehook = unraisable
        for number, handler in before.items():
            signal.signal(number, handler)
