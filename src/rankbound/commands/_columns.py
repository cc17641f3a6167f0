"""Flags that say what a table's columns are called, and judged lists read by them."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
