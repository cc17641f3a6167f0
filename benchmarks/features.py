"""Try features in each library: `python -m benchmarks.features` prints the tables as Markdown.

`features.yaml` has the tables, whose cells are expressions of the programs in `features_probes`. A cell becomes a
verdict, and the observation behind it.
"""

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks import asked, features_probes
from benchmarks.features_probes import NO, Seen, holds
from benchmarks.page import table, write_between
from benchmarks.runner import ROOT, versions

COMMAND, PAGE = "benchmarks.features", ROOT / "docs" / "features.md"

SOURCE_ONLY = ("RankLib", "TF-Ranking")
"""Not tried: Java, and a version of TensorFlow that does not install beside the others. Sources are read instead."""
OTHER_PYTHON = {"RecBole": ROOT / ".venv-names" / "bin" / "python"}
"""The interpreter that has a library which requires other versions than its peers do."""

NOT_TRIED, FAILS = "not tried", "fails"
DISTRIBUTIONS = """rankbound torch rax jax allRank pytorchltr sentence-transformers lightgbm xgboost xgboost-cpu
implicit choix torchmetrics ranx ir-measures"""

TABLES: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
"""Heading -> the columns, and the rows by name."""


def main(arguments: list[str] | None = None) -> int:
    """Print the tables, and write them into the page if asked to."""
    chosen = asked(COMMAND, __doc__, arguments)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    if chosen.library:
        own = [table["rows"] for table in TABLES.values() if chosen.library in table["columns"]]
        cells = {name: try_cell(name, row, chosen.library) for rows in own for name, row in rows.items()}
        print("\n" + json.dumps({"versions": versions([chosen.library]), "cells": cells}))
        return 0
    others = [elsewhere(library)["versions"] for library, python in OTHER_PYTHON.items() if python.exists()]
    tried = ", ".join([versions(DISTRIBUTIONS.split()), *others])
    parts = [f"Tried with Python {sys.version.split()[0]}, {tried}."]
    parts += [render(heading, **rows_and_columns) for heading, rows_and_columns in TABLES.items()]
    text = "\n\n".join(parts)
    if chosen.write_docs:
        write_between(PAGE, COMMAND, text)
    print(text)
    return 0


def render(heading: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Try every feature in every library; return a table, and below it what each row means and what was seen."""
    lines, details = [], []
    for name, row in rows.items():
        print(f"features: {name}", file=sys.stderr)
        cells = {library: try_cell(name, row, library) for library in columns}
        lines.append([name, *(seen.verdict for seen in cells.values())])
        # Libraries that have the same stand together.
        alike: dict[Seen, list[str]] = {}
        for library, seen in cells.items():
            alike.setdefault(seen, []).append(library)
        observed = (f"- {', '.join(names)}: *{seen.verdict}* ({seen.note})" for seen, names in alike.items())
        details += [f"### {name}", row["meaning"], "\n".join(observed)]
    return "\n\n".join([f"## {heading}", table(["feature", *columns], lines), *details])


def try_cell(name: str, row: Mapping[str, Any], library: str) -> Seen:
    """Try a feature in a library; one that is absent or fails is a result, too."""
    cell, spec = row["cells"].get(library, row.get("each")), find_spec(library.lower().replace("-", "_"))
    if library in SOURCE_ONLY:
        return Seen(f"{cell[0]}*", f"{cell[1]}: `{cell[2]}`")
    try:
        if spec is None:
            return Seen(*elsewhere(library)["cells"][name])
        if cell is not None:
            *seen, expression = [cell] if isinstance(cell, str) else cell
            result = eval(expression, {**vars(features_probes), "library": library})
            return holds(result, seen[1], seen[0]) if seen else result
    except ModuleNotFoundError as error:
        return Seen(NOT_TRIED, f"{error.name} is not installed")
    except Exception as error:
        message = str(error).strip().splitlines() or [""]
        return Seen(FAILS, f"{type(error).__name__}: {message[0][:80]}")
    pattern = re.compile(rf"^ *(?:def|class) ((?!_)\w*(?:{row['words']})\w*)", re.MULTILINE | re.IGNORECASE)
    files = [path for folder in spec.submodule_search_locations or () for path in Path(folder).rglob("*.py")]
    names = {found for path in files if "test" not in path.name for found in pattern.findall(path.read_text("utf-8"))}
    return Seen(NOT_TRIED, f"has {', '.join(sorted(names)[:3])}") if names else Seen(NO, "no such name")


@cache
def elsewhere(library: str) -> Mapping[str, Any]:
    """Return the cells of a library by feature, and its version, as the interpreter that has it prints them."""
    python = OTHER_PYTHON.get(library)
    if python is None or not python.exists() or python == Path(sys.executable):
        raise ModuleNotFoundError(name=library)
    command = [python, "-m", COMMAND, "--library", library]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    os.environ |= {"JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg"}
    sys.exit(main())
