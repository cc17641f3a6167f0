"""`python -m benchmarks.sweep`: what Snakemake itself spends on 1,000, 3,000 and 10,000 training jobs.

Each measurement is a process of its own. *plan*: `snakemake -n` of the study's workflow with a generated configuration,
an experiment of so many jobs on generated data. *plan of a tenth*: the same with `--batch`. *empty jobs*: a workflow of
so many local jobs whose command does nothing. Nothing is trained.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measure import ROOT, Cost, cost_of

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


def main(arguments: list[str] | None = None) -> int:
    """Measure all sizes, and print a table that grows."""
    chosen = _parser().parse_args(arguments)
    print(f"load average before: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for jobs in chosen.jobs:
        for name, cost in measured(jobs, chosen.minutes * 60, empty=jobs <= chosen.empty):
            seconds = [f"{cost.seconds:.1f}", f"{cost.processor:.1f}", f"{1000 * cost.processor / jobs:.1f}"]
            print(f"| {' | '.join([f'{jobs:,}', name, *seconds, f'{cost.largest / 2**20:.0f}'])} |", flush=True)
    return 0


def measured(jobs: int, seconds: float, *, empty: bool) -> Iterator[tuple[str, Cost]]:
    """Yield the measurements of a sweep of `jobs` training jobs; RuntimeError if one takes longer than `seconds`."""
    with tempfile.TemporaryDirectory(prefix="sweep-") as name:
        folder = Path(name)
        (folder / "sweep.yaml").write_text(yaml.safe_dump(configuration(jobs, folder)), encoding="utf-8")
        plan = ["-n", "--quiet", "all", "--configfile", str(folder / "sweep.yaml"), "--replace-workflow-config"]
        yield "plan", snakemake(plan, ROOT, seconds)
        tenth = ["--batch", f"collect_experiments=1/{BATCHES}", "--", "collect_experiments"]
        yield "plan of a tenth", snakemake([*plan, *tenth], ROOT, seconds)
        if empty:
            (folder / "Snakefile").write_text(EMPTY_WORKFLOW.replace("JOBS", str(jobs)), encoding="utf-8")
            yield "empty jobs", snakemake(["--quiet", "all", "--scheduler", "greedy"], folder, seconds)


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


def snakemake(flags: Sequence[str], folder: Path, seconds: float) -> Cost:
    """Run snakemake with these flags in `folder`; RuntimeError if it fails, or takes longer than `seconds`."""
    return cost_of([sys.executable, "-m", "snakemake", "--cores", "1", *flags], folder, seconds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    options: Mapping[str, tuple[Any, Mapping[str, Any], str]] = {
        "--jobs": (SIZES, {"type": int, "nargs": "+", "metavar": "N"}, "numbers of jobs"),
        "--empty": (EMPTY, {"type": int, "metavar": "N"}, "run empty jobs up to this number"),
        "--minutes": (MINUTES, {"type": float}, "time limit of each measurement"),
    }
    for name, (default, kind, meaning) in options.items():
        parser.add_argument(name, default=default, help=f"{meaning} (default: %(default)s)", **kind)
    return parser


if __name__ == "__main__":
    sys.exit(main())
