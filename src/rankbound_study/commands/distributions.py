"""The step `distributions`: the score distributions that the distribution bound looks up."""

import argparse
from pathlib import Path
from typing import Any

SUMMARY = "Tabulate a metric's distribution over random orders for every list size of the instances"
EXAMPLES = """\
  python -m rankbound_study distributions nDCG --instances data/instances/mq2008-label2.parquet \\
      --out results/distributions/nDCG.parquet
  python -m rankbound_study distributions AP --instances a.parquet b.parquet --out AP.parquet \\
      --options '{"method": "sampled", "seed": 1}'"""
OPTIONS: dict[str, Any] = {"method": "exact", "samples": 300_000, "seed": 0, "tilt": 1.0}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("metric", metavar="METRIC", help="nDCG, AP, nRBP (the loss), RR@10, ...")
    parser.add_argument("--instances", type=Path, metavar="FILE", nargs="+", required=True, help="instances files")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")
    parser.add_argument(
        "--options", default="{}", metavar="JSON", help="method (exact, sampled or auto), samples, seed and tilt"
    )


def run(arguments: argparse.Namespace) -> None:
    """Read the list sizes, tabulate, write."""
    from tqdm import tqdm

    from rankbound.bounds.score_distribution import score_distributions
    from rankbound.bounds.tables import DistributionTables
    from rankbound.errors import ConfigError, DataError
    from rankbound_study.data.distribution_files import write_distributions
    from rankbound_study.data.reader import list_sizes
    from rankbound_study.options import read_options

    options = read_options(arguments.options, OPTIONS)
    pairs = list_sizes(arguments.instances)
    if not pairs:
        raise DataError(
            f"{', '.join(map(str, arguments.instances))}: no list has both relevant and irrelevant items, so there is "
            "nothing to tabulate; check the relevance threshold of these instances"
        )
    # disable=None: no bar unless standard error is a terminal.
    with tqdm(total=len(pairs), desc=arguments.metric, unit="table", disable=None) as bar:
        try:
            distributions = score_distributions(arguments.metric, pairs, done=bar.update, **options)
            tables = DistributionTables.collect(distribution.binned() for distribution in distributions)
        except ValueError as error:
            raise ConfigError(str(error)) from error
    write_distributions(tables, arguments.out)
