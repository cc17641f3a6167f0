"""Steps that are run on described files in a folder of their own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rankbound_study import cli
from rankbound_study.config.own_files import own_files
from rankbound_study.config.sections.description import DescriptionKeys

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("convert", ...)` in a folder of its own; gives what was printed, and checks the status."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def call(*arguments: str, status: int = 0) -> str:
        assert cli.main(arguments) == status, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.err if status else printed.out

    return call


def convert(run: Run, description: dict[str, Any], name: str = "mine", status: int = 0) -> str:
    files = own_files(DescriptionKeys.model_validate(description))
    described = ("--description", json.dumps(description))
    return run("convert", name, "--raw", *files, "--out", "data.parquet", *described, status=status)
