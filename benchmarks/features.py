"""Try features in each library: `python -m benchmarks.features` prints the tables as Markdown."""

import argparse
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from benchmarks import features_losses, features_metrics
from benchmarks.features_cells import SOURCE_ONLY, Feature, Seen, try_cell

PAGE = Path(__file__).resolve().parents[1] / "docs" / "features.md"
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


def try_table(rows: Sequence[Feature], libraries: Sequence[str]) -> dict[tuple[str, str], Seen]:
    """Try every feature in every library; return what was seen by (feature, library)."""
    cells = {}
    for row in rows:
        print(f"features: {row.name}", file=sys.stderr)
        cells |= {(row.name, library): try_cell(row, library) for library in libraries}
    return cells


def render(
    heading: str, rows: Sequence[Feature], libraries: Sequence[str], cells: Mapping[tuple[str, str], Seen]
) -> str:
    """Return a table of verdicts, and below it what each row means and what was seen."""
    lines = [["feature", *libraries], ["---"] * (len(libraries) + 1)]
    lines += [[row.name, *(cells[row.name, library].verdict for library in libraries)] for row in rows]
    parts = [f"## {heading}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    for row in rows:
        seen = _observations({library: cells[row.name, library] for library in libraries})
        parts += [f"### {row.name}", row.meaning, seen]
    return "\n\n".join(parts)


def _observations(cells: Mapping[str, Seen]) -> str:
    """Return a list of what was seen, with those libraries together that have the same."""
    alike: dict[Seen, list[str]] = {}
    for library, seen in cells.items():
        alike.setdefault(seen, []).append(library)
    return "\n".join(f"- {', '.join(names)}: *{seen.verdict}* ({seen.note})" for seen, names in alike.items())


def versions() -> str:
    """Return the versions of the libraries that are installed."""
    found = []
    for name in DISTRIBUTIONS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return f"Tried with Python {sys.version.split()[0]}, {', '.join(found)}."


def main(arguments: list[str] | None = None) -> int:
    """Print the tables, and write them into the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.features", description=__doc__)
    parser.add_argument("--write-docs", action="store_true", help=f"also write them into docs/{PAGE.name}")
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    parts = [versions()]
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
