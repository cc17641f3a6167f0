"""`rankbound sample`: the lists that training reads."""

import argparse
from pathlib import Path
from typing import Any

SUMMARY = "Make training instances: sampled negatives (interactions) or a relevance threshold (judged lists)"
EXAMPLES = """\
  rankbound sample movielens --in data/interactions/movielens.parquet --folds data/folds/movielens.parquet \\
      --out data/instances/movielens-nsr1.parquet --options '{"nsr": 1}'
  rankbound sample mq2008 --in data/lists/mq2008.parquet --folds data/folds/mq2008.parquet \\
      --out data/instances/mq2008-label2.parquet --options '{"threshold": 2}'"""
INTERACTION_OPTIONS: dict[str, Any] = {
    "min_relevant": 25,
    "nsr": 1,
    "seed": 0,
    "threshold": 4.0,
    "validation_share": 0.1,
}
LIST_OPTIONS: dict[str, Any] = {"threshold": 1}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("dataset", metavar="DATASET", help="its name (of lists: with or without `-label<threshold>`)")
    parser.add_argument(
        "--in", dest="data", type=Path, metavar="FILE", required=True, help="interactions or judged lists"
    )
    parser.add_argument("--folds", type=Path, metavar="FILE", required=True, help="what `rankbound split` wrote")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")
    parser.add_argument(
        "--options",
        default="{}",
        metavar="JSON",
        help="interactions: min_relevant, nsr, seed, threshold, validation_share; lists: threshold",
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the instances."""
    from rankbound.data.contracts import contract_of
    from rankbound.data.negatives import Drawing
    from rankbound.data.sampling import label_dataset, sample_interactions, sample_lists
    from rankbound.options import read_options

    files = (arguments.data, arguments.folds, arguments.out)
    if contract_of(arguments.data, ("interactions", "lists")) == "lists":
        threshold = read_options(arguments.options, LIST_OPTIONS)["threshold"]
        sample_lists(*files, dataset=label_dataset(arguments.dataset, threshold), threshold=threshold)
        return
    options = read_options(arguments.options, INTERACTION_OPTIONS)
    checked = {key: options.pop(key) for key in ("min_relevant", "threshold")}
    sample_interactions(*files, drawing=Drawing(arguments.dataset, **options), checked=checked)
