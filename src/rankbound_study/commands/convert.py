"""The step `convert`: raw files as parquet."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound_study.commands._description_flag import add_description_flag, read_description

if TYPE_CHECKING:
    from rankbound_study.config.sections.description import DescriptionKeys
    from rankbound_study.data.sources import Raw

SUMMARY = "Turn raw files into parquet: interactions (ratings), judged lists, or images"
EXAMPLES = """\
  python -m rankbound_study convert movielens --raw data/raw/ml-latest-small.zip \\
      --out data/interactions/movielens.parquet
  python -m rankbound_study convert mq2008 --raw data/raw/MQ2008.zip --out data/lists/mq2008.parquet
  python -m rankbound_study convert web --raw web/S1.txt web/S2.txt web/S3.txt --out data/lists/web.parquet \\
      --description '{"format": "letor", "path": "web", "parts": ["S1.txt", "S2.txt", "S3.txt"]}'"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("source", metavar="SOURCE", help="movielens, mq2008, mslr-web10k, aaf, or a name of your own")
    parser.add_argument(
        "--raw", type=Path, metavar="FILE", nargs="+", required=True, help="the archive (.zip or .rar), or the files"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")
    add_description_flag(parser)


def run(arguments: argparse.Namespace) -> None:
    """Convert the files if their content is that of their source."""
    from rankbound.errors import ConfigError
    from rankbound_study.config.sections.description import CONVERTED
    from rankbound_study.data.sources import raw_data

    described, source = read_description(arguments.source, arguments.description)
    if described.format not in CONVERTED:
        raise ConfigError(f"{source.name} is not converted: its format is {described.format}")
    if described.remark:
        print(f"note: {described.remark}")
    _convert(raw_data(source, arguments.raw, own=described.path is not None), described, arguments.out)


def _convert(raw: "Raw", described: "DescriptionKeys", out: Path) -> None:
    from rankbound.errors import DataError
    from rankbound_study.config.sections.description import LISTS, RATINGS
    from rankbound_study.data.sources import RawFile

    if described.format in LISTS:
        from rankbound_study.data import judged_files

        judged_files.convert(raw, described, out)
    elif described.format == RATINGS:
        from rankbound_study.data import ratings

        ratings.convert(raw, described, out)
    elif isinstance(raw, RawFile):
        from rankbound_study.data import faces

        faces.convert(raw, out)
    else:
        raise DataError(f"{raw.path}: pictures are read from an archive, .zip or .rar: pack the folder")
