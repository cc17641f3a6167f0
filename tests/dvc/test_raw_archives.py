"""Raw archives that are packed differently from the recorded ones: accepted where the data were made from them."""

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.dvc.conftest import recording
from tests.raw_files import pack
from tests.workflow.project import STUDIES, Project

ARCHIVE = "ml-latest-small.zip"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, environment: None) -> Project:
    """A study of a real archive, recorded."""
    if not Path(os.environ.get("RANKBOUND_MIRROR", ""), ARCHIVE).is_file():
        pytest.skip(f"no {ARCHIVE} here: RANKBOUND_MIRROR names the folder that holds it")
    return recording(tmp_path_factory.mktemp("ratings") / "origin", STUDIES["ratings"])


def test_an_archive_nobody_made_the_data_from_is_refused(recorded: Project, tmp_path: Path) -> None:
    clone = recorded.copy(tmp_path / "clone")
    _pack_again(clone.path(f"data/raw/{ARCHIVE}"))
    message = clone.run("rankbound_study", "settle", status=2)
    assert "data/raw is modified" in message
    assert f"data/raw/{ARCHIVE} is modified" in message
    assert "accepted only if snakemake made data/ from it" in message
    assert "convert" in clone.waiting()


def test_an_archive_that_the_data_were_made_from_is_accepted(recorded: Project, tmp_path: Path) -> None:
    clone = recorded.copy(tmp_path / "clone")
    _pack_again(clone.path(f"data/raw/{ARCHIVE}"))
    for name in ("interactions", "folds", "instances"):
        shutil.rmtree(clone.path(f"data/{name}"))
    clone.snakemake("data")
    for file in clone.path("results").rglob("*.parquet"):
        file.touch()
    assert clone.run("rankbound_study", "settle").startswith("settled")
    assert clone.waiting() == {}

    # Without Snakemake's records nobody knows any more what the data were made from.
    shutil.rmtree(clone.path(".snakemake/metadata"))
    assert "data/raw is modified" in clone.run("rankbound_study", "settle", status=2)


def _pack_again(path: Path) -> None:
    """The same files without compression."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    path.unlink()
    pack(path, content, zipfile.ZIP_STORED)
