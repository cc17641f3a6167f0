"""Checks of every file that any of these tests has written, and fixtures of several of them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from described_steps import run
from recorded_study import make_study

from rankbound_study.cli import main
from tests.written_files import writers_keep_the_file_they_are_given

__all__ = ["run", "writers_keep_the_file_they_are_given"]

CODE = "rankbound_study.provenance.facts._digest"


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a step prints, or its message if it could not be done; its exit status has to be `status`."""

    def call(*arguments: object, status: int = 0) -> str:
        found = main(list(map(str, arguments)))
        printed = capsys.readouterr()
        assert found == status, printed.out + printed.err
        return printed.err if status == 2 else printed.out

    return call


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of five recorded steps; its code has a name, as someone may edit the package meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CODE, lambda sources: "1" * 64)
        return make_study(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def study(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the recorded study."""
    monkeypatch.setattr(CODE, lambda sources: "1" * 64)
    return Path(shutil.copytree(recorded, tmp_path / "study"))
