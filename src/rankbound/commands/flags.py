"""Command line flags that several subcommands share: what a table's columns are called, lists of names."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound.errors import ConfigError

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists


def add_column_flags(parser: argparse.ArgumentParser) -> None:
    """The names of the columns of a CSV or parquet file with a row per item."""
    group = parser.add_argument_group("columns of a CSV or parquet file with a row per item")
    group.add_argument("--topic", default="topic", metavar="NAME", help="of the topic (default: topic)")
    group.add_argument("--item", metavar="NAME", help="of the item's name (default: item, if there is such a column)")
    group.add_argument("--relevance", default="relevance", metavar="NAME", help="of the grade (default: relevance)")


def read_named(
    path: Path, arguments: argparse.Namespace, features: Sequence[str] | None, *, labelled: bool = True
) -> "JudgedLists":
    """Judged lists from `path`, whose columns are called as the flags say."""
    from rankbound.io.files import read_lists

    columns = {"topic": arguments.topic, "item": arguments.item, "relevance": arguments.relevance}
    return read_lists(path, **columns, features=features, labelled=labelled)


def names(text: str) -> list[str]:
    """`a,b` as a list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def widths(text: str) -> tuple[int, ...]:
    """`64,32` as numbers; argparse says what is wrong with any other text."""
    return tuple(int(part) for part in names(text))


def positive(text: str) -> int:
    """`5` as a number; argparse says what is wrong with what is less than 1."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number}: expected at least 1")
    return number


@contextmanager
def plain_errors() -> Iterator[None]:
    """Wrong values of flags as messages for people, not as traces of calls."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(str(error)) from error
