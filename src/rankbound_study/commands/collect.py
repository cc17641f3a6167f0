"""The step `collect`: all runs in one table."""

import argparse
from pathlib import Path

SUMMARY = (
    "Collect the runs of all jobs, with the epochs and rates beside them, into one table each; check them on the way."
)

EXAMPLES = """\
  python -m rankbound_study collect --runs runs/movielens-nsr1/controls.parquet runs/movielens-nsr1/min-max.parquet \\
      --out runs.parquet --epochs-out epochs.parquet --rates-out rates.parquet
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=Path, nargs="+", required=True, help="runs of jobs and controls, not the files beside them"
    )
    parser.add_argument("--out", type=Path, required=True, help="all runs")
    parser.add_argument("--epochs-out", type=Path, required=True, help="all epochs")
    parser.add_argument("--rates-out", type=Path, required=True, help="the rates of all grids")


def run(arguments: argparse.Namespace) -> None:
    from rankbound_study.jobs.collect import collect, collected_beside

    # Inputs, too: the record of this step names them.
    arguments.epochs, arguments.rates = (collected_beside(arguments.runs, name) for name in ("epochs", "rates"))
    collect(arguments.runs, arguments.out, arguments.epochs_out, arguments.rates_out)
