"""Try features in each library: `python -m benchmarks.features` prints the tables as Markdown.

`features.yaml` has the rows, `features_probes` the programs that try them: a verdict, and the observation behind it.
"""

import argparse
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import torch
import yaml

from benchmarks.features_probes import EVALUATORS, NO, PROBES, Probe, Seen
from benchmarks.measure import ROOT, table, versions

PAGE = ROOT / "docs" / "features.md"
BEGIN, END = "<!-- Written by python -m benchmarks.features --write-docs -->", "<!-- End of what is written -->"

LIBRARIES = ("rankbound", "Rax", "allRank", "pytorchltr", "sentence-transformers", "LightGBM", "XGBoost")
PACKAGES = {name: name.lower().replace("-", "_") for name in (*LIBRARIES, "torchmetrics", "ranx", "ir_measures")}
"""The libraries that are tried, and what each is imported as."""

SOURCE_ONLY = "TF-Ranking"
"""Not tried, since it needs a version of TensorFlow that does not install beside the others: cells from its source."""

NOT_TRIED, FAILS = "not tried", "fails"
DISTRIBUTIONS = (
    *("rankbound", "torch", "rax", "jax", "allRank", "pytorchltr", "sentence-transformers", "lightgbm", "xgboost"),
    *("xgboost-cpu", "torchmetrics", "ranx", "ir-measures"),
)


@dataclass(frozen=True)
class Feature:
    """A row of a table.

    Attributes:
        words: a regular expression of the names that the feature would have. A library without a probe of its own lacks
            the feature if no public function or class has such a name.
        probes: the programs that try it, by library.
        source: verdict, remark and file of the library whose source was read.
    """

    name: str
    meaning: str
    words: str = ""
    probes: Mapping[str, Probe] = field(default_factory=dict)
    source: Sequence[str] = ()


_ROWS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
TABLES = {
    heading: (
        [
            Feature(name, row["meaning"], row.get("words", ""), PROBES[name], row[SOURCE_ONLY])
            for name, row in rows.items()
        ],
        (*libraries, SOURCE_ONLY),
    )
    for (heading, rows), libraries in zip(_ROWS.items(), (LIBRARIES, EVALUATORS), strict=True)
}
"""Heading -> the rows, and the columns."""


def main(arguments: list[str] | None = None) -> int:
    """Print the tables, and write them into the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.features", description=__doc__)
    parser.add_argument("--write-docs", action="store_true", help=f"also write them into docs/{PAGE.name}")
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    parts = [f"Tried with Python {sys.version.split()[0]}, {versions(DISTRIBUTIONS)}."]
    parts += [render(heading, *rows_and_columns) for heading, rows_and_columns in TABLES.items()]
    text = "\n\n".join(parts)
    if chosen.write_docs:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(text)
    return 0


def render(heading: str, rows: Sequence[Feature], libraries: Sequence[str]) -> str:
    """Try every feature in every library; return a table, and below it what each row means and what was seen."""
    lines, details = [], []
    for row in rows:
        print(f"features: {row.name}", file=sys.stderr)
        cells = {library: try_cell(row, library) for library in libraries}
        lines.append([row.name, *(seen.verdict for seen in cells.values())])
        # Libraries that have the same stand together.
        alike: dict[Seen, list[str]] = {}
        for library, seen in cells.items():
            alike.setdefault(seen, []).append(library)
        observed = (f"- {', '.join(names)}: *{seen.verdict}* ({seen.note})" for seen, names in alike.items())
        details += [f"### {row.name}", row.meaning, "\n".join(observed)]
    return "\n\n".join([f"## {heading}", table(["feature", *libraries], lines), *details])


def try_cell(feature: Feature, library: str) -> Seen:
    """Try a feature in a library; one that is absent or fails is a result, too."""
    if library == SOURCE_ONLY:
        verdict, note, file = feature.source
        return Seen(f"{verdict}*", f"{note}: `{file}`")
    package = PACKAGES[library]
    spec = find_spec(package)
    if spec is None:
        return Seen(NOT_TRIED, f"{package} is not installed")
    try:
        if library in feature.probes:
            return feature.probes[library]()
    except ModuleNotFoundError as error:
        return Seen(NOT_TRIED, f"{error.name} is not installed")
    except Exception as error:
        message = str(error).strip().splitlines() or [""]
        return Seen(FAILS, f"{type(error).__name__}: {message[0][:80]}")
    pattern = re.compile(rf"^ *(?:def|class) ((?!_)\w*(?:{feature.words})\w*)", re.MULTILINE | re.IGNORECASE)
    files = [path for folder in spec.submodule_search_locations or () for path in Path(folder).rglob("*.py")]
    names = {name for path in files if "test" not in path.name for name in pattern.findall(path.read_text("utf-8"))}
    return Seen(NOT_TRIED, f"has {', '.join(sorted(names)[:3])}") if names else Seen(NO, "no such name")


if __name__ == "__main__":
    os.environ |= {"JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1"}
    sys.exit(main())
