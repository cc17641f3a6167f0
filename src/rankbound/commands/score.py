"""`rankbound score`: score lists with a trained ranker."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.commands import UNKNOWN, Source, add_file_flags, without_warnings
from rankbound.errors import naming, plain_errors

if TYPE_CHECKING:
    from rankbound.io.judged import Run

_AT_ONCE = (".json", ".jsonl", ".gz", ".bz2", ".zst")
"""Endings of runs that are written in one piece."""

SUMMARY = "Score your own lists with a trained ranker, as a TREC run or a table"
EXAMPLES = """\
  rankbound score model.safetensors lists.csv --out run.txt
  rankbound score model.safetensors test.letor --out scores.parquet

Features are matched by name, and for a matrix factorisation topics and items; the file needs no relevance labels.
LETOR text, CSV and parquet with a row per item are read in a stream: they may exceed memory. Runs in JSON or compressed
are not.
`rankbound evaluate` reads the result."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model that `rankbound train` wrote")
    parser.add_argument("lists", type=Source, metavar="FILE", help="lists: LETOR text, .csv, .tsv, .parquet or .arrow")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", required=True, help="a table for .csv, .tsv and .parquet, else a TREC run"
    )
    parser.add_argument(
        "--tag", default="rankbound", metavar="NAME", help="the run's name in a TREC run (default: rankbound)"
    )
    parser.add_argument("--unknown", help=f"{UNKNOWN}: as in training (default), refuse, or mean")
    add_file_flags(parser)


def run(arguments: argparse.Namespace) -> None:
    """Score and write."""
    from rankbound.io.files import stream_lists, write_run, write_runs
    from rankbound.texts import quantity
    from rankbound.training.ranker import load

    ranker, parts, counts = load(arguments.model), None, [0, 0]
    columns = {name: getattr(arguments, name) for name in ("topic", "item", "relevance", "groups")}

    def scored(lists: Any, **named: Any) -> "Run":
        run = ranker.score_lists(lists, arguments.unknown, **named)
        counts[:] = counts[0] + len(run.items), counts[1] + len(run.topics)
        return run

    with naming(arguments.lists), plain_errors(), without_warnings():
        if ranker.vocabulary is None and not ranker.encoding.categories and arguments.out.suffix not in _AT_ONCE:
            keep = ranker.encoding.missing != "refuse"
            parts = stream_lists(arguments.lists, ranker.feature_names, keep_missing=keep, **columns)
        if parts is None:
            write_run(arguments.out, scored(arguments.lists, **columns), tag=arguments.tag)
        else:
            write_runs(arguments.out, map(scored, parts), tag=arguments.tag)
    items, topics = quantity(counts[0], "item"), quantity(counts[1], "topic")
    print(f"scored {items} of {topics}\nwrote {arguments.out}")
