"""A copy of the workflow and its package in a folder of its own, with a configuration small enough for a test."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests import forks

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 3600
"""Seconds until what hangs is given up; a busy machine may take its time."""
COPIED = ("Snakefile", "workflow", "profiles", "src", "dvc.yaml", ".dvcignore", ".dvc", ".gitignore")

STUDIES: dict[str, Any] = yaml.safe_load((ROOT / "tests/reference/studies.yaml").read_text("utf-8"))
GENERATED: dict[str, Any] = STUDIES["generated"]


class Project:
    """The copy in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, folder: Path, config: Mapping[str, Any] | None = None) -> "Project":
        """Copy the workflow and its package into `folder`, and the study's own configuration if none is given."""
        folder.mkdir(exist_ok=True)
        # No caches, and nothing that an installation in the source folder left behind.
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "tmp", "cache", "config.local")
        for source, copy in ((ROOT / name, folder / name) for name in COPIED):
            shutil.copytree(source, copy, ignore=ignored) if source.is_dir() else shutil.copy(source, copy)
        project = cls(folder)
        shutil.copy(ROOT / "config.yaml", folder) if config is None else project.configure(config)
        return project

    def copy(self, folder: Path) -> "Project":
        """The same project elsewhere, with the times of its files and Snakemake's records."""
        subprocess.run(["cp", "-a", self.folder, folder], check=True)
        return Project(folder)

    def configure(self, config: Mapping[str, Any]) -> None:
        """Write config.yaml."""
        (self.folder / "config.yaml").write_text(yaml.safe_dump(dict(config)), encoding="utf-8")

    def version_what_is_made(self) -> None:
        """Delete from dvc.yaml the outputs that this configuration does not make, as docs/dvc.md says."""
        made = [Path(file) for file in self.outputs_of_all()]
        content = yaml.safe_load(self.path("dvc.yaml").read_text("utf-8"))
        outs = {path for stage in content["stages"].values() for out in stage["outs"] for path in out}
        absent = {out for out in outs if not any(path.is_relative_to(out) for path in made)}
        for name, stage in list(content["stages"].items()):
            stage["deps"] = [path for path in stage["deps"] if path not in absent]
            stage["outs"] = [out for out in stage["outs"] if absent.isdisjoint(out)]
            if not stage["outs"]:
                del content["stages"][name]
        self.path("dvc.yaml").write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")

    def outputs_of_all(self, **variables: str) -> list[str]:
        """The files that the target `all` requires."""
        table = self.run("snakemake", "--summary", "--cores", "1", "--quiet", "all", "--", "all", **variables)
        return [line.split("\t")[0] for line in table.splitlines() if "\t" in line][1:]

    def path(self, name: str) -> Path:
        return self.folder / name

    def command(self, *arguments: str, **variables: str) -> dict[str, Any]:
        """Arguments of `subprocess` for a module of this interpreter, run in the copy, with the copied package."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(self.folder / "src"), "OMP_NUM_THREADS": "1"}
        return {"args": [sys.executable, "-m", *arguments], "cwd": self.folder, "env": environment | variables}

    def run(self, *arguments: str, status: int = 0, **variables: str) -> str:
        """Run a module (`snakemake`, `dvc`, `rankbound_study`); what it printed, if it ended as expected.

        It runs in a fork of an interpreter that has imported what takes long; `run_watched` gives it one of its own.
        """
        result = forks.run(self.command(*arguments, **variables), forks.PROGRAMS, LONGEST)
        output = result.stdout + result.stderr
        assert result.returncode == status, output[-6000:]
        return output

    def modules_loaded_by(self, arguments: Sequence[str], **variables: str) -> set[str]:
        """Run a step in a fork of an interpreter that has imported other packages alone; the modules of this one."""
        command = self.command("", *arguments, **variables)
        command["args"][1:3] = ["-c", _REPORTER]
        result = forks.run(command, forks.LIBRARIES, LONGEST)
        assert result.returncode == 0, (result.stdout + result.stderr)[-6000:]
        return set(result.stderr.splitlines()[-1].split())

    def run_watched(self, *arguments: str, watcher: Path, kill_at: str = "") -> Path:
        """Run a module while every Python in it reports to the folder `watcher`; returns the list of renamed files.

        Each interpreter notes the renames that it is about to do in `renames`. If `kill_at` is given, everything is
        killed (-9) before a file of that name appears.
        """
        watcher.mkdir(exist_ok=True)
        (watcher / "sitecustomize.py").write_text(_WATCHER, encoding="utf-8")
        renames = watcher / "renames"
        renames.write_text("", encoding="utf-8")
        path = os.pathsep.join([str(watcher), str(self.folder / "src")])
        process = self.command(*arguments, PYTHONPATH=path, RENAMES=str(renames), KILL_AT=kill_at)
        result = subprocess.run(
            **process, capture_output=True, text=True, check=False, start_new_session=True, timeout=LONGEST
        )
        assert result.returncode == (-signal.SIGKILL if kill_at else 0), (result.stdout + result.stderr)[-6000:]
        return renames

    def snakemake(self, *arguments: str, status: int = 0, **variables: str) -> str:
        return self.run("snakemake", "--cores", "2", *arguments, status=status, **variables)

    def waiting(self, *targets: str) -> dict[str, int]:
        """The rules that `snakemake -n` would run, with their numbers of jobs; targets without a command left out."""
        output = self.snakemake("-n", *targets)
        if "Nothing to be done" in output:
            return {}
        stats = output[output.index("Job stats:") :].split("\n\n")[0]
        counts = {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", stats, flags=re.MULTILINE)}
        collected = {"total", "all", "data", "tables", "runs", "figures", "paper"}
        return {name: count for name, count in counts.items() if name not in collected}


_REPORTER = """
import atexit, runpy, sys

def report():
    print(*[name for name in sys.modules if name.split(".")[0] in ("rankbound", "rankbound_study")], file=sys.stderr)

atexit.register(report)
runpy.run_module("rankbound_study", run_name="__main__", alter_sys=True)
"""

_WATCHER = """
import os, signal, sys

def watch(event, arguments):
    if event == "os.rename":
        name = os.path.basename(os.fspath(arguments[1]))
        if name == os.environ["KILL_AT"]:
            os.killpg(0, signal.SIGKILL)
        with open(os.environ["RENAMES"], "a") as file:
            file.write(name + "\\n")

sys.addaudithook(watch)
"""


@contextmanager
def held(out: Path) -> Iterator[Callable[[], None]]:
    """Keep the training that writes `out` waiting, as if another process made that file, until the given is called."""
    path = Path(f"{out}.shards/lock")
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file.close
