"""`rankbound convert`: a raw archive as parquet."""

import argparse
from collections.abc import Callable
from pathlib import Path

SUMMARY = "Turn a raw archive into parquet: interactions (movielens), judged lists (LETOR sets) or images (aaf)"
EXAMPLES = """\
  rankbound convert movielens --raw data/raw/ml-latest-small.zip --out data/interactions/movielens.parquet
  rankbound convert mq2008 --raw data/raw/MQ2008.zip --out data/lists/mq2008.parquet
  rankbound convert mslr-web10k --raw data/raw/MSLR-WEB10K.zip --out data/lists/mslr-web10k.parquet
  rankbound convert aaf --raw data/raw/All-Age-Faces.zip --out data/images/aaf.parquet"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("source", metavar="SOURCE", help="movielens, mq2008, mslr-web10k or aaf")
    parser.add_argument("--raw", type=Path, metavar="FILE", required=True, help="the archive, .zip or .rar")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")


def run(arguments: argparse.Namespace) -> None:
    """Convert the archive."""
    from functools import partial

    from rankbound.data import faces, letor_sets, movielens
    from rankbound.data.sources import find_source
    from rankbound.errors import ConfigError

    converters: dict[str, Callable[[Path, Path], None]] = {
        "movielens": movielens.convert,
        **{name: partial(letor_sets.convert, name) for name in letor_sets.LETOR_SETS},
        "aaf": faces.convert,
    }
    name = find_source(arguments.source).name
    if name not in converters:
        raise ConfigError(f"{name} is not converted; these are: {', '.join(converters)}")
    converters[name](arguments.raw, arguments.out)
