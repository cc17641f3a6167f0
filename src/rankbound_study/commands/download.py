"""The step `download`: get a raw archive and check its content."""

import argparse
from pathlib import Path

from rankbound_study.commands._description_flag import add_description_flag, read_description

SUMMARY = "Get a publisher's raw archive (from disk, a mirror, or its address) and check its content"
EXAMPLES = """\
  python -m rankbound_study download movielens --out data/raw/ml-latest-small.zip
  RANKBOUND_MIRROR=/srv/archives python -m rankbound_study download mq2008 --out data/raw/MQ2008.zip"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "source", metavar="SOURCE", help="movielens, mq2008, mslr-web10k, aaf, vgg16, or a name of your own"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="where to save the archive")
    parser.add_argument(
        "--mirror", metavar="M", help="a folder or base URL with the archives by name; after RANKBOUND_MIRROR"
    )
    add_description_flag(parser)


def run(arguments: argparse.Namespace) -> None:
    """Fetch and check the archive, and state its terms."""
    from rankbound_study.data.fetch import fetch

    described, source = read_description(arguments.source, arguments.description)
    path = fetch(source, arguments.out, arguments.mirror)
    print(f"{path}: {source.title}, {'content as expected' if source.is_checked else 'whose content has no checksums'}")
    for what, text in {"terms": described.terms, "cite": described.citation}.items():
        print(f"{what}: {text or 'not stated in the description'}")
    if described.remark:
        print(f"note: {described.remark}")
