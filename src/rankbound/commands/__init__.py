"""The subcommands of `rankbound`, of rankers and of runs; here, their table and flags, and the files that they read."""

import argparse
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.resources import files
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError, RankboundError
from rankbound.texts import is_number, names, positive, widths

STANDARD_INPUT = "-"


class Source(type(Path())):  # type: ignore[misc]
    """A file to read: `-` is standard input, and it may be a pipe."""


TABLE: Mapping[str, Any] = tomllib.loads(files("rankbound").joinpath("commands.toml").read_text("utf-8"))
"""The subcommands by name, and the flags that several of them have; the table explains its keys."""

TYPES: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "path": Path,
    "source": Source,
    "names": names,
    "widths": widths,
    "positive": positive,
}
"""The types that tables of flags name."""

_START_BYTES = 2**16


def declare(parser: Any, flags: Sequence[Any], shared: Mapping[str, Sequence[Any]] = TABLE["shared"]) -> None:
    """Declare flags of a table for a parser, or a group of one; texts name the `shared` ones."""
    for flag in flags:
        match flag:
            case str(name):
                declare(parser, shared[name], shared)
            case {"group": title, "flags": inner}:
                declare(parser.add_argument_group(title), inner, shared)
            case {"either": inner}:
                declare(parser.add_mutually_exclusive_group(), inner, shared)
            case {"flag": text}:
                options: dict[str, Any] = {key: value for key, value in flag.items() if key != "flag"}
                if "type" in options:
                    kind = options["type"] = TYPES[options["type"]]
                    default = options.get("default")
                    options["default"] = list(map(kind, default)) if isinstance(default, list) else default
                parser.add_argument(*text.split(), **options)


@contextmanager
def copied_pipes(arguments: argparse.Namespace) -> Iterator[None]:
    """Replace standard input and pipes among the arguments by copies for this time: files are opened more than once.

    Messages name the originals. The ending of a copy's name tells the format of its content.
    """
    values = {name: value if isinstance(value, list) else [value] for name, value in vars(arguments).items()}
    sources = [one for several in values.values() for one in several if isinstance(one, Source)]
    pipes = [one for one in sources if str(one) == STANDARD_INPUT or one.is_fifo()]
    if not pipes:
        yield
        return
    if len({*pipes}) < len(pipes):
        raise ConfigError(f"{pipes[0]}: found twice among the files to read, expected once: it can be read only once")
    copies: dict[Source, Path] = {}
    with tempfile.TemporaryDirectory(prefix="rankbound-") as folder:
        for place, pipe in enumerate(pipes):
            copy = Path(folder, str(place), "standard-input" if str(pipe) == STANDARD_INPUT else pipe.name)
            copy.parent.mkdir()
            opened = nullcontext(sys.stdin.buffer) if str(pipe) == STANDARD_INPUT else pipe.open("rb")
            with copy.open("wb") as file, opened as stream:
                shutil.copyfileobj(stream, file)
            copies[pipe] = copy.rename(copy.with_name(copy.name + _ending_of(copy)))
        for name, several in values.items():
            if any(one in pipes for one in several):
                copied = [copies.get(one, one) for one in several]
                setattr(arguments, name, copied if isinstance(getattr(arguments, name), list) else copied[0])
        try:
            yield
        except RankboundError as error:
            message = str(error)
            for pipe, copy in copies.items():
                message = message.replace(str(copy), "standard input" if str(pipe) == STANDARD_INPUT else str(pipe))
            raise type(error)(message) from error


def _ending_of(path: Path) -> str:
    """Return the ending that a file's name would have by its content, if it is no text of LETOR or TREC."""
    from rankbound.io.text_files import open_unpacked

    with open_unpacked(path) as stream:
        start = stream.read(_START_BYTES).lstrip()
    for begin, ending in {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"{": ".json", b"[": ".json"}.items():
        if start.startswith(begin):
            return ending
    line = start.partition(b"\n")[0]
    if b" qid:" in line or b"\tqid:" in line:
        return ""
    if b"\t" in line:
        return ".tsv"
    return ".csv" if line.count(b",") > line.count(b" ") else ""


def columns_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the names of columns that the flags give, by their meaning."""
    if "," in arguments.topic and "topics" in arguments:
        found = f"--topic: found {arguments.topic}, expected the name of a column"
        raise ConfigError(f"{found}; to evaluate some topics only, write --topics {arguments.topic}")
    columns = {name: getattr(arguments, name) for name in ("topic", "item", "relevance", "grades")}
    pairs = [label.rpartition("=") for label in arguments.grades or ()]
    if pairs and all(label and is_number(number) for label, _, number in pairs):
        columns["grades"] = {label: float(number) for label, _, number in pairs}
    return columns
