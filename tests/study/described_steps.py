"""Steps that are run on described files in a folder of their own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankbound_study import cli
from rankbound_study.config.sections.description import DescriptionKeys, own_files
from rankbound_study.data.reader import FoldedLists, read_instances

Run = Callable[..., str]

SPLITS = ("train", "validation", "test")
DRAWING = {"nsr": 2, "validation_share": 0.25, "min_relevant": 5, "threshold": 4, "seed": 0}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("convert", ...)` in a folder of its own; gives what was printed, and checks the status."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("RANKBOUND_MIRROR", raising=False)

    def call(*arguments: str, status: int = 0, **options: Any) -> str:
        words = [*arguments, *(("--options", json.dumps(options)) if options else ())]
        assert cli.main(words) == status, capsys.readouterr().err
        printed = capsys.readouterr()
        assert status or not printed.err, "without a terminal there is no progress bar"
        return printed.err if status else printed.out

    return call


def convert(run: Run, description: dict[str, Any], name: str = "mine", status: int = 0) -> str:
    files = own_files(DescriptionKeys.model_validate(description))
    described = ("--description", json.dumps(description))
    return run("convert", name, "--raw", *files, "--out", "data.parquet", *described, status=status)


def split(run: Run, description: dict[str, Any], name: str = "mine", status: int = 0, **changed: Any) -> str:
    """Split the converted file as the workflow does; `changed` are other options."""
    options = DescriptionKeys.model_validate(description).splitting
    if description["format"] == "ratings":
        keys = ("threshold", "min_relevant", "seed", *(("validation_share",) if "by_time" in options else ()))
        options = {key: DRAWING[key] for key in keys} | options
    return run("split", name, "--in", "data.parquet", "--out", "folds.parquet", status=status, **options | changed)


def sample(run: Run, name: str = "mine", status: int = 0, **options: Any) -> str:
    files = ("--in", "data.parquet", "--folds", "folds.parquet", "--out", "instances.parquet")
    return run("sample", name, *files, status=status, **options)


def instances(run: Run, description: dict[str, Any], name: str = "mine", **changed: Any) -> FoldedLists:
    """What the workflow's steps make of files by their description; `changed` are other options of drawing."""
    convert(run, description, name)
    split(run, description, name, **{key: value for key, value in changed.items() if key != "nsr"})
    sample(run, name, **({**DRAWING, **changed} if description["format"] == "ratings" else {"threshold": 1}))
    return read_instances("instances.parquet")


def topics(made: FoldedLists, fold: int, part: str) -> list[str]:
    return [made.topics[topic] for topic in made.split(fold, part).topics]


def pairs(made: FoldedLists, fold: int, part: str, relevance: int = 1) -> set[tuple[str, str]]:
    """The pairs of a split with that relevance, by their names."""
    assert made.item_names is not None
    one = made.split(fold, part)
    chosen = np.flatnonzero(one.relevance == relevance)
    rows = zip(one.owners[chosen].tolist(), one.items[chosen].tolist(), strict=True)
    return {(made.topics[user], made.item_names[item]) for user, item in rows}
