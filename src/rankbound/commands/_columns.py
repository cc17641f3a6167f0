"""Flags for the names of a table's columns, judged lists read by them, and what was read."""

import argparse
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound.errors import ColumnWarning
from rankbound.texts import LONGEST, is_number, printable, shortened

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists


def add_column_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags for the columns of a CSV or parquet file with a row per item."""
    group = parser.add_argument_group("columns of a CSV or parquet file with a row per item")
    group.add_argument("--topic", default="topic", metavar="NAME", help="column of topics (default: topic)")
    group.add_argument("--item", metavar="NAME", help="column of item names (default: item, if it exists)")
    group.add_argument(
        "--relevance", default="relevance", metavar="NAME", help="column of relevance labels (default: relevance)"
    )


def add_group_flag(parser: argparse.ArgumentParser) -> None:
    """Declare the flag for the sizes of queries beside LETOR text without query ids."""
    parser.add_argument(
        "--groups", type=Path, metavar="FILE", help="the lines of each query, for LETOR text without qid (LightGBM's)"
    )


def read_named(
    path: Path,
    arguments: argparse.Namespace,
    features: Sequence[str] | None,
    *,
    labelled: bool = True,
    groups: Path | None = None,
) -> "JudgedLists":
    """Read judged lists from `path`, with the column names of the flags."""
    from rankbound.io.files import read_lists

    columns = {"topic": arguments.topic, "item": arguments.item, "relevance": arguments.relevance}
    with without_warnings():
        return read_lists(path, **columns, features=features, labelled=labelled, groups=groups)


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
