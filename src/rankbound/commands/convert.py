"""`rankbound convert`: a raw archive as parquet."""

import argparse
from pathlib import Path

SUMMARY = "Turn a raw archive into parquet: interactions (movielens) or judged lists (mq2008)"
EXAMPLES = """\
  rankbound convert movielens --raw data/raw/ml-latest-small.zip --out data/interactions/movielens.parquet
  rankbound convert mq2008 --raw data/raw/MQ2008.zip --out data/lists/mq2008.parquet"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("source", metavar="SOURCE", help="movielens or mq2008")
    parser.add_argument("--raw", type=Path, metavar="FILE", required=True, help="the archive, .zip or .rar")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")


def run(arguments: argparse.Namespace) -> None:
    """Convert the archive."""
    from rankbound.data import movielens, mq2008
    from rankbound.data.sources import find_source

    converters = {"movielens": movielens.convert, "mq2008": mq2008.convert}
    converters[find_source(arguments.source).name](arguments.raw, arguments.out)
