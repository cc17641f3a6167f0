"""The command line: finds the subcommand's module, and turns our errors into one readable message.

A subcommand is a module of `rankbound.commands` with `SUMMARY`, `EXAMPLES`, `configure(parser)` and `run(arguments)`.
Its heavy imports stand inside `run`, so that `rankbound --help` answers at once.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

from rankbound import _version, commands
from rankbound.errors import RankboundError

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run `rankbound ARGUMENTS`; the exit status is 0, or 2 with a message on standard error."""
    arguments = build_parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except RankboundError as error:
        print(f"rankbound {arguments.subcommand}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:
        # The reader of our output went away (`rankbound ... | head`): nothing is left to be said to it.
        sys.stderr.close()
    return 0


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
