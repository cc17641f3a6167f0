"""Tables of features, whose cells are small programs that try a library: a verdict, and the observation behind it."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import table

PACKAGES = {
    "rankbound": "rankbound",
    "Rax": "rax",
    "allRank": "allrank",
    "pytorchltr": "pytorchltr",
    "sentence-transformers": "sentence_transformers",
    "LightGBM": "lightgbm",
    "XGBoost": "xgboost",
    "torchmetrics": "torchmetrics",
    "ranx": "ranx",
    "ir_measures": "ir_measures",
}
"""The libraries that are tried, and what each is imported as."""

SOURCE_ONLY = "TF-Ranking"
"""Not tried, since it needs a version of TensorFlow that does not install beside the others: cells from its source."""

YES, PARTLY, NO, NOT_TRIED, FAILS = "yes", "partly", "no", "not tried", "fails"


class Seen(NamedTuple):
    """The result of a cell: a verdict for the table, and the observation behind it."""

    verdict: str
    note: str


Probe = Callable[[], Seen]


@dataclass(frozen=True)
class Feature:
    """A row of a table.

    Attributes:
        words: a regular expression of the names that the feature would have. A library without a probe of its own lacks
            the feature if no public function or class has such a name.
        probes: the programs that try it, by library.
    """

    name: str
    meaning: str
    words: str
    probes: Mapping[str, Probe]


def holds(is_true: bool, note: str, otherwise: str = NO) -> Seen:
    """Return yes if the feature was observed, otherwise no."""
    return Seen(YES if is_true else otherwise, note)


def each(probe: Callable[[Any], Seen], cases: Mapping[str, Any]) -> dict[str, Probe]:
    """Return the same program for several libraries."""
    return {library: partial(probe, case) for library, case in cases.items()}


def from_source(verdict: str, note: str, file: str) -> Mapping[str, Probe]:
    """Return the cell of TF-Ranking as a file of its source has it, marked by an asterisk."""
    return {SOURCE_ONLY: lambda: Seen(f"{verdict}*", f"{note}: `{file}`")}


def try_cell(feature: Feature, library: str) -> Seen:
    """Try a feature in a library; one that is absent or fails is a result, too."""
    try:
        if library in feature.probes:
            if library in PACKAGES and find_spec(PACKAGES[library]) is None:
                return Seen(NOT_TRIED, f"{PACKAGES[library]} is not installed")
            return feature.probes[library]()
        return _search(PACKAGES[library], feature.words)
    except ModuleNotFoundError as error:
        return Seen(NOT_TRIED, f"{error.name} is not installed")
    except Exception as error:
        message = str(error).strip().splitlines() or [""]
        return Seen(FAILS, f"{type(error).__name__}: {message[0][:80]}")


def _search(package: str, words: str) -> Seen:
    """Search the public functions, methods and classes of a package for names of a feature."""
    spec = find_spec(package)
    if spec is None:
        return Seen(NOT_TRIED, f"{package} is not installed")
    pattern = re.compile(rf"^ *(?:def|class) ((?!_)\w*(?:{words})\w*)", re.MULTILINE | re.IGNORECASE)
    files = [path for folder in spec.submodule_search_locations or () for path in Path(folder).rglob("*.py")]
    names = {name for path in files if "test" not in path.name for name in pattern.findall(path.read_text("utf-8"))}
    if names:
        return Seen(NOT_TRIED, f"has {', '.join(sorted(names)[:3])}")
    return Seen(NO, "no such name")


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
    lines = [[row.name, *(cells[row.name, library].verdict for library in libraries)] for row in rows]
    parts = [f"## {heading}", table(["feature", *libraries], lines)]
    for row in rows:
        # Libraries that have the same stand together.
        alike: dict[Seen, list[str]] = {}
        for library in libraries:
            alike.setdefault(cells[row.name, library], []).append(library)
        seen = (f"- {', '.join(names)}: *{seen.verdict}* ({seen.note})" for seen, names in alike.items())
        parts += [f"### {row.name}", row.meaning, "\n".join(seen)]
    return "\n\n".join(parts)
