"""`python -m benchmarks.sweep`: what Snakemake, and with `--slurm` a scheduler, spend on thousands of training jobs.

Each measurement is a process of its own. *plan*: `snakemake -n` of the study's workflow with a generated configuration,
an experiment of so many jobs on generated data. *plan of a tenth*: the same with `--batch`. *empty jobs*: a workflow of
so many local jobs whose command does nothing. Nothing is trained.

`--slurm` starts a cluster of two nodes with one GPU each on this machine (tests/cluster), and submits such jobs through
profiles/slurm singly, in groups, or as an array. Each is a job with two nested `snakemake` processes, whose start is
nearly all of its time on a node. The ways run one after the other; compare them only within a run, on an idle machine.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks import asked, rows_of
from benchmarks.page import table
from benchmarks.runner import ROOT, cost_of

SIZES = (1_000, 3_000, 10_000)
EMPTY, PATIENCE = 1_000, 600
"""The largest number of empty jobs, and the time limit of each measurement in seconds."""
ROWS: Mapping[str, Any] = rows_of("sweep")
"""The keys of the study that do not depend on the number of jobs, the workflow, and the ways of submission."""
COLUMNS = ("jobs", "measurement", "seconds", "processor seconds", "ms/job", "peak MB")
OF_SLURM = ("way", "jobs", "whole s", "s/training", "on a node", "idle node", "before first", "after last")
"""Seconds of a training are those of the sweep, of its job on a node with its GPU, and of an idle node between jobs."""
SUBMITTED = 300


def main(arguments: list[str] | None = None) -> int:
    """Measure all sizes or ways of submission, and print a growing table; return 2 if no scheduler can be started."""
    chosen = asked("benchmarks.sweep", __doc__, arguments, slurm=ROWS["ways"])
    print(f"load average before: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores\n")
    columns, rows = COLUMNS, (row for jobs in chosen.jobs or SIZES for row in measured(jobs))
    if chosen.slurm is not None:
        sys.path.append(str(ROOT / "tests/cluster"))
        from scheduler import missing

        if reason := missing():
            print(f"sweep: {reason}", file=sys.stderr)
            return 2
        jobs = (chosen.jobs or [SUBMITTED])[0]
        columns, rows = OF_SLURM, (scheduled(way, jobs) for way in chosen.slurm or ROWS["ways"])
    print(table(columns, ()))
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    return 0


def measured(jobs: int) -> Iterator[list[str]]:
    """Yield the rows of a sweep of `jobs` training jobs."""
    with tempfile.TemporaryDirectory(prefix="sweep-") as name:
        folder = Path(name)
        (folder / "sweep.yaml").write_text(yaml.safe_dump(configuration(jobs, folder)), encoding="utf-8")
        (folder / "Snakefile").write_text(ROWS["workflow"].replace("JOBS", str(jobs)), encoding="utf-8")
        plan = ["-n", "--quiet", "all", "--configfile", str(folder / "sweep.yaml"), "--replace-workflow-config"]
        tenth = [*plan, "--batch", "collect_experiments=1/10", "--", "collect_experiments"]
        runs = {"plan": (plan, ROOT), "plan of a tenth": (tenth, ROOT)}
        if jobs <= EMPTY:
            runs["empty jobs"] = ["--quiet", "all", "--scheduler", "greedy"], folder
        for title, (flags, where) in runs.items():
            cost = cost_of(["snakemake", "--cores", "1", *flags], where, PATIENCE)
            seconds = [f"{cost.seconds:.1f}", f"{cost.processor:.1f}", f"{1000 * cost.processor / jobs:.1f}"]
            yield [f"{jobs:,}", title, *seconds, f"{cost.peak / 2**20:.0f}"]


def configuration(jobs: int, folder: Path) -> dict[str, Any]:
    """Return the configuration of an experiment of `jobs` training jobs: learning rates with all boundings."""
    demo: Mapping[str, Any] = yaml.safe_load((ROOT / "profiles/demo/study.yaml").read_text("utf-8"))
    study: Mapping[str, Any] = ROWS["study"]
    (source,), sweep = study["datasets"], study["experiments"]["sweep"]
    rates = -(-jobs // len(sweep["boundings"]))
    variants = {f"r{place:05d}": {"learning_rate": round(1e-3 + place * 1e-6, 6)} for place in range(rates)}
    return {
        **{key: demo[key] for key in ("interactions", "folds", "temperature", "distributions")},
        **study,
        "pathvars": {name: str(folder / name) for name in ("data", "results", "logs")},
        "training": {source: demo["training"][source]},
        "experiments": {"sweep": {**sweep, "variants": variants}},
    }


def scheduled(way: str, jobs: int) -> list[str]:
    """Submit one sweep in this way, to a new scheduler without another's queue or accounts, and return its row."""
    from scheduler import Scheduler, clean

    settings = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text("utf-8"))
    settings |= {"slurm-init-seconds-before-status-checks": 1, "latency-wait": 5, "retries": 0, **ROWS["ways"][way]}
    of_train = {"device": "cpu", "mem_mb": 500, "runtime": 10}
    settings["set-resources"] = {"train": settings["set-resources"]["train"] | of_train}
    settings = {name: value for name, value in settings.items() if value is not None}
    with tempfile.TemporaryDirectory(prefix="sweep-") as name, Scheduler(Path(name, "slurm")) as scheduler:
        folder = Path(name, "study")
        (folder / "profile").mkdir(parents=True)
        (folder / "profile/config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        (folder / "Snakefile").write_text(ROWS["workflow"].replace("JOBS", str(jobs)), encoding="utf-8")
        command = scheduler.command([sys.executable, "-m", "snakemake", "--workflow-profile", "profile"])
        began = time.time()
        with (folder / "log").open("wb") as log:
            streams = {"stdout": log, "stderr": subprocess.STDOUT}
            done = subprocess.run(command, cwd=folder, env=clean(os.environ), check=False, **streams)
        ended, made = time.time(), len(list(folder.glob("made/*")))
        if done.returncode != 0 or made != jobs:
            raise RuntimeError(f"{way}: {made} of {jobs}\n{(folder / 'log').read_text('utf-8')[-3000:]}")
        listed = scheduler.ask("sacct", "-X", "-n", "-P", "-o", "State,Start,End")
        nodes = len(scheduler.nodes)
    lines = [line.split("|") for line in listed.splitlines()]
    if {state for state, *_ in lines} != {"COMPLETED"}:
        raise RuntimeError(f"not all jobs were completed:\n{listed}")
    starts, ends = ([datetime.fromisoformat(line[place]).timestamp() for line in lines] for place in (1, 2))
    first, last, held = min(starts), max(ends), sum(ends) - sum(starts)
    # For which nodes had no job between the first start and the last end.
    idle = nodes * (last - first) - held
    per_job = [f"{seconds / jobs:.2f}" for seconds in (ended - began, held, idle)]
    # Before the first: building the graph, and submitting; after the last: querying its state.
    return [way, str(len(lines)), f"{ended - began:.0f}", *per_job, f"{first - began:.0f}", f"{ended - last:.0f}"]


if __name__ == "__main__":
    sys.exit(main())
