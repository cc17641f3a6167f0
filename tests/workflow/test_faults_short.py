"""The quick ones of the faults that `make test-faults` does to every rule, each on one of the quick rules."""

import os
import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import cycle
from pathlib import Path

import pytest
from fault_kinds import OF_EVERY_STEP, OF_INPUTS, Case, Undisturbed, recover
from fault_steps import Sandbox, Server, Step, steps_of
from project import Project

KINDS = {**OF_EVERY_STEP, **OF_INPUTS}
RULES = ("split", "sample", "controls")
FAULTS = list(zip(cycle(RULES), (kind for kind in KINDS if not kind.endswith("forbidden")), strict=False))
FAULTS += [("table_2_2", kind) for kind in ("killed at a file", "file limit")]


@pytest.fixture(scope="module")
def server(finished: Project) -> Iterator[Server]:
    server = Server(finished)
    yield server
    server.close()


@pytest.fixture(scope="module")
def steps(finished: Project) -> dict[str, list[Step]]:
    return steps_of(finished)


@pytest.fixture(scope="module")
def undisturbed(
    finished: Project, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Step], Undisturbed]:
    return cache(
        lambda step: Undisturbed.of(Sandbox(tmp_path_factory.mktemp("step") / "sandbox", finished, step, server))
    )


@pytest.mark.parametrize(("rule", "kind"), FAULTS)
def test_a_fault_is_told_and_forgotten(
    rule: str,
    kind: str,
    finished: Project,
    steps: dict[str, list[Step]],
    server: Server,
    undisturbed: Callable[[Step], Undisturbed],
    tmp_path: Path,
) -> None:
    """A clear message, nothing half written, and the same bytes from the next run."""
    if kind == "full disk" and os.geteuid() != 0:
        pytest.skip("a small file system can be mounted by root alone")
    step = steps[rule][0]
    case = Case(Sandbox(tmp_path, finished, step, server), undisturbed(step), random.Random(f"{rule} {kind}"))
    KINDS[kind][0](case)
    recover(case.sandbox)
