"""The workflow on a real SLURM: the same results as without it, whatever nodes and time limits do."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cluster_study import ClusterStudy, differences, results, small
from project import Project, held
from scheduler import Scheduler

Start = Callable[..., Scheduler]

RUNS = "results/runs/published/synthetic-movielens-nsr1/matrix-factorization"
GPU_GROUP, CPU_RULE = "group_trainings_train", "rule_distributions"


def test_results_are_those_of_a_local_run(start: Start, local: Project, tmp_path: Path) -> None:
    scheduler = start()
    # Groups of two: as many jobs with GPUs as there are, and members that have to share theirs.
    study = ClusterStudy(
        Project.create(tmp_path / "project", small()), scheduler, **{"group-components": {"trainings": 2}}
    )
    with study.running("figures") as run:
        run.finish()
    assert differences(results(study.project), results(local)) == []
    assert "results/metrics.json" in {f"results/{name}" for name in results(local)}

    # Two distributions, four trainings in two groups; everything else ran beside snakemake.
    jobs = study.jobs()
    assert [job["State"] for job in jobs] == ["COMPLETED"] * 4
    assert sorted(gpus(job) for job in jobs) == [0, 0, 1, 1]
    for job in jobs:
        assert most_at_once([one for one in jobs if gpus(one)]) <= len(scheduler.nodes), job
    # The jobs had a GPU, by their environment, and left that in logs that are kept.
    assert all("gpus: 0" in text for text in logs(study, GPU_GROUP))
    assert all("gpus: none" in text for text in logs(study, CPU_RULE))
    assert (len(logs(study, GPU_GROUP)), len(logs(study, CPU_RULE))) == (2, 2)


@pytest.mark.parametrize("status", ["sacct", "squeue"])
def test_a_dead_node_and_a_job_over_its_time_limit(start: Start, tmp_path: Path, status: str) -> None:
    config = small(folds=5, epochs=200, boundings=["none"])
    local = Project.create(tmp_path / "local", config)
    # One fold after the other: there is a middle then, in which some are finished.
    one_by_one = {"together": 1}
    local.snakemake("runs", "--set-resources", "train:together=1")

    scheduler = start()
    settings: dict[str, Any] = {"slurm-status-command": status, "groups": None, "group-components": None}
    study = ClusterStudy(Project.create(tmp_path / "project", config), scheduler, one_by_one, **settings)
    dying, slow = (study.project.path(f"{RUNS}/{loss}/none.parquet") for loss in ("nDCG", "nRBP"))
    first_fold: set[int] = set()
    with study.running("runs") as run, held(slow) as release:
        # A node dies when the training on it has finished a fold and is at another one.
        run.wait_until(lambda: bool(shards(dying)) and set(running(scheduler)) == {"nDCG", "nRBP"})
        first_fold.add(shards(dying)[0].stat().st_ino)
        assert not dying.exists()
        died = running(scheduler)["nDCG"][1]
        scheduler.kill_node(died)

        # The other training does nothing, as that of a busy file system would, until its time is over.
        limited = running(scheduler)["nRBP"][0]
        scheduler.ask("scontrol", "update", f"JobId={limited}", "TimeLimit=1")
        run.wait_until(lambda: "JobState=TIMEOUT" in scheduler.ask("scontrol", "show", "job", limited))
        release()

        def both_ended() -> bool:
            with suppress(FileNotFoundError):
                first_fold.update(path.stat().st_ino for path in shards(dying))
            return dying.exists() and slow.exists()

        run.wait_until(both_ended)
        run.finish()
    assert differences(results(study.project), results(local)) == []

    jobs = study.jobs()
    # The finished fold was kept: no other file ever took its place.
    assert len(first_fold) == 1
    (lost,) = [job for job in jobs if job["State"] == "NODE_FAIL"]
    (timed_out,) = [job for job in jobs if job["State"] == "TIMEOUT"]
    assert (lost["NodeList"], timed_out["JobIDRaw"]) == (died, limited)
    # Both were submitted again, for the node that was left, with twice the time and memory.
    again = [job for job in jobs if job["State"] == "COMPLETED" and gpus(job)]
    asked = [(job["Timelimit"], job["ReqMem"]) for job in [lost, *again]]
    assert asked == [("01:00:00", "3000M"), ("02:00:00", "6000M"), ("02:00:00", "6000M")]
    assert died not in {job["NodeList"] for job in again}


def gpus(job: dict[str, str]) -> int:
    """Return the number of GPUs allocated to a job."""
    given = dict(part.split("=") for part in job["AllocTRES"].split(",") if part)
    return int(given.get("gres/gpu", 0))


def most_at_once(jobs: list[dict[str, str]]) -> int:
    """The largest number of GPUs that jobs held at one time; times have whole seconds, so ends come before starts."""
    changes = [(job["Start"], gpus(job)) for job in jobs] + [(job["End"], -gpus(job)) for job in jobs]
    held = [sum(change for _, change in sorted(changes)[: count + 1]) for count in range(len(changes))]
    return max(held)


def logs(study: ClusterStudy, name: str) -> list[str]:
    """The scheduler's logs of a rule's jobs, or a group's."""
    return [path.read_text("utf-8") for path in study.project.path("logs/slurm").joinpath(name).rglob("*.log")]


def shards(out: Path) -> list[Path]:
    """The last file of the first fold, which a training keeps until all folds are done."""
    return list(Path(f"{out}.shards").glob("*/fold-1-seed-0.weights.safetensors"))


def running(scheduler: Scheduler) -> dict[str, tuple[str, str]]:
    """The running job that trains on a loss, and its node."""
    lines = scheduler.ask("squeue", "-h", "-t", "R", "-o", "%i|%N|%k").splitlines()
    jobs = [line.split("|") for line in lines]
    return {loss: (number, node) for number, node, comment in jobs for loss in ("nDCG", "nRBP") if loss in comment}
