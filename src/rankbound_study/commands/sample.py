"""The step `sample`: the lists that training reads."""

import argparse
from pathlib import Path
from typing import Any

SUMMARY = "Make training instances: negatives (interactions), a relevance threshold (judged lists), or pairs (images)"
EXAMPLES = """\
  python -m rankbound_study sample movielens --in data/interactions/movielens.parquet \\
      --folds data/folds/movielens.parquet \\
      --out data/instances/movielens-nsr1.parquet --options '{"nsr": 1}'
  python -m rankbound_study sample mq2008 --in data/lists/mq2008.parquet --folds data/folds/mq2008.parquet \\
      --out data/instances/mq2008-label2.parquet --options '{"threshold": 2}'
  python -m rankbound_study sample mslr-web10k --in data/lists/mslr-web10k.parquet \\
      --folds data/folds/mslr-web10k.parquet \\
      --out data/instances/mslr-web10k-graded.parquet --options '{"graded": true}'
  python -m rankbound_study sample aaf --in data/images/aaf.parquet --folds data/folds/aaf.parquet \\
      --out data/instances/aaf.parquet --options '{"above": 5, "train_pairs": 7200}'"""
INTERACTION_OPTIONS: dict[str, Any] = {
    "min_relevant": 25,
    "nsr": 1,
    "seed": 0,
    "threshold": 4.0,
    "validation_share": 0.1,
}
IMAGE_OPTIONS: dict[str, Any] = {
    "above": 5,
    "seed": 0,
    "test_pairs": 2400,
    "train_pairs": 7200,
    "validation_pairs": 2400,
}
LIST_OPTIONS: dict[str, Any] = {"graded": False, "threshold": 1}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "dataset", metavar="DATASET", help="its name (for lists: with or without `-label<threshold>` or `-graded`)"
    )
    parser.add_argument(
        "--in", dest="data", type=Path, metavar="FILE", required=True, help="interactions, judged lists or images"
    )
    parser.add_argument(
        "--folds", type=Path, metavar="FILE", required=True, help="output of `python -m rankbound_study split`"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")
    parser.add_argument(
        "--options",
        default="{}",
        metavar="JSON",
        help="interactions: min_relevant, nsr, seed, threshold, validation_share; lists: threshold or graded; "
        "images: above, seed, test_pairs, train_pairs, validation_pairs",
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the instances."""
    from rankbound_study.data.contracts import contract_of
    from rankbound_study.data.face_pairs import PairDrawing, sample_pairs
    from rankbound_study.data.instances import SPLITS
    from rankbound_study.data.negatives import Drawing
    from rankbound_study.data.sampling import label_dataset, sample_interactions, sample_lists
    from rankbound_study.options import read_options

    files = (arguments.data, arguments.folds, arguments.out)
    contract = contract_of(arguments.data, ("interactions", "lists", "images"))
    if contract == "images":
        options = read_options(arguments.options, IMAGE_OPTIONS)
        pairs = {split: options[f"{split}_pairs"] for split in SPLITS}
        sample_pairs(*files, PairDrawing(arguments.dataset, pairs, options["above"], options["seed"]))
        return
    if contract == "lists":
        threshold = _threshold(arguments.options)
        sample_lists(*files, dataset=label_dataset(arguments.dataset, threshold), threshold=threshold)
        return
    options = read_options(arguments.options, INTERACTION_OPTIONS)
    checked = {key: options.pop(key) for key in ("min_relevant", "threshold")}
    sample_interactions(*files, drawing=Drawing(arguments.dataset, **options), checked=checked)


def _threshold(text: str) -> int | None:
    """Return the smallest relevant label; None if the labels are the relevance."""
    from rankbound.errors import ConfigError
    from rankbound_study.options import parse_options, read_options

    options = read_options(text, LIST_OPTIONS)
    if not options["graded"]:
        return int(options["threshold"])
    if "threshold" in parse_options(text):
        raise ConfigError(f"--options has both a threshold and graded labels: {text}; use only one of them")
    return None
