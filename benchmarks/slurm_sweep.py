"""`python -m benchmarks.slurm_sweep`: scheduling overhead per training, submitted singly, as an array, or in groups.

The benchmark starts a SLURM cluster of two nodes with one GPU each on this machine (tests/cluster), and runs a sweep of
300 empty trainings through profiles/slurm. Each training is a job with two nested `snakemake` processes, whose start is
nearly all of its time on a node. The ways of submission run one after the other; compare them only within a run, on an
idle machine.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measure import ROOT, table

sys.path.append(str(ROOT / "tests/cluster"))

from scheduler import Scheduler, clean, missing

TRAININGS = 300
GROUPS = (5, 10, 30)
OUT = ROOT / "benchmarks/results"
WORKFLOW = """\
onstart:
    workflow.scheduler.job_rate_limiter = None


rule all:
    input:
        expand("made/{number}", number=range(TRAININGS)),
    localrule: True


rule train:
    output:
        "made/{number}",
    threads: 1
    resources:
        mem_mb=500,
        runtime=10,
        device="cpu",
        gpu=0,
    shell:
        "echo $CUDA_VISIBLE_DEVICES > {output:q}"
"""


COLUMNS = ["way", "jobs", "whole s", "s/training", "on a node", "idle node", "before first", "after last"]


def main(arguments: list[str] | None = None) -> int:
    """Measure all ways and print a table; return 2 if no scheduler can be started."""
    chosen = _parser().parse_args(arguments)
    if reason := missing():
        print(f"slurm_sweep: {reason}", file=sys.stderr)
        return 2
    chosen.out.mkdir(parents=True, exist_ok=True)
    page = chosen.out / "slurm_sweep.md"
    rows = []
    load = os.getloadavg()[0]
    for way in chosen.ways:
        # A new scheduler for each way: none inherits the queue or the accounts of another.
        with tempfile.TemporaryDirectory(prefix="sweep-") as folder, Scheduler(Path(folder, "slurm")) as scheduler:
            rows.append(measure(scheduler, Path(folder, "study"), way, chosen.trainings))
        page.write_text(_page(rows, chosen.trainings, load), encoding="utf-8")
        print(table(COLUMNS, rows[-1:]), flush=True)
    print(page.read_text("utf-8"))
    return 0


def every_way() -> dict[str, Mapping[str, Any]]:
    """Return the changes of the profile by way: singly, in groups, as an array; None removes a setting."""
    single = {"groups": None, "group-components": None}
    groups = {f"groups of {size}": {"group-components": {"trainings": size}} for size in GROUPS}
    # For arrays, the plugin parses only squeue's output, and loses jobs unless all are submitted at once.
    at_once = {"jobs": 100_000, "max-jobs-per-timespan": "100000/1s"}
    array = {"slurm-array-jobs": "train", "slurm-status-command": "squeue", **at_once}
    return {"single": single, **groups, "array": single | array}


def measure(scheduler: Scheduler, folder: Path, way: str, trainings: int) -> list[str]:
    """Run one sweep in `folder`, and return its row."""
    profile = folder / "profile"
    profile.mkdir(parents=True)
    settings = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text("utf-8"))
    settings |= {"slurm-init-seconds-before-status-checks": 1, "latency-wait": 5, "retries": 0, **every_way()[way]}
    settings["set-resources"] = {"train": {**settings["set-resources"]["train"], "device": "cpu"}}
    settings = {name: value for name, value in settings.items() if value is not None}
    (profile / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (folder / "Snakefile").write_text(WORKFLOW.replace("TRAININGS", str(trainings)), encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--workflow-profile", "profile"]
    began = time.time()
    with (folder / "log").open("wb") as log:
        streams = {"stdout": log, "stderr": subprocess.STDOUT}
        done = subprocess.run(scheduler.command(command), cwd=folder, env=clean(os.environ), check=False, **streams)
    ended = time.time()
    made = len(list(folder.glob("made/*")))
    if done.returncode != 0 or made != trainings:
        raise RuntimeError(f"{way}: {made} of {trainings}\n{(folder / 'log').read_text('utf-8')[-3000:]}")
    shutil.rmtree(folder / "made")
    jobs = _times(scheduler)
    first, last, held = (
        min(start for start, _ in jobs),
        max(end for _, end in jobs),
        sum(end - start for start, end in jobs),
    )
    # For which nodes had no job between the first start and the last end.
    idle = len(scheduler.nodes) * (last - first) - held
    per_training = [f"{seconds / trainings:.2f}" for seconds in (ended - began, held, idle)]
    # Before the first: building the graph, and submitting; after the last: querying its state.
    return [way, str(len(jobs)), f"{ended - began:.0f}", *per_training, f"{first - began:.0f}", f"{ended - last:.0f}"]


def _times(scheduler: Scheduler) -> list[tuple[float, ...]]:
    table = scheduler.ask("sacct", "-X", "-n", "-P", "-o", "State,Start,End")
    lines = [line.split("|") for line in table.splitlines()]
    if {state for state, _, _ in lines} != {"COMPLETED"}:
        raise RuntimeError(f"not all jobs were completed:\n{table}")
    return [tuple(datetime.fromisoformat(text).timestamp() for text in line[1:]) for line in lines]


def _page(rows: Sequence[Sequence[str]], trainings: int, load: float) -> str:
    about = (
        f"{trainings} empty trainings, on two nodes with a GPU and a core each; {os.cpu_count()} cores in total"
        f"; load average before: {load:.1f}. Per training, in seconds: *on a node*, with its GPU; *idle node*, between"
        " jobs. Before the first job's start and after the last one's end: seconds of the whole sweep."
    )
    return f"{about}\n\n{table(COLUMNS, rows)}\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slurm_sweep", description=__doc__)
    names = list(every_way())
    number, ways = "number of trainings (default: %(default)s)", f"ways to measure (default: all): {', '.join(names)}"
    parser.add_argument("--trainings", type=int, default=TRAININGS, metavar="N", help=number)
    parser.add_argument("--ways", nargs="+", choices=names, default=names, metavar="WAY", help=ways)
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the table (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
