"""One project that `dvc repro` made from nothing and pushed, for all tests that clone it."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.local_s3 import KEYS, serving
from tests.workflow.project import STUDIES, Project

BUCKET = "shared"
STUDY: dict[str, Any] = STUDIES["pictures"]
IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "tester"), ("EMAIL", "tester@example.org"))
}


def git(folder: Path, *arguments: str) -> str:
    result = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return result.stdout


def recording(folder: Path, config: dict[str, Any]) -> Project:
    """Return a git repository in which `dvc repro` has made everything, committed; a busy machine may take its time."""
    project = Project.create(folder, config)
    project.version_what_is_made()
    git(folder, "init", "-q")
    made = subprocess.run(**project.command("dvc", "repro"), capture_output=True, text=True, check=False, timeout=3600)
    assert made.returncode == 0, (made.stdout + made.stderr)[-6000:]
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "recorded")
    return project


@pytest.fixture(scope="session", autouse=True)
def environment() -> Iterator[None]:
    """Git's identity and the keys, for everything that these tests start."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**KEYS, **IDENTITY}.items():
            patch.setenv(name, value)
        patch.delenv("AWS_PROFILE", raising=False)
        yield


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that speaks S3, on this machine, with an empty bucket."""
    for module in ("moto", "dvc_s3"):
        pytest.importorskip(module, reason="the S3 tests need `pip install dvc-s3 'moto[server]'`")
    with serving(tmp_path_factory.mktemp("s3") / "log") as address:
        yield address


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory, worker_id: str, environment: None) -> Project:
    """A git repository in which `dvc repro` has made everything, committed and pushed to folders beside it."""
    shared = tmp_path_factory.getbasetemp()
    studies = (shared if worker_id == "master" else shared.parent) / "study"
    studies.mkdir(exist_ok=True)
    with made_once(studies / "origin") as missing:
        if missing:
            recording(studies / "origin", STUDY).run("dvc", "push", "-q")
    return Project(studies / "origin")


@pytest.fixture(scope="session")
def pulled(origin: Project) -> Project:
    """A clone beside the origin with everything pulled, and settled; tests take copies of it."""
    clone = Project(origin.folder.with_name("pulled"))
    with made_once(clone.folder) as missing:
        if missing:
            clone_of(origin, "pulled")
            clone.run("dvc", "pull", "-q")
            clone.run("rankbound_study", "settle")
    return clone


@contextmanager
def made_once(folder: Path) -> Iterator[bool]:
    """Yield whether a folder is missing, while other test processes wait; what an error left of it is removed."""
    made = folder.with_suffix(".made")
    with FileLock(folder.with_suffix(".lock")):
        missing = not made.exists()
        if missing:
            shutil.rmtree(folder, ignore_errors=True)
        yield missing
        made.touch()


def clone_of(origin: Project, name: str) -> Project:
    """A clone beside the origin: the folders of its remotes are the same."""
    git(origin.folder.parent, "clone", "-q", origin.folder.name, name)
    return Project(origin.folder.parent / name)
