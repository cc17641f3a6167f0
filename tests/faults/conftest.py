"""The subjects of the faults: one finished study, a server of steps, and a sandbox for each fault."""

import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "workflow"))

from fault_kinds import Case, Undisturbed
from fault_steps import Sandbox, Server, Step, steps_of
from fault_study import make_study
from project import Project

MANY = "_faults"
"""Ends the names of the modules with hundreds of faults."""

FOLDER = "RANKBOUND_FAULTS"
"""Names the folder of a session, for all its processes. Not pytest's own: other users cannot enter that."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-seed", type=int, default=0, help="of the moments and places of all faults")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Hundreds of faults run only where they are asked for."""
    asked = any("faults" in Path(argument).parts or MANY in argument for argument in config.args)
    return True if collection_path.stem.endswith(MANY) and not asked else None


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        folder = Path(tempfile.mkdtemp(prefix="rankbound-faults-"))
        folder.chmod(0o755)
        os.environ[FOLDER] = str(folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[FOLDER], ignore_errors=True)


@pytest.fixture(scope="session")
def study() -> Project:
    """The finished study; nobody changes it."""
    folder = Path(os.environ[FOLDER])
    with FileLock(folder / "study.lock"):
        if not (folder / "study").exists():
            make_study(folder / "making").folder.rename(folder / "study")
    return Project(folder / "study")


@pytest.fixture(scope="session")
def steps(study: Project) -> dict[str, list[Step]]:
    """Its jobs, by rule."""
    return steps_of(study)


@pytest.fixture(scope="session")
def server(study: Project) -> Iterator[Server]:
    """Runs its steps."""
    server = Server(study)
    yield server
    server.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that every user can enter."""
    folder = Path(tempfile.mkdtemp(dir=os.environ[FOLDER]))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def undisturbed(study: Project, server: Server) -> Callable[[Step], Undisturbed]:
    """Run a step without a fault: once, whichever process comes first."""

    def measured(step: Step) -> Undisturbed:
        noted = Path(os.environ[FOLDER], "undisturbed", f"{step.log.replace('/', '-')}.json")
        noted.parent.mkdir(exist_ok=True)
        with FileLock(noted.with_suffix(".lock")):
            if not noted.exists():
                with tempfile.TemporaryDirectory(dir=os.environ[FOLDER]) as folder:
                    found = Undisturbed.of(Sandbox(Path(folder, "sandbox"), study, step, server))
                noted.write_text(json.dumps(asdict(found)), "utf-8")
        return Undisturbed(**json.loads(noted.read_text("utf-8")))

    return measured


@pytest.fixture
def case_of(
    study: Project,
    steps: dict[str, list[Step]],
    server: Server,
    undisturbed: Callable[[Step], Undisturbed],
    folder: Path,
    request: pytest.FixtureRequest,
) -> Callable[..., Case]:
    """A case of a rule: one of its jobs, and the random numbers of this fault."""

    def make(rule: str, *names: Any) -> Case:
        numbers = random.Random(repr((request.config.getoption("--fault-seed"), rule, *names)))
        step = numbers.choice(steps[rule])
        return Case(Sandbox(folder, study, step, server), undisturbed(step), numbers)

    return make
