"""The same through Snakemake itself, in processes of its own: killed, terminated, fed with damage, started twice."""

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fault_kinds import Case, flipped
from fault_steps import SEALED, Server, Step, digest
from fault_study import MIRROR
from project import Project, held
from test_step_faults import RULES, WITHOUT_INPUTS

LONGEST = 900
"""Seconds until a run that hangs is given up."""

THROUGH_SNAKEMAKE = {
    "download": "is tried again when it fails",
    "weights": "reads a raw file",
    "train": "keeps finished pieces",
    "collect": "joins the files of many jobs",
    "table_5_1": "is made by a loop, and writes metrics",
    "figures_of_leaderboard": "makes several figures",
    "provenance": "looks at every file",
    "document": "is last",
}
"""Rules, and what each alone has for Snakemake. All run one command with its log; `test_fault` takes each of them."""


@pytest.mark.parametrize("rule", THROUGH_SNAKEMAKE)
def test_run_ended_by_a_signal(rule: str, case_of: Callable[..., Case]) -> None:
    """kill -9 of everything, or SIGTERM to Snakemake alone, while a step runs."""
    case = case_of(rule, "run ended")
    number = case.random.choice([signal.SIGKILL, signal.SIGTERM])
    step, project = _without_outputs(case)
    process = _start(project, step.outputs[0])
    _until(lambda: project.path(step.log).exists() or process.poll() is not None)
    time.sleep(case.random.uniform(0, 3 + case.undisturbed.seconds))
    if process.poll() is None:
        os.killpg(process.pid, number) if number == signal.SIGKILL else process.send_signal(number)
    process.wait(LONGEST)
    # What Snakemake left behind when it was killed may live on: the step of the next run waits for it.
    project.snakemake("--unlock")
    _completes(case, project)


@pytest.mark.parametrize("rule", [rule for rule in THROUGH_SNAKEMAKE if rule not in WITHOUT_INPUTS])
def test_run_on_a_damaged_file(rule: str, case_of: Callable[..., Case]) -> None:
    """One bit of an input has changed: whatever step reads it first refuses it by name, and tells to delete it."""
    case = case_of(rule, "run on damage")
    step, project = _without_outputs(case)
    name = case.random.choice([name for name in step.inputs if name.endswith(SEALED)] or step.inputs)
    _flip(project.path(name), case.random)
    status, output = _start(project, step.outputs[0]).wait(LONGEST), project.path("first").read_text("utf-8")
    if status == 0:
        assert not name.endswith(SEALED)
    else:
        assert re.search(rf"^python -m rankbound_study [\w-]+: {re.escape(name)}: ", output, re.MULTILINE), output
        assert "Traceback" not in output, output
        assert [path for path in step.outputs if project.path(path).exists()] == []
    project.path(name).unlink()
    _completes(case, project, name)


# Archives and generated weights that no result was made of are nobody's business; the manifest is what verify goes by.
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in ("download", "generate_weights", "provenance")])
def test_changed_results_are_found(
    rule: str,
    steps: dict[str, list[Step]],
    study: Project,
    server: Server,
    folder: Path,
    request: pytest.FixtureRequest,
) -> None:
    """One bit of any file that a rule made has changed, readable or not: the step `verify` names the file."""
    numbers = random.Random(f"{request.config.getoption('--fault-seed')} {rule} verified")
    name = numbers.choice(numbers.choice(steps[rule]).outputs)
    project = study.copy(folder / "copy")
    _flip(project.path(name), numbers)
    status = server.wait(server.start(("verify", "results"), project.folder, "said", {}))
    said = project.path("said").read_text("utf-8")
    assert (status, name.removeprefix("results/") in said) == (1, True), said


def test_unchanged_results_are_vouched_for(study: Project) -> None:
    study.run("rankbound_study", "verify", "results")


def test_second_run_in_the_same_folder(case_of: Callable[..., Case]) -> None:
    """Snakemake refuses the second one by a message; the first one finishes."""
    case = case_of("train", "two runs")
    step, project = _without_outputs(case)
    with held(project.path(step.arguments[step.arguments.index("--out") + 1])) as release:
        first = _start(project, step.outputs[0])
        _until(lambda: project.path(step.log).exists() or first.poll() is not None)
        assert _start(project, step.outputs[0], said="second").wait(LONGEST) == 1
        release()
    output = project.path("second").read_text("utf-8")
    assert "cannot be locked" in output
    assert "--unlock" in output
    assert "Traceback" not in output
    assert first.wait(LONGEST) == 0
    _completes(case, project)


def _flip(path: Path, numbers: random.Random) -> None:
    path.write_bytes(flipped(path.read_bytes(), numbers))


def _without_outputs(case: Case) -> tuple[Step, Project]:
    """A copy of the finished study in which one step waits to be done again."""
    step = case.sandbox.step
    project = case.sandbox.project.copy(case.sandbox.folder / "copy")
    for name in (*step.outputs, step.log):
        project.path(name).unlink()
    return step, project


def _start(project: Project, target: str, said: str = "first") -> "subprocess.Popen[bytes]":
    """Snakemake, in a group of its own; what it prints goes to a file."""
    command = project.command("snakemake", "--cores", "1", target, RANKBOUND_MIRROR=MIRROR)
    with project.path(said).open("wb") as file:
        return subprocess.Popen(**command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + LONGEST
    while not holds():
        assert time.monotonic() < end, "nothing has happened"
        time.sleep(0.005)


def _completes(case: Case, project: Project, *others: str) -> None:
    """Run again: every file of the step is there, with the bytes of the undisturbed run, and nothing else.

    `others` were made again, too; the paper tells when.
    """
    step, finished = case.sandbox.step, case.sandbox.project
    output = project.snakemake(*step.outputs, RANKBOUND_MIRROR=MIRROR)
    timed = [name for name in step.outputs if others and name.startswith("results/paper/")]
    names = sorted({*step.outputs, *others} - {*timed})
    assert all(project.path(name).exists() for name in timed)
    assert [digest(project.path(name)) for name in names] == [digest(finished.path(name)) for name in names]
    hidden = [path for name in ("data", "results") for path in project.path(name).rglob("*")]
    assert [path for path in hidden if path.name.startswith(".") or path.name.endswith(".shards")] == [], output
