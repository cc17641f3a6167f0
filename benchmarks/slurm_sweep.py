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
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/cluster"))

from scheduler import Scheduler, clean, missing  # noqa: E402

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


@dataclass(frozen=True)
class Way:
    """A way to submit trainings, as changes of the profile; None removes a setting."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """The times of a sweep, in seconds."""

    name: str
    jobs: int
    """Number of allocations by the scheduler."""
    whole: float
    """From the start of snakemake to its end."""
    waited: float
    """Before the first job started: building the graph, and submitting."""
    held: float
    """Time for which jobs held their node and GPU, summed over all jobs."""
    idle: float
    """Time for which nodes had no job between the first start and the last end, summed over the nodes."""
    after: float
    """From the end of the last job to that of snakemake: querying its state."""

    def row(self, trainings: int) -> list[str]:
        return [
            self.name,
            str(self.jobs),
            f"{self.whole:.0f}",
            f"{self.whole / trainings:.2f}",
            f"{self.held / trainings:.2f}",
            f"{self.idle / trainings:.2f}",
            f"{self.waited:.0f}",
            f"{self.after:.0f}",
        ]


COLUMNS = ["way", "jobs", "whole s", "s/training", "on a node", "idle node", "before first", "after last"]


def main(arguments: list[str] | None = None) -> int:
    """Measure all ways and print a table; return 2 if no scheduler can be started."""
    chosen = _parser().parse_args(arguments)
    if reason := missing():
        print(f"slurm_sweep: {reason}", file=sys.stderr)
        return 2
    ways = [way for way in every_way() if way.name in chosen.ways] if chosen.ways else every_way()
    chosen.out.mkdir(parents=True, exist_ok=True)
    page = chosen.out / "slurm_sweep.md"
    rows = []
    load = os.getloadavg()[0]
    for way in ways:
        # A new scheduler for each way: none inherits the queue or the accounts of another.
        with tempfile.TemporaryDirectory(prefix="sweep-") as folder, Scheduler(Path(folder, "slurm")) as scheduler:
            rows.append(measure(scheduler, Path(folder, "study"), way, chosen.trainings).row(chosen.trainings))
        page.write_text(_page(rows, chosen.trainings, load), encoding="utf-8")
        print(_markdown([COLUMNS, rows[-1]]), flush=True)
    print(page.read_text("utf-8"))
    return 0


def every_way() -> list[Way]:
    """Return all ways: singly, in groups of several sizes, and as an array."""
    single = {"groups": None, "group-components": None}
    groups = [Way(f"groups of {size}", {"group-components": {"trainings": size}}) for size in GROUPS]
    # For arrays, the plugin parses only squeue's output, and loses jobs unless all are submitted at once.
    at_once = {"jobs": 100_000, "max-jobs-per-timespan": "100000/1s"}
    array = {"slurm-array-jobs": "train", "slurm-status-command": "squeue", **at_once}
    return [Way("single", single), *groups, Way("array", single | array)]


def measure(scheduler: Scheduler, folder: Path, way: Way, trainings: int) -> Measured:
    """Run one sweep in `folder`, and measure it."""
    profile = folder / "profile"
    profile.mkdir(parents=True)
    settings = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text("utf-8"))
    settings |= {"slurm-init-seconds-before-status-checks": 1, "latency-wait": 5, "retries": 0, **way.settings}
    settings["set-resources"] = {"train": {**settings["set-resources"]["train"], "device": "cpu"}}
    settings = {name: value for name, value in settings.items() if value is not None}
    (profile / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (folder / "Snakefile").write_text(WORKFLOW.replace("TRAININGS", str(trainings)), encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--workflow-profile", "profile"]
    began = time.time()
    with (folder / "log").open("wb") as log:
        done = subprocess.run(
            scheduler.command(command),
            cwd=folder,
            env=clean(os.environ),
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    ended = time.time()
    made = len(list(folder.glob("made/*")))
    if done.returncode != 0 or made != trainings:
        raise RuntimeError(f"{way.name}: {made} of {trainings}\n{(folder / 'log').read_text('utf-8')[-3000:]}")
    shutil.rmtree(folder / "made")
    return _measured(way.name, _times(scheduler), began, ended, len(scheduler.nodes))


def _measured(name: str, jobs: Sequence[tuple[float, float]], began: float, ended: float, nodes: int) -> Measured:
    first, last = min(start for start, _ in jobs), max(end for _, end in jobs)
    held = sum(end - start for start, end in jobs)
    return Measured(
        name=name,
        jobs=len(jobs),
        whole=ended - began,
        waited=first - began,
        held=held,
        idle=nodes * (last - first) - held,
        after=ended - last,
    )


def _times(scheduler: Scheduler) -> list[tuple[float, float]]:
    table = scheduler.ask("sacct", "-X", "-n", "-P", "-o", "State,Start,End")
    lines = [line.split("|") for line in table.splitlines()]
    if {state for state, _, _ in lines} != {"COMPLETED"}:
        raise RuntimeError(f"not all jobs were completed:\n{table}")
    return [(_seconds(start), _seconds(end)) for _, start, end in lines]


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _page(rows: Sequence[Sequence[str]], trainings: int, load: float) -> str:
    about = (
        f"{trainings} empty trainings, on two nodes with a GPU and a core each; {os.cpu_count()} cores in total"
        f"; load average before: {load:.1f}. Per training, in seconds: *on a node*, with its GPU; *idle node*, between"
        " jobs. Before the first job's start and after the last one's end: seconds of the whole sweep."
    )
    return f"{about}\n\n{_markdown([COLUMNS, *rows])}\n"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slurm_sweep", description=__doc__)
    names = [way.name for way in every_way()]
    parser.add_argument(
        "--trainings", type=int, default=TRAININGS, metavar="N", help="number of trainings (default: %(default)s)"
    )
    parser.add_argument(
        "--ways", nargs="+", choices=names, metavar="WAY", help=f"ways to measure (default: all): {', '.join(names)}"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the table (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
