"""`python -m benchmarks.sweep`: what Snakemake itself spends on 1,000, 3,000 and 10,000 training jobs.

Each measurement is a process of its own. *plan*: `snakemake -n` of the study's workflow with a generated configuration,
an experiment of so many jobs on generated data. *plan of a tenth*: the same with `--batch`. *empty jobs*: a workflow of
so many local jobs whose command does nothing. Nothing is trained.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
SIZES = (1_000, 3_000, 10_000)
EMPTY = 1_000
"""Largest number of empty jobs by default: each takes as long as the others."""
MINUTES = 10
BATCHES = 10
BOUNDINGS = ("none", "min-max", "expectation", "expectation-max", "distribution")
EMPTY_WORKFLOW = """\
onstart:
    workflow.scheduler.job_rate_limiter = None


rule all:
    input:
        expand("made/{number}", number=range(JOBS)),


rule nothing:
    output:
        "made/{number}",
    shell:
        ": > {output:q}"
"""
COLUMNS = ("jobs", "measurement", "seconds", "processor seconds", "ms/job", "peak MB")


@dataclass(frozen=True)
class Cost:
    """The cost of a process with its children: elapsed and processor seconds, and the peak memory of the largest."""

    elapsed: float
    processor: float
    megabytes: float

    def row(self, jobs: int, name: str) -> list[str]:
        """Return the row of a table, for a workflow of so many jobs."""
        seconds = [f"{self.elapsed:.1f}", f"{self.processor:.1f}", f"{1000 * self.processor / jobs:.1f}"]
        return [f"{jobs:,}", name, *seconds, f"{self.megabytes:.0f}"]


def main(arguments: list[str] | None = None) -> int:
    """Measure all sizes, and print a table that grows."""
    chosen = _parser().parse_args(arguments)
    print(f"load average before: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for jobs in chosen.jobs:
        for name, cost in measured(jobs, chosen.minutes * 60, empty=jobs <= chosen.empty):
            print(f"| {' | '.join(cost.row(jobs, name))} |", flush=True)
    return 0


def measured(jobs: int, seconds: float, *, empty: bool) -> Iterator[tuple[str, Cost]]:
    """Yield the measurements of a sweep of `jobs` training jobs; RuntimeError if one takes longer than `seconds`."""
    with tempfile.TemporaryDirectory(prefix="sweep-") as name:
        folder = Path(name)
        (folder / "sweep.yaml").write_text(yaml.safe_dump(configuration(jobs, folder)), encoding="utf-8")
        plan = ["-n", "--quiet", "all", "--configfile", str(folder / "sweep.yaml"), "--replace-workflow-config"]
        yield "plan", cost_of(plan, ROOT, seconds)
        tenth = ["--batch", f"collect_experiments=1/{BATCHES}", "--", "collect_experiments"]
        yield "plan of a tenth", cost_of([*plan, *tenth], ROOT, seconds)
        if empty:
            (folder / "Snakefile").write_text(EMPTY_WORKFLOW.replace("JOBS", str(jobs)), encoding="utf-8")
            yield "empty jobs", cost_of(["--quiet", "all", "--scheduler", "greedy"], folder, seconds)


def configuration(jobs: int, folder: Path) -> dict[str, Any]:
    """Return the configuration of an experiment of `jobs` training jobs: learning rates with all boundings."""
    demo: Mapping[str, Any] = yaml.safe_load((ROOT / "profiles/demo/study.yaml").read_text("utf-8"))
    source = "synthetic-movielens"
    rates = -(-jobs // len(BOUNDINGS))
    variants = {f"r{place:05d}": {"learning_rate": round(1e-3 + place * 1e-6, 6)} for place in range(rates)}
    sweep = {"datasets": [f"{source}-nsr1"], "losses": ["nDCG"], "boundings": list(BOUNDINGS), "folds": [1]}
    return {
        **{key: demo[key] for key in ("interactions", "folds", "temperature", "distributions")},
        "study": "sweep",
        "pathvars": {name: str(folder / name) for name in ("data", "results", "logs")},
        "protocols": ["honest"],
        "datasets": [source],
        "losses": ["nDCG"],
        "boundings": ["none"],
        "seeds": {"honest": [0]},
        "controls": ["random", "oracle"],
        "training": {source: demo["training"][source]},
        "experiments": {"sweep": {**sweep, "seeds": [0], "variants": variants}},
        "compare": [],
        "figures": [],
        "tables": ["table_5_1", "table_sensitivity"],
    }


def cost_of(flags: Sequence[str], folder: Path, seconds: float) -> Cost:
    """Run snakemake with these flags in `folder`; RuntimeError if it fails, or takes longer than `seconds`."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--cores", "1", *flags], cwd=folder, stdout=log, stderr=log
        )
        status, usage = _awaited(process, began + seconds)
        if status != 0:
            log.seek(0)
            what = f"ended with {status}" if status is not None else f"took more than {seconds:.0f} seconds"
            raise RuntimeError(f"snakemake {' '.join(flags)} {what}\n{log.read()[-2000:]}")
    # In kilobytes on Linux.
    return Cost(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _awaited(process: "subprocess.Popen[Any]", deadline: float) -> tuple[int | None, Any]:
    """Return the exit status, None after the deadline, and the resources that a process and its children used."""
    in_time = True
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG if in_time else 0)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode if in_time else None, usage
        if time.monotonic() > deadline:
            process.kill()
            in_time = False
        else:
            time.sleep(0.05)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument(
        "--jobs",
        type=int,
        nargs="+",
        default=SIZES,
        metavar="N",
        help="numbers of jobs (default: %(default)s)",
    )
    parser.add_argument(
        "--empty", type=int, default=EMPTY, metavar="N", help="run empty jobs up to this number (default: %(default)s)"
    )
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="time limit of each measurement (default: %(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
