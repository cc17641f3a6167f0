"""The subjects of the faults: one finished study, a server of steps, and a sandbox for each fault."""

import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from filelock import FileLock

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "workflow"))

from fault_kinds import OUTCOMES, Case, Recorded, Undisturbed
from fault_steps import Sandbox, Server, Step, steps_of
from fault_study import make_study
from project import Project

MANY = "_faults"
"""Ends the names of the modules with hundreds of faults."""

FOLDER = "RANKBOUND_FAULTS"
"""Names the folder of a session, for all its processes. Not pytest's own: other users cannot enter that."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-seed", type=int, default=0, help="of the moments and places of all faults")
    parser.addoption("--fault-table", type=Path, help="CSV file for the table of faults")


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [report for key in ("passed", "failed") for report in terminalreporter.stats.get(key, [])]
    records = [dict(value) for report in reports for name, value in report.user_properties if name == "fault"]
    if records:
        terminalreporter.section(f"{len(records)} faults, seed {config.getoption('--fault-seed')}")
        counts = counted(records)
        terminalreporter.write_line(as_markdown(counts))
        if config.getoption("--fault-table"):
            counts.write_csv(config.getoption("--fault-table"))


def counted(records: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """One row for each rule and kind: the number of faults, by outcome, and by whether the step recovered."""
    of_outcomes = [(pl.col("outcome") == outcome).sum().alias(outcome) for outcome in OUTCOMES]
    recovered = pl.col("recovered").sum(), (~pl.col("recovered")).sum().alias("lost")
    return (
        pl.DataFrame(records)
        .group_by("rule", "kind")
        .agg(pl.len().alias("faults"), *of_outcomes, *recovered)
        .sort("rule", "kind")
    )


def as_markdown(counts: pl.DataFrame) -> str:
    """Rules down, kinds across, the number of faults in each cell; below, what became of them."""
    kinds = sorted(counts["kind"].unique())
    lines = [["rule", *kinds, "all", "lost"], ["---"] * (len(kinds) + 3)]
    for (rule,), own in counts.group_by("rule", maintain_order=True):
        faults = dict(own.select("kind", "faults").rows())
        lines.append([rule, *(faults.get(kind, "–") for kind in kinds), own["faults"].sum(), own["lost"].sum()])
    for key in ("faults", *OUTCOMES, "recovered", "lost"):
        totals = dict(counts.group_by("kind").agg(pl.col(key).sum()).rows())
        lines.append([f"**{key}**", *(totals[kind] for kind in kinds), counts[key].sum(), ""])
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


@pytest.fixture
def recorded(record_property: Callable[[str, object], None]) -> Recorded:
    """Note a fault of a rule and a kind: its outcome, and that the step recovered if the block ends well."""

    @contextmanager
    def noted(rule: str, kind: str, outcome: str = "") -> Iterator[dict[str, Any]]:
        record = {"rule": rule, "kind": kind, "outcome": outcome, "recovered": False}
        record_property("fault", record)
        yield record
        record["recovered"] = True

    return noted


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
