"""What a cell of the table of features is: a small program that tries a library, and what it saw."""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import MagicMock

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


def allrank(module: str) -> ModuleType:
    """Import a module of allRank, with stand-ins for what it loads files by, which no probe does."""
    names = ("attr", "gcsfs", "pkg_resources", "torchvision", "torchvision.transforms")
    # Its configuration is made of `attr`, where that is installed.
    stand_ins = {name: MagicMock() for name in names if name != "attr" or find_spec(name) is None}
    before = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    try:
        return import_module(f"allrank.{module}")
    finally:
        for name, loaded in before.items():
            sys.modules.pop(name)
            sys.modules.update({name: loaded} if loaded else {})


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
