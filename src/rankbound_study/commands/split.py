"""The step `split`: assign every topic or relevant item to the test part of a fold."""

import argparse
from pathlib import Path
from typing import Any

SUMMARY = "Cut a data set into folds: LETOR's own parts, each user's relevant items, or random splits of images"
EXAMPLES = """\
  python -m rankbound_study split mq2008 --in data/lists/mq2008.parquet --out data/folds/mq2008.parquet
  python -m rankbound_study split movielens --in data/interactions/movielens.parquet \\
      --out data/folds/movielens.parquet \\
      --options '{"min_relevant": 25, "seed": 0, "threshold": 4}'
  python -m rankbound_study split aaf --in data/images/aaf.parquet --out data/folds/aaf.parquet \\
      --options '{"folds": 1}'"""
INTERACTION_OPTIONS: dict[str, Any] = {
    "by_time": {},
    "folds": [],
    "min_relevant": 25,
    "repeats": 1,
    "seed": 0,
    "threshold": 4.0,
    "validation_share": 0.1,
}
LIST_OPTIONS: dict[str, Any] = {"folds": [], "random_parts": 0, "seed": 0, "validation_share": 0.2}
IMAGE_OPTIONS: dict[str, Any] = {"folds": 5, "seed": 0, "test_share": 0.2, "validation_share": 0.2}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("dataset", metavar="DATASET", help="its name, on which the drawn folds depend")
    parser.add_argument(
        "--in", dest="data", type=Path, metavar="FILE", required=True, help="interactions, judged lists or images"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")
    parser.add_argument(
        "--options",
        default="{}",
        metavar="JSON",
        help="interactions: min_relevant, seed, threshold, and repeats, or folds, or by_time with validation_share; "
        "images: folds, seed, test_share, validation_share; "
        "lists: nothing for parts that take turns, or folds, random_parts, seed, validation_share",
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the folds."""
    from rankbound_study.data.contracts import contract_of
    from rankbound_study.data.splits import fold_images, split_lists, split_ratings
    from rankbound_study.options import read_options

    files = (arguments.data, arguments.out, arguments.dataset)
    match contract_of(arguments.data, ("interactions", "lists", "images")):
        case "lists":
            split_lists(*files, **read_options(arguments.options, LIST_OPTIONS))
        case "images":
            fold_images(*files, **read_options(arguments.options, IMAGE_OPTIONS))
        case _:
            for note in split_ratings(*files, **read_options(arguments.options, INTERACTION_OPTIONS)):
                print(f"note: {note}")
