"""One finished run of the whole workflow on generated data, for all tests that look at it."""

import sys
from pathlib import Path

import pytest
from filelock import FileLock
from project import GENERATED, Project

sys.path.append(str(Path(__file__).parents[1] / "faults"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Project:
    """A project whose every target is made.

    It is made once, by the test process that comes first; every module of tests gets a copy that it may change.
    """
    shared = tmp_path_factory.getbasetemp()
    shared = shared if worker_id == "master" else shared.parent
    folder = shared / "finished"
    with FileLock(shared / "finished.lock"):
        if not folder.exists():
            project = Project.create(tmp_path_factory.mktemp("making"), GENERATED)
            project.snakemake()
            project.folder.rename(folder)
    return Project(folder).copy(tmp_path_factory.mktemp("copy") / "project")
