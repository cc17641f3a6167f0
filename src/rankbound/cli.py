"""The command line: finds the subcommand's module, and turns our errors into one readable message.

A subcommand is a module of `rankbound.commands` with `SUMMARY`, `EXAMPLES`, `configure(parser)` and `run(arguments)`.
Its heavy imports stand inside `run`, so that `rankbound --help` answers at once.
"""

import argparse
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import FrameType

from rankbound import _version, commands
from rankbound.errors import RankboundError

USAGE_ERROR = 2

RECORDS_VARIABLE = "RANKBOUND_PROVENANCE"
"""Names the folder, inside the results folder, where every step leaves a record (`rankbound_study.provenance`)."""

KILLED = 128
"""Added to a signal's number, it is the exit status of a program that the signal ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `rankbound ARGUMENTS`; the exit status is 0, 2 with a message on standard error, or a signal's.

    A subcommand that answers a question by its exit status returns it (1: no).
    """
    arguments = build_parser().parse_args(argv)
    status, said = 0, ""
    try:
        with _ended_by_signals():
            status = _run(arguments) or 0
    except RankboundError as error:
        status, said = USAGE_ERROR, str(error)
    except BrokenPipeError:
        # The reader of our output went away (`rankbound ... | head`): nothing is left to be said to it.
        sys.stderr.close()
    except OSError as error:
        status, said = USAGE_ERROR, _text_of(error)
    except MemoryError:
        status, said = USAGE_ERROR, "the memory is full: run fewer steps side by side, or give this one more"
    except _Signal as error:
        status, said = KILLED + error.number, f"ended by {error}; nothing half written is left: run it again"
    if said:
        _say(f"rankbound {arguments.subcommand}: {said}")
    return status


def _run(arguments: argparse.Namespace) -> int | None:
    """Run the subcommand; leave a record of the step where the workflow wants one."""
    run: Callable[[argparse.Namespace], int | None] = arguments.run
    folder = os.environ.get(RECORDS_VARIABLE)
    if not folder:
        return run(arguments)
    from rankbound_study.provenance.recorder import recorded

    with recorded(arguments, Path(folder)):
        return run(arguments)


class _Signal(BaseException):
    """A signal that asks the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let signals that ask for an end go through the `finally` blocks, which remove temporary files."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    received: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        received.append(number)
        raise _Signal(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except BaseException as error:
        # Compiled code that a signal reaches may turn it into an error of its own (an import of pandas), or into a
        # panic (polars, whose panics are no `Exception`).
        if received and not isinstance(error, _Signal):
            raise _Signal(received[0]) from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    """Print to standard error, which may be a log on a full disk: if there is no room, the exit status says it all."""
    # What failed may hold removed files open, and their room with them.
    gc.collect()
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _text_of(error: OSError) -> str:
    where = "" if error.filename is None else f"{os.fspath(error.filename)}: "
    advice = "check that the file is there, its permissions and the room on its disk"
    return f"{where}{error.strerror or error}; {advice}"


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    parser = argparse.ArgumentParser(
        prog="rankbound",
        description="Bounded ranking losses, and the studies that compare them, step by step.",
    )
    parser.add_argument("--version", action="version", version=f"rankbound {_version.__version__}")
    subcommands = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
    for name in sorted(one.name for one in iter_modules(commands.__path__) if not one.name.startswith("_")):
        module = import_module(f"rankbound.commands.{name}")
        subparser = subcommands.add_parser(
            name.replace("_", "-"),
            help=module.SUMMARY,
            description=module.SUMMARY,
            epilog=f"examples:\n{module.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(subparser)
        subparser.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
