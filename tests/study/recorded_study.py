"""A study of five steps in a folder, run through the command line as the workflow does, each step recorded."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from rankbound_study.cli import main

STUDIES = yaml.safe_load((Path(__file__).parents[1] / "reference/studies.yaml").read_text("utf-8"))
CONFIG: dict[str, Any] = STUDIES["recorded"]
JOB: dict[str, Any] = STUDIES["job"]
"""The training that the configuration requests."""

LISTS, FOLDS = "data/lists/synthetic-mq2008.parquet", "data/folds/synthetic-mq2008.parquet"
INSTANCES = "data/instances/synthetic-mq2008-label1.parquet"
RUN = "runs/published/synthetic-mq2008-label1/mlp/nDCG/none"
STEPS = (
    ("generate", "synthetic-mq2008", "--seed", "0", "--size", "12", "--out", LISTS),
    ("split", "synthetic-mq2008", "--in", LISTS, "--out", FOLDS),
    ("sample", "synthetic-mq2008", "--in", LISTS, "--folds", FOLDS, "--out", INSTANCES, "--options", '{"threshold":1}'),
    ("table", "table_2_2", "--out-dir", "results/tables"),
)
MANIFEST = ("provenance", "--results", "results", "--out", "results/provenance.json", "--options", json.dumps(CONFIG))


def job(out: str = f"results/{RUN}.parquet", **options: Any) -> tuple[str, ...]:
    """The training step; it reads instances and lists."""
    text = json.dumps(JOB | options)
    return ("job", "--instances", INSTANCES, "--lists", LISTS, "--out", out, "--options", text, "--device", "cpu")


def make_study(folder: Path) -> Path:
    """Run all steps in `folder`; returns it."""
    with recording(folder):
        for step in (*STEPS, job(), MANIFEST):
            assert main(step) == 0, step
    return folder


@contextmanager
def recording(folder: Path, records: str = "results/provenance") -> Iterator[None]:
    """Work in `folder`, with a folder for records as the workflow names it ("": none)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RANKBOUND_PROVENANCE", records)
        yield


def read(path: Path) -> dict[str, Any]:
    """A JSON file."""
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


def files(folder: Path) -> list[Path]:
    """All files below a folder, sorted."""
    return sorted(Path(where, name) for where, _, names in os.walk(folder) for name in names)


def edit(path: Path, alter: Callable[[dict[str, Any]], object]) -> None:
    """Edit a JSON file, as whoever sends a folder may."""
    content = read(path)
    alter(content)
    path.write_text(json.dumps(content), "utf-8")
