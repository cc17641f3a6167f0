"""`rankbound score`: score lists with a trained ranker."""

import argparse
from pathlib import Path

from rankbound.commands import UNKNOWN, Source, add_file_flags, without_warnings
from rankbound.errors import naming, plain_errors

SUMMARY = "Score your own lists with a trained ranker, as a TREC run or a table"
EXAMPLES = """\
  rankbound score model.safetensors lists.csv --out run.txt
  rankbound score model.safetensors test.letor --out scores.parquet

Features are matched by name, and for a matrix factorisation topics and items; the file needs no relevance labels.
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
    from rankbound.io.files import write_run
    from rankbound.texts import quantity
    from rankbound.training.ranker import load

    ranker = load(arguments.model)
    columns = {name: getattr(arguments, name) for name in ("topic", "item", "relevance", "groups")}
    with naming(arguments.lists), plain_errors(), without_warnings():
        scored = ranker.score_lists(arguments.lists, arguments.unknown, **columns)
    write_run(arguments.out, scored, tag=arguments.tag)
    items, topics = quantity(len(scored.items), "item"), quantity(len(scored.topics), "topic")
    print(f"scored {items} of {topics}\nwrote {arguments.out}")
