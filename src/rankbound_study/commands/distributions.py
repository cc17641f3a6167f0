"""The step `distributions`: the score distributions that the distribution bound looks up."""

from pathlib import Path
from typing import Any

from tqdm import tqdm

from rankbound.bounds.score_distribution import score_distributions
from rankbound.bounds.tables import DistributionTables
from rankbound.errors import ConfigError, DataError
from rankbound_study.data.distribution_files import write_distributions
from rankbound_study.data.reader import list_sizes
from rankbound_study.options import read_options

OPTIONS: dict[str, Any] = {"method": "exact", "samples": 300_000, "seed": 0, "tilt": 1.0}


def distributions(metric: str, instances: list[Path], out: Path, options: str) -> None:
    """Read the list sizes, tabulate, write."""
    chosen, pairs = read_options(options, OPTIONS), list_sizes(instances)
    if not pairs:
        raise DataError(
            f"{', '.join(map(str, instances))}: no list has both relevant and irrelevant items, so there is nothing "
            "to tabulate; check the relevance threshold of these instances"
        )
    # disable=None: no bar unless standard error is a terminal.
    with tqdm(total=len(pairs), desc=metric, unit="table", disable=None) as bar:
        try:
            found = score_distributions(metric, pairs, done=bar.update, **chosen)
            tables = DistributionTables.collect(distribution.binned() for distribution in found)
        except ValueError as error:
            raise ConfigError(str(error)) from error
    write_distributions(tables, out)
