"""`rankbound split`: which fold's test part every topic or relevant item belongs to."""

import argparse
from pathlib import Path
from typing import Any

SUMMARY = "Cut a data set into five folds: LETOR's own parts, or each user's relevant items"
EXAMPLES = """\
  rankbound split mq2008 --in data/lists/mq2008.parquet --out data/folds/mq2008.parquet
  rankbound split movielens --in data/interactions/movielens.parquet --out data/folds/movielens.parquet \\
      --options '{"min_relevant": 25, "seed": 0, "threshold": 4}'"""
INTERACTION_OPTIONS: dict[str, Any] = {"min_relevant": 25, "seed": 0, "threshold": 4.0}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("dataset", metavar="DATASET", help="its name, on which the drawn folds depend")
    parser.add_argument(
        "--in", dest="data", type=Path, metavar="FILE", required=True, help="interactions or judged lists"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")
    parser.add_argument(
        "--options", default="{}", metavar="JSON", help="interactions: min_relevant, seed, threshold; lists: none"
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the folds."""
    from rankbound.data.contracts import contract_of
    from rankbound.data.folds import fold_interactions, fold_lists
    from rankbound.options import read_options

    if contract_of(arguments.data, ("interactions", "lists")) == "lists":
        read_options(arguments.options, {})
        fold_lists(arguments.data, arguments.out)
        return
    options = read_options(arguments.options, INTERACTION_OPTIONS)
    fold_interactions(arguments.data, arguments.out, dataset=arguments.dataset, **options)
