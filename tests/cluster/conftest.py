"""A scheduler for each test, on machines that can have one."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "workflow"))

from cluster_study import small
from project import Project
from scheduler import Scheduler, missing

REQUIRED = "RANKBOUND_CLUSTER"
"""Set, a machine that cannot have a scheduler fails these tests instead of skipping them."""


@pytest.fixture
def start() -> Iterator[Callable[..., Scheduler]]:
    """A function that starts a scheduler, which ends with the test."""
    reason = missing()
    if reason and os.environ.get(REQUIRED):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    with ExitStack() as stack:
        # Sockets lie in it: the folder that pytest gives has too long a name.
        yield lambda **settings: stack.enter_context(
            Scheduler(Path(stack.enter_context(TemporaryDirectory(prefix="slurm-"))), **settings)
        )


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The small study, made on this machine alone."""
    project = Project.create(tmp_path_factory.mktemp("local") / "project", small())
    project.snakemake("figures")
    return project
