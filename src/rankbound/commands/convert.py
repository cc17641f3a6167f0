"""`rankbound convert`: a raw archive as parquet."""

import argparse
from pathlib import Path

SUMMARY = "Turn a raw archive into parquet: interactions (movielens), judged lists (mq2008) or images (aaf)"
EXAMPLES = """\
  rankbound convert movielens --raw data/raw/ml-latest-small.zip --out data/interactions/movielens.parquet
  rankbound convert mq2008 --raw data/raw/MQ2008.zip --out data/lists/mq2008.parquet
  rankbound convert aaf --raw data/raw/All-Age-Faces.zip --out data/images/aaf.parquet"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("source", metavar="SOURCE", help="movielens, mq2008 or aaf")
    parser.add_argument("--raw", type=Path, metavar="FILE", required=True, help="the archive, .zip or .rar")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")


def run(arguments: argparse.Namespace) -> None:
    """Convert the archive."""
    from rankbound.data import faces, movielens, mq2008
    from rankbound.data.sources import find_source
    from rankbound.errors import ConfigError

    converters = {"movielens": movielens.convert, "mq2008": mq2008.convert, "aaf": faces.convert}
    name = find_source(arguments.source).name
    if name not in converters:
        raise ConfigError(f"{name} is not converted; these are: {', '.join(converters)}")
    converters[name](arguments.raw, arguments.out)
