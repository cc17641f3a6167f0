"""Try features in each library: `python -m benchmarks.features` prints the tables as Markdown."""

import argparse
import os
import sys
import warnings
from collections.abc import Mapping, Sequence

import torch

from benchmarks import features_losses, features_metrics
from benchmarks.features_cells import SOURCE_ONLY, Feature, render, try_table
from benchmarks.measure import ROOT, versions

PAGE = ROOT / "docs" / "features.md"
BEGIN, END = "<!-- Written by python -m benchmarks.features --write-docs -->", "<!-- End of what is written -->"

TABLES: Mapping[str, tuple[Sequence[Feature], Sequence[str]]] = {
    "Losses and training": (
        features_losses.FEATURES,
        ("rankbound", "Rax", "allRank", "pytorchltr", "sentence-transformers", "LightGBM", "XGBoost", SOURCE_ONLY),
    ),
    "Metrics and evaluation": (features_metrics.FEATURES, (*features_metrics.EVALUATORS, SOURCE_ONLY)),
}
"""Heading -> the rows, and the columns."""

DISTRIBUTIONS = (
    *("rankbound", "torch", "rax", "jax", "allRank", "pytorchltr", "sentence-transformers", "lightgbm", "xgboost"),
    *("xgboost-cpu", "torchmetrics", "ranx", "ir-measures"),
)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables, and write them into the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.features", description=__doc__)
    parser.add_argument("--write-docs", action="store_true", help=f"also write them into docs/{PAGE.name}")
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    parts = [f"Tried with Python {sys.version.split()[0]}, {versions(DISTRIBUTIONS)}."]
    for heading, (rows, libraries) in TABLES.items():
        parts.append(render(heading, rows, libraries, try_table(rows, libraries)))
    text = "\n\n".join(parts)
    if chosen.write_docs:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    os.environ |= {"JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1"}
    sys.exit(main())
