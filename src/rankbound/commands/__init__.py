"""The subcommands of `rankbound`, a module each; here, their table and flags, and the checks that several share."""

import argparse
import shutil
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.errors import ColumnWarning, ConfigError, OutputError, RankboundError, plain_errors
from rankbound.texts import LONGEST, is_number, names, positive, printable, shortened, widths

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists

USUAL_METRICS = ("nDCG@10", "AP", "RR", "P@10", "Recall@100")
"""What a run is evaluated by where no metric is named."""

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
                if options.get("help") is False:
                    options["help"] = argparse.SUPPRESS
                if "type" in options:
                    kind = options["type"] = TYPES[options["type"]]
                    default = options.get("default")
                    options["default"] = list(map(kind, default)) if isinstance(default, list) else default
                parser.add_argument(*text.split(), **options)


def topics_of(arguments: argparse.Namespace) -> list[str] | None:
    """Return the topics that the flag names, if it does."""
    text: str | None = arguments.topics
    if text is None or not text.startswith("@"):
        return None if text is None else names(text)
    from rankbound.io.text_files import read_unpacked

    lines = read_unpacked(Path(text[1:])).decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()]


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


def recipe_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the recipe that flags set."""
    from dataclasses import fields

    from rankbound.training.recipe import Recipe

    flags = {setting.name: getattr(arguments, setting.name, None) for setting in fields(Recipe)}
    recipe = {name: value for name, value in flags.items() if value is not None}
    if "loss" in recipe:
        recipe["loss"] = loss_of(recipe["loss"], arguments)
    if "metric" in recipe and arguments.names != "rankbound":
        from rankbound.metrics import metric

        with plain_errors():
            recipe["metric"] = str(metric(recipe["metric"], names=arguments.names))
    return recipe


def loss_of(text: str, arguments: argparse.Namespace) -> str:
    """Return a loss's text here, given that of the tool that --names names."""
    if arguments.names == "rankbound":
        return text
    from rankbound.losses import loss

    with plain_errors():
        return loss(text, names=arguments.names).text


def read_named(
    path: Path, arguments: argparse.Namespace, *, groups: Path | None = None, like: "JudgedLists | None" = None
) -> "JudgedLists":
    """Read judged lists from `path`, with the columns of the flags, or with the features of others, `like` them.

    Lists for a factorisation have no features; ConfigError if flags name some.
    """
    from rankbound.io.files import read_lists
    from rankbound.training.recipe import PAIR_MODELS

    is_of_pairs, keeps = arguments.model in PAIR_MODELS, arguments.missing_features not in (None, "refuse")
    columns: dict[str, Any] = {**columns_of(arguments), "missing_features": "keep" if keeps else "refuse"}
    if like is None:
        if is_of_pairs and arguments.features:
            raise ConfigError(
                f"--features: found {','.join(arguments.features)} beside --model {arguments.model}, which reads "
                "topics and items alone; expected no features, or --model linear or mlp"
            )
        flags = {name: getattr(arguments, name) for name in ("weights", "list_weights", "exclude", "categorical")}
        columns |= {name: value for name, value in flags.items() if value is not None}
        columns["features"] = [] if is_of_pairs else arguments.features
    else:
        columns |= {"features": like.feature_names, "categorical": list(like.categories)}
    with without_warnings(), plain_errors():
        return read_lists(path, **columns, groups=groups)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Ignore warnings of columns, which a command reports in its output."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        yield


def report_columns(
    path: Path, features: Sequence[str], left_out: Mapping[str, str], doubtful: Mapping[str, str]
) -> None:
    """Print the names of features, unless they are numbers, and what was left out; note doubtful ones on stderr."""
    from rankbound.io.judged import doubt, listed

    if not all(map(is_number, features)):
        print(f"features: {printable(shortened(', '.join(features), LONGEST))}")
    if left_out:
        print(f"left out, as --features does not name them: {listed(left_out)}")
    if doubtful:
        print(f"note: {path}: {doubt(doubtful)}", file=sys.stderr)


def require_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the work whose result it will hold.

    Raises:
        OutputError: its folder cannot be made or written, or a folder has its name.
    """
    from rankbound.io.atomic import temporary_beside

    with temporary_beside(path, path.suffix):
        if path.is_dir():
            raise OutputError(f"{path}: could not be written: found a folder, expected the name of a file")
