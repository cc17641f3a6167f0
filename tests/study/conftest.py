"""Checks of every file that any of these tests has written, and fixtures of several of them."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from described_steps import run
from recorded_study import make_study

from rankbound_study.cli import main
from rankbound_study.config.sections.base import SOURCES
from rankbound_study.provenance import records
from rankbound_study.provenance.checksums import Checksum
from tests.written_files import writers_keep_the_file_they_are_given

__all__ = ["run", "writers_keep_the_file_they_are_given"]


@pytest.fixture(scope="session", autouse=True)
def one_loaded_file() -> Iterator[None]:
    """Every recorded step says that it loaded one file, since someone may edit the package while its tests run."""
    name = "rankbound/_version.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "loaded_files", lambda: {name: Checksum.of(SOURCES / name).sha256})
        yield


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
def theorems_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the step on theorems writes: a table of claims that is given it need not check them again."""
    path = tmp_path_factory.mktemp("theorems") / "theorems.json"
    assert main(["theorems", "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of five recorded steps."""
    return make_study(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def study(recorded: Path, tmp_path: Path) -> Path:
    """A copy of the recorded study."""
    return Path(shutil.copytree(recorded, tmp_path / "study"))
