"""The step `controls`: scores that bound every model from below or above."""

import argparse
from pathlib import Path

SUMMARY = "Measure the controls random, popularity, best-feature and oracle on every test part."

EXAMPLES = """\
  python -m rankbound_study controls --instances data/instances/movielens-nsr1.parquet \\
      --out runs/movielens-nsr1/controls.parquet \\
      --options '{"study": "thesis", "protocol": "published", "dataset": "movielens", "nsr": 1,
                  "controls": ["random", "popularity", "oracle"], "folds": [1, 2, 3, 4, 5]}'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--instances", type=Path, required=True, help="parquet file of instances")
    parser.add_argument("--lists", type=Path, help="parquet file of judged lists, for the best of their features")
    parser.add_argument("--out", type=Path, required=True, help="runs to write")
    parser.add_argument("--options", required=True, help="JSON object: study, protocol, dataset, nsr, controls, folds")


def run(arguments: argparse.Namespace) -> None:
    from rankbound_study.jobs.controls_job import run_controls

    run_controls(arguments.options, arguments.instances, arguments.out, arguments.lists)
