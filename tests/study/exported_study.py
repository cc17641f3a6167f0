"""A small study of generated data, made by the command line as the workflow does: what the step `export` reads."""

import json
from pathlib import Path
from typing import Any

from rankbound_study.cli import main

QUERIES, USERS = "synthetic-mq2008", "synthetic-movielens"
FOLDS = [1, 2, 3, 4, 5]
FEW_RELEVANT = {"min_relevant": 5}

TRAINING: dict[str, Any] = {
    "study": "thesis",
    "variant": "",
    "protocol": "published",
    "folds": FOLDS,
    "seeds": [0],
    "optimiser": "adam",
    "learning_rate": 0.01,
    "epochs": 1,
    "batch_size": 8,
    "temperature": 1.0,
}
OF_QUERIES = {**TRAINING, "dataset": f"{QUERIES}-label1", "nsr": None, "model": {"name": "mlp", "hidden": [2]}}
OF_USERS = {**TRAINING, "dataset": USERS, "nsr": 1, "model": {"name": "matrix-factorization", "factors": 2}}
METHOD: dict[str, Any] = {
    "study": "neural",
    "protocol": "honest",
    "dataset": f"{QUERIES}-graded",
    "nsr": None,
    "method": "Class-LR",
    "family": "class",
    "model": {"name": "linear"},
    "loss": "logistic",
    "bounding": "none",
    "target": "relevance",
    "settings": {
        "optimiser": "adam",
        "learning_rate": 0.01,
        "epochs": 1,
        "batch_size": 8,
        "batches": "items",
        "scale": "standard",
    },
    "judged_by": "nDCG@10",
    "folds": FOLDS,
    "seeds": [0],
}
# Experiments: tested on other lists than their data set's, in some folds alone.
AT_ANOTHER_RATIO = {"variant": "ratios-at1", "protocol": "honest", "nsr": 2, "test_nsr": 1, "folds": [1, 2]}
ONE_RELEVANT = {"variant": "one", "protocol": "honest", "nsr": 1, "test_relevant": 1, "folds": [2]}

BOTH_SEEDS = "runs/published/synthetic-mq2008-label1/mlp/nDCG/none"


def make_study(folder: Path) -> Path:
    """Data and results in `folder`, which must be the working folder; returns it."""
    make_data(seed=0)
    job(BOTH_SEEDS, {**OF_QUERIES, "loss": "nDCG", "bounding": "none", "seeds": [0, 1]})
    job("runs/published/synthetic-mq2008-label1/mlp/AP/min-max", {**OF_QUERIES, "loss": "AP", "bounding": "min-max"})
    job("runs/honest/synthetic-mq2008-graded/Class-LR/logistic/none", METHOD)
    users = {**OF_USERS, "loss": "WARP(alpha=constant)@1", "bounding": "none", "judged_by": "AP"}
    job("runs/published/synthetic-movielens-nsr1/matrix-factorization/WARP(alpha=constant)@1/none", users)
    ratio = "--test-instances", instances(f"{USERS}-nsr1")
    job("runs/honest@ratios-at1/synthetic-movielens-nsr2/x/y/none", {**users, **AT_ANOTHER_RATIO}, *ratio)
    job("runs/honest@one/synthetic-movielens-nsr1/x/y/none", {**users, **ONE_RELEVANT})
    given = {"study": "thesis", "protocol": "published", "dataset": USERS, "nsr": 1, "folds": FOLDS}
    controls = "results/runs/published/synthetic-movielens-nsr1/controls.parquet"
    options = json.dumps({**given, "controls": ["random", "oracle"]})
    step("controls", "--instances", instances(f"{USERS}-nsr1"), "--out", controls, "--options", options)
    every = [path for path in Path("results/runs").rglob("*.parquet") if path.name.count(".") == 1]
    out = (
        "--out",
        "results/runs.parquet",
        "--epochs-out",
        "results/epochs.parquet",
        "--rates-out",
        "results/rates.parquet",
    )
    step("collect", "--runs", *map(str, every), *out)
    return folder


def job(out: str, options: dict[str, Any], *more: str) -> None:
    """A training; of queries it reads their features."""
    nsr = options["nsr"]
    data = instances(options["dataset"] if nsr is None else f"{USERS}-nsr{nsr}")
    lists = ("--lists", f"data/lists/{QUERIES}.parquet") if nsr is None else ()
    given = ("--instances", data, *lists, "--out", f"results/{out}.parquet", "--options", json.dumps(options))
    step("job", *given, "--device", "cpu", *more)


def instances(name: str) -> str:
    """Return their paths."""
    return f"data/instances/{name}.parquet"


def make_data(seed: int) -> None:
    """Lists of queries, read in two ways, and ratings of users, sampled at two ratios."""
    for name, kind, options in ((QUERIES, "lists", {}), (USERS, "interactions", FEW_RELEVANT)):
        data, folds = f"data/{kind}/{name}.parquet", f"data/folds/{name}.parquet"
        step("generate", name, "--size", "12", "--seed", str(seed), "--out", data)
        step("split", name, "--in", data, "--out", folds, "--options", json.dumps(options))
        made: dict[str, dict[str, Any]] = (
            {"label1": {"threshold": 1}, "graded": {"graded": True}}
            if name == QUERIES
            else {f"nsr{nsr}": {"nsr": nsr, **options} for nsr in (1, 2)}
        )
        for ending, how in made.items():
            out = instances(f"{name}-{ending}")
            step("sample", name, "--in", data, "--folds", folds, "--out", out, "--options", json.dumps(how))


def step(*arguments: str) -> None:
    """Run a step, which must go well."""
    assert main(arguments) == 0, arguments
