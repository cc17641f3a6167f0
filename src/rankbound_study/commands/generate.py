"""The step `generate`: a synthetic stand-in for a data set."""

import argparse
from pathlib import Path

SUMMARY = "Generate a synthetic stand-in, in the same form as a converted data set"
EXAMPLES = """\
  python -m rankbound_study generate synthetic-movielens --out data/interactions/synthetic-movielens.parquet
  python -m rankbound_study generate synthetic-mq2008 --size full --seed 1 --out data/lists/synthetic-mq2008.parquet"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("dataset", metavar="DATASET", help="synthetic-movielens, synthetic-mq2008 or synthetic-aaf")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default 0)")
    parser.add_argument(
        "--size",
        default="demo",
        metavar="N",
        help="number of topics or faces, or `demo` (60 users, 120 queries, 240 faces; the default) or `full` (as the "
        "real data set)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Generate the data set."""
    from rankbound_study.data.synthetic import generate

    generate(arguments.dataset, arguments.out, arguments.seed, arguments.size)
