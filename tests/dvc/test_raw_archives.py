"""Raw archives that are packed differently from the recorded ones: accepted where the data were made from them."""

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.dvc.conftest import git, repro
from tests.workflow.project import GENERATED, Project

ARCHIVE = "ml-latest-small.zip"
RATINGS: dict[str, Any] = {
    **GENERATED,
    "datasets": ["movielens"],
    "boundings": ["none"],
    "losses": ["nDCG"],
    "folds": [1],
    "controls": ["random"],
    "interactions": {
        "movielens": {
            "archive": ARCHIVE,
            "threshold": 4,
            "min_relevant": 400,
            "nsr": [1],
            "validation_share": 0.1,
            "seed": 0,
        }
    },
    "lists": {},
    "training": {
        "movielens": {
            "model": {"name": "matrix-factorization", "factors": 2},
            "learning_rate": {"published": 0.01},
            "epochs": 1,
            "batch_size": 32,
        }
    },
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, environment: None) -> Project:
    """A study of a real archive, recorded."""
    if not Path(os.environ.get("RANKBOUND_MIRROR", ""), ARCHIVE).is_file():
        pytest.skip(f"no {ARCHIVE} here: RANKBOUND_MIRROR names the folder that holds it")
    project = Project.create(tmp_path_factory.mktemp("ratings") / "origin", RATINGS)
    project.version_what_is_made()
    git(project.folder, "init", "-q")
    repro(project)
    git(project.folder, "add", "-A")
    git(project.folder, "commit", "-q", "-m", "recorded")
    return project


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
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
