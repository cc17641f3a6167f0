"""The theorems of the sources, all checked at once: no result decides them, so a change of their code alone does.

The modules of theorems enter what proves or refutes each into `oracle.THEOREMS`. A study checks them in a step of its
own, whose file the claims are decided from.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rankbound.io.atomic import atomic_path
from rankbound_study.claims import other_theorems, thesis_theorems
from rankbound_study.claims.oracle import THEOREMS
from rankbound_study.claims.verdict import Ruling
from rankbound_study.results.study_files import reading

MODULES = (thesis_theorems, other_theorems)
"""The modules of theorems."""


def check() -> dict[str, Ruling]:
    """Return the ruling on each theorem, by its id."""
    return {claim: ruling() for claim, ruling in sorted(THEOREMS.items())}


def write(path: Path, rulings: Mapping[str, Ruling]) -> None:
    """Write rulings as JSON, without what is undefined."""
    # NaN is not itself.
    found = {
        claim: {name: value for name, value in vars(one).items() if value is not None and value == value}
        for claim, one in rulings.items()
    }
    with atomic_path(path) as temporary:
        # Numbers of NumPy become those of Python.
        text = json.dumps(found, default=np.generic.item, indent=1, ensure_ascii=False, allow_nan=False)
        temporary.write_text(f"{text}\n", "utf-8")


def read(path: Path) -> dict[str, Ruling]:
    """Read the rulings that `python -m rankbound_study theorems` wrote."""
    with reading(path):
        return {claim: Ruling(**fields) for claim, fields in json.loads(path.read_text("utf-8")).items()}
