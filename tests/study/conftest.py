"""Checks of every file that any of these tests has written, and fixtures of several of them."""

import shutil
from pathlib import Path

import pytest
from described_steps import run
from recorded_study import make_study

from tests.written_files import writers_keep_the_file_they_are_given

__all__ = ["run", "writers_keep_the_file_they_are_given"]

CODE = "rankbound_study.provenance.facts._digest"


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
