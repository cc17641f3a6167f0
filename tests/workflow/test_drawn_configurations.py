"""A configuration that passes the check can be run: small studies drawn at random, run whole.

`make test-faults` runs three. RANKBOUND_DRAWS=20 draws more of them, ten to twenty seconds each.
"""

import os
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest
from project import ROOT, Project

from rankbound.errors import ConfigError
from rankbound_study.config.check import check_config, merged
from rankbound_study.figures import figure_specs
from rankbound_study.report.tables import table_names

DRAWS = int(os.environ.get("RANKBOUND_DRAWS", "3"))
DEMO = merged([ROOT / "profiles/demo/study.yaml"])
PLACES = {"data": "data", "results": "results", "logs": "logs"}
BOUNDINGS = ["none", "min-max", "expectation", "expectation-max", "distribution", "distribution(tilt=2)"]


def drawn(random: Random) -> dict[str, Any]:
    """The demonstration with small data, and a few of its axes, methods, figures and tables."""

    def some(of: Iterable[Any], most: int, least: int = 0) -> list[Any]:
        every = list(of)
        return random.sample(every, random.randint(least, min(most, len(every))))

    config: dict[str, Any] = {**deepcopy(DEMO), "study": "drawn", "pathvars": PLACES}
    config["protocols"] = some(["published", "honest"], 2, 1)
    config["datasets"] = some(["synthetic-movielens", "synthetic-mq2008"], 2, 1)
    config["losses"] = some(["nDCG", "AP", "nRBP"], 1, 1)
    config["boundings"] = some(BOUNDINGS, 2, 1)
    config["folds"] = some([1, 2, 3], 2, 1)
    config["seeds"] = {protocol: some(range(3), 1, 1) for protocol in ("published", "honest")}
    config["controls"] = some(["random", "popularity", "oracle"], 3)
    config["temperature"] = random.choice([0.1, 1.0, 5.0])
    config["interactions"]["synthetic-movielens"] |= {
        "size": random.randint(8, 15),
        "nsr": some([1, 2], 2, 1),
        "validation_share": random.choice([0.05, 0.1, 0.5]),
    }
    config["lists"]["synthetic-mq2008"] |= {
        "size": random.randint(8, 40),
        "thresholds": [1, *some([2, "graded"], 1)],
    }
    config["images"]["synthetic-aaf"] |= {"size": 60, "pairs": {"train": 30, "validation": 15, "test": 20}}
    for training in config["training"].values():
        training["epochs"] = random.randint(1, 3)
        training["batch_size"] = random.choice([1, 7, 1000])
    for comparison in config["comparisons"].values():
        kept = some(comparison["methods"], 2, 1)
        comparison["methods"] = {name: comparison["methods"][name] for name in kept}
    config["compare"] = some(config["comparisons"], 1)
    config["experiment"] = some(config["experiments"], 1)
    config["figures"] = some(config["figures"], 3)
    config["tables"] = ["table_5_1", *some([name for name in config["tables"] if name != "table_5_1"], 3)]
    return config


def valid(random: Random) -> dict[str, Any]:
    """The first drawn configuration that the check accepts."""
    while True:
        config = drawn(random)
        try:
            check_config(deepcopy(config), figures=figure_specs(), tables=table_names())
        except ConfigError:
            continue
        return config


@pytest.mark.long
@pytest.mark.parametrize("seed", range(DRAWS))
def test_what_passes_the_check_runs_whole(seed: int, tmp_path: Path) -> None:
    project = Project.create(tmp_path, valid(Random(seed)))
    output = project.snakemake("--quiet", "rules", "host")
    assert "Traceback" not in output
    assert project.path("results/paper/index.html").is_file()
    assert "nothing differs" in project.run("rankbound_study", "verify", "--strict")
