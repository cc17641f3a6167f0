"""The profiles: every key is known, and what profiles/slurm asks a scheduler for, by stand-ins for its commands."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import ROOT, Project

PROFILES = sorted(path.parent.name for path in ROOT.glob("profiles/*/config.yaml"))
# Writes down what it is asked for, and refuses it; partitions there are.
STAND_IN = """\
#!/bin/sh
echo "$(basename "$0") $*" >> "$ASKED"
[ "$(basename "$0")" = sinfo ] && echo "long*"
"""
PROGRAMS = ("sbatch", "sinfo", "sacct", "squeue", "scontrol", "sacctmgr", "sshare")


def settings(profile: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "profiles" / profile / "config.yaml").read_text("utf-8"))
    return content


@pytest.mark.parametrize("profile", PROFILES)
def test_snakemake_and_its_plugins_know_every_key(profile: str) -> None:
    # Plugins of clouds are no part of the study.
    pytest.importorskip("snakemake_executor_plugin_slurm")
    content = settings(profile)
    pytest.importorskip(f"snakemake_executor_plugin_{content.get('executor', 'slurm').replace('-', '_')}")
    from snakemake.cli import get_argument_parser

    options = {name.removeprefix("--") for action in get_argument_parser()._actions for name in action.option_strings}
    assert "slurm-status-command" in options
    assert set(content) - options == set()


@pytest.mark.parametrize("profile", ["gpu", "slurm"])
def test_trainings_of_both_kinds_go_to_gpus_in_turn(profile: str) -> None:
    """Trainings of the first study and methods of the comparisons are rules of their own."""
    content = settings(profile)
    assert set(content["set-resources"]) == {"train", "compare"}
    for resources in content["set-resources"].values():
        assert resources | {"device": "cuda", "gpu": 1} == resources
    assert content["resources"] == {"gpu": 1}


@pytest.fixture(scope="module")
def asked(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The options of every submission, where four trainings and two distributions have to be made, and none is."""
    pytest.importorskip("snakemake_executor_plugin_slurm")
    folder = tmp_path_factory.mktemp("programs")
    for name in PROGRAMS:
        (folder / name).write_text(STAND_IN, encoding="utf-8")
        (folder / name).chmod(0o755)
    runs, distributions = finished.path("results/runs"), finished.path("results/distributions")
    targets = [str(path.relative_to(finished.folder)) for path in runs.rglob("none.parquet")]
    targets += [str(path.relative_to(finished.folder)) for path in distributions.glob("*.parquet")]
    assert len(targets) == 4 + 2
    arguments = ["--workflow-profile", "profiles/slurm", *targets, "--forcerun", "train", "distributions"]
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    finished.run("snakemake", *arguments, status=1, PATH=path, ASKED=str(folder / "asked"))
    calls = (folder / "asked").read_text("utf-8").splitlines()
    return [_options(call) for call in calls if call.startswith("sbatch ")]


def _options(call: str) -> dict[str, str]:
    """The options of a call of sbatch, without the command that it shall run."""
    words = call.partition(" --wrap")[0]
    return dict(re.findall(r" (--?[a-zA-Z][a-z-]*)(?:[ =](?!-)(\S+))?", words))


def test_steps_of_minutes_become_jobs_and_each_retry_asks_for_more(asked: list[dict[str, str]]) -> None:
    submitted = sorted((one["--comment"].split("_wildcards")[0], int(one["-t"]), int(one["--mem"])) for one in asked)
    one_distribution = [("rule_distributions", 60 * attempt, 3000 * attempt) for attempt in (1, 2, 3)]
    # Four trainings, one after the other in one job: their times are added up, their memory is not.
    group = [("rule_trainings_train", 4 * 60 * attempt, 3000 * attempt) for attempt in (1, 2, 3)]
    assert submitted == sorted([*one_distribution, *one_distribution, *group])


def test_only_trainings_ask_for_a_gpu_and_a_group_for_one(asked: list[dict[str, str]]) -> None:
    wanted = {"rule_trainings_train": ("1", "gpu"), "rule_distributions": (None, "long")}
    for options in asked:
        rule = options["--comment"].split("_wildcards")[0]
        assert (options.get("--gpus"), options["-p"]) == wanted[rule]
        assert options["--cpus-per-task"] == "1"


def test_jobs_of_dead_nodes_are_left_to_retries_and_all_logs_have_a_place(asked: list[dict[str, str]]) -> None:
    for options in asked:
        assert "--no-requeue" in options
        assert "/logs/slurm/" in options["--output"]
