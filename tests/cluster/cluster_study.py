"""The workflow on a scheduler: a site's copy of the profile, its runs, and what the scheduler says of its jobs."""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from project import GENERATED, Project
from scheduler import Scheduler, clean

PROFILE = "profiles/slurm/config.yaml"

SMALL: dict[str, Any] = {
    **GENERATED,
    "datasets": ["synthetic-movielens"],
    "training": {"synthetic-movielens": GENERATED["training"]["synthetic-movielens"]},
}
"""Four trainings, with the distributions that two of them read."""


def small(folds: int = 2, epochs: int = 3, **changes: Any) -> dict[str, Any]:
    """Return that configuration with the given folds and epochs, and other changes at the top level."""
    config = {**deepcopy(SMALL), "folds": list(range(1, folds + 1)), **changes}
    config["training"]["synthetic-movielens"]["epochs"] = epochs
    return config


class ClusterStudy:
    """A project with a profile of its own, `profiles/site`: profiles/slurm for nodes whose GPUs do not compute.

    `training` are resources of trainings, `settings` other lines of the profile; None takes a line away.
    """

    def __init__(
        self, project: Project, scheduler: Scheduler, training: Mapping[str, Any] | None = None, **settings: Any
    ) -> None:
        self.project = project
        self.scheduler = scheduler
        profile = yaml.safe_load(project.path(PROFILE).read_text("utf-8"))
        for resources in profile["set-resources"].values():
            resources |= {"device": "cpu", **(training or {})}
        # Nothing here is slow to appear, or to answer.
        profile |= {"latency-wait": 5, "slurm-init-seconds-before-status-checks": 1, **settings}
        profile = {name: value for name, value in profile.items() if value is not None}
        project.path("profiles/site").mkdir()
        project.path("profiles/site/config.yaml").write_text(yaml.safe_dump(profile), encoding="utf-8")

    @contextmanager
    def running(self, *targets: str) -> Iterator["Run"]:
        """A run of snakemake; it is ended at the end of the block, if it has not ended by itself."""
        command = self.project.command("snakemake", "--workflow-profile", "profiles/site", *targets)
        output = self.project.folder.with_suffix(".out")
        with output.open("wb") as file:
            process = subprocess.Popen(
                self.scheduler.command(command["args"]),
                cwd=command["cwd"],
                env=clean(command["env"]),
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            yield Run(process, output)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def jobs(self) -> list[dict[str, str]]:
        """Every job that the scheduler has seen, by its accounts; a job that was put back is there several times."""
        fields = ["JobIDRaw", "State", "Start", "End", "NodeList", "Timelimit", "AllocTRES", "ReqMem"]
        table = self.scheduler.ask("sacct", "-X", "-D", "-n", "-P", "-o", ",".join(fields))
        return [dict(zip(fields, line.split("|"), strict=True)) for line in table.splitlines()]


class Run:
    """A run of snakemake, and the file that holds what it prints."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process = process
        self._output = output

    def printed(self) -> str:
        return self._output.read_text("utf-8", "replace")

    def wait_until(self, condition: Callable[[], bool], seconds: float = 600) -> None:
        """Wait for a condition, while snakemake runs."""
        end = time.monotonic() + seconds
        while not condition() and self._process.poll() is None:
            assert time.monotonic() < end, f"nothing happened for {seconds} s:\n{self.printed()[-6000:]}"
            time.sleep(0.05)
        assert condition(), self.printed()[-6000:]

    def finish(self, seconds: float = 1200) -> None:
        """Wait for the end, which has to be a good one."""
        status = self._process.wait(timeout=seconds)
        assert status == 0, self.printed()[-6000:]


def results(project: Project) -> dict[str, bytes]:
    """The files that must not depend on where they were made; records and the page that tells them do."""
    folder = project.path("results")
    left_out = ("provenance", "provenance.json", "paper")
    paths = [path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder).parts[0] not in left_out]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def differences(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> list[str]:
    """The names of files that differ, or that only one has."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
