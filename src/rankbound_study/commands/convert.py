"""The step `convert`: a raw archive as parquet."""

import argparse
from collections.abc import Callable
from pathlib import Path

SUMMARY = "Turn a raw archive into parquet: interactions (movielens), judged lists (LETOR sets) or images (aaf)"
EXAMPLES = """\
  python -m rankbound_study convert movielens --raw data/raw/ml-latest-small.zip \\
      --out data/interactions/movielens.parquet
  python -m rankbound_study convert mq2008 --raw data/raw/MQ2008.zip --out data/lists/mq2008.parquet
  python -m rankbound_study convert mslr-web10k --raw data/raw/MSLR-WEB10K.zip --out data/lists/mslr-web10k.parquet
  python -m rankbound_study convert aaf --raw data/raw/All-Age-Faces.zip --out data/images/aaf.parquet"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("source", metavar="SOURCE", help="movielens, mq2008, mslr-web10k or aaf")
    parser.add_argument("--raw", type=Path, metavar="FILE", required=True, help="the archive, .zip or .rar")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")


def run(arguments: argparse.Namespace) -> None:
    """Convert the archive if its content is that of its source."""
    from rankbound.errors import ConfigError
    from rankbound_study.data import faces, letor_sets, movielens
    from rankbound_study.data.sources import RawFile, find_source

    converters: dict[str, Callable[[RawFile, Path], None]] = {
        "movielens": movielens.convert,
        **dict.fromkeys(letor_sets.LETOR_SETS, letor_sets.convert),
        "aaf": faces.convert,
    }
    source = find_source(arguments.source)
    if source.name not in converters:
        raise ConfigError(f"{source.name} is not converted; these are: {', '.join(converters)}")
    raw = RawFile(source, arguments.raw)
    if source.remark:
        print(f"note: {source.remark}")
    converters[source.name](raw, arguments.out)
