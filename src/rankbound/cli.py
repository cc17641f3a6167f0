"""The command line: finds the subcommand's module, and turns our errors into one readable message.

A subcommand is a module with `SUMMARY`, `EXAMPLES`, `configure(parser)` and `run(arguments)`. Its heavy imports stand
inside `run`, so that `rankbound --help` answers at once.
"""

import argparse
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from types import FrameType

from rankbound import _version, commands
from rankbound.errors import RankboundError

USAGE_ERROR = 2

KILLED = 128
"""Added to a signal's number, it is the exit status of a program that the signal ended."""


SUBCOMMANDS = ("train", "score", "evaluate", "compare")

STEPS = (
    "check-config",
    "claims",
    "collect",
    "controls",
    "convert",
    "distributions",
    "document",
    "download",
    "dvc-stages",
    "export",
    "features",
    "figure",
    "generate",
    "job",
    "offline-plots",
    "provenance",
    "sample",
    "settle",
    "split",
    "table",
    "verify",
    "weights",
)
"""Subcommands of earlier versions that belong to the study now."""

Around = Callable[[argparse.Namespace], AbstractContextManager[None]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run `rankbound ARGUMENTS`; the exit status is that of `run`."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given and given[0] in STEPS:
        _say(
            f"rankbound {given[0]}: this is a step of the study, not of the library: in a clone of the repository, run "
            f"`python -m rankbound_study {' '.join(given)}`"
        )
        return USAGE_ERROR
    parser = build_parser(
        "rankbound",
        "Train rankers on judged lists, score with them, evaluate runs, and compare two of them.",
        {name: f"{commands.__name__}.{name}" for name in SUBCOMMANDS},
    )
    return run(parser, given)


def run(parser: argparse.ArgumentParser, argv: Sequence[str], around: Around = lambda arguments: nullcontext()) -> int:
    """Run the subcommand that `argv` names, inside the context that `around` makes of its arguments.

    The exit status is 0, 2 with a message on standard error, or a signal's; a subcommand that answers a question by its
    exit status returns it (1: no).
    """
    arguments = parser.parse_args(argv)
    status, said = 0, ""
    try:
        with _ended_by_signals(), around(arguments):
            status = arguments.run(arguments) or 0
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
        _say(f"{parser.prog} {arguments.subcommand}: {said}")
    return status


def build_parser(program: str, description: str, modules: Mapping[str, str]) -> argparse.ArgumentParser:
    """The parser of a program whose subcommands are these modules."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--version", action="version", version=f"rankbound {_version.__version__}")
    subcommands = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
    for name, path in modules.items():
        module = import_module(path)
        subparser = subcommands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.SUMMARY,
            epilog=f"examples:\n{module.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(subparser)
        subparser.set_defaults(run=module.run)
    return parser


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


if __name__ == "__main__":
    sys.exit(main())
