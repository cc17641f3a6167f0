"""The jobs of a finished study as steps that run anywhere: their command, what they read, what they wrote."""

import base64
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_study import MIRROR
from project import Project

SEALED = (".parquet", ".safetensors")
RAW = "data/raw/"
"""Files whose content every step that reads them compares with known checksums."""
RECORDS = "results/provenance"
"""Where steps leave records of their making, with times: no two are equal."""
MANIFEST = "results/provenance.json"
WHEN = ("started", "seconds", "cpu_seconds", "peak_mib")
"""What a record says of a step's time: another one whenever it runs."""


@dataclass(frozen=True)
class Step:
    """One job: the arguments of its step, its log, the files that it reads and those that it writes."""

    rule: str
    arguments: tuple[str, ...]
    log: str
    inputs: tuple[str, ...]
    beside: tuple[str, ...]
    outputs: tuple[str, ...]


def steps_of(project: Project) -> dict[str, list[Step]]:
    """Every job of a finished project, by its rule, from the records that Snakemake keeps of every file it made."""
    records: dict[str, dict[str, Any]] = {}
    outputs: dict[str, list[str]] = defaultdict(list)
    for path in sorted(project.path(".snakemake/metadata").rglob("*")):
        if path.is_file():
            record = json.loads(path.read_text("utf-8"))
            output = base64.b64decode(path.relative_to(project.path(".snakemake/metadata")).as_posix()).decode()
            records[record["shellcmd"]] = record
            if output != record["log"][0] and not output.endswith(".tsv"):
                outputs[record["shellcmd"]].append(output)
    maker = {output: command for command, names in outputs.items() for output in names}
    found: dict[str, list[Step]] = defaultdict(list)
    for command, record in sorted(records.items()):
        # A step may read what was made together with its input: epochs beside runs, a summary beside its table.
        made = {maker[name] for name in record["input"] if name in maker}
        beside = sorted({name for one in made for name in outputs[one]} - set(record["input"]))
        if MANIFEST in outputs[command]:
            # This one looks at every file that has a record.
            files = [path for folder in ("data", "results") for path in project.path(folder).rglob("*.*")]
            every = {path.relative_to(project.folder).as_posix() for path in files if path.is_file()}
            beside = sorted(every - {*record["input"], MANIFEST})
        words = shlex.split(command)
        begin = words.index("python") + 3  # After the variables.
        assert (words[begin - 3 : begin], words[-3], words[-1]) == (["python", "-m", "rankbound_study"], ">", "2>&1")
        files = (tuple(names) for names in (record["input"], beside, sorted(outputs[command])))
        found[record["rule"]].append(Step(record["rule"], tuple(words[begin:-3]), words[-2], *files))
    return found


class Server:
    """The process that runs steps (see `fault_server`)."""

    def __init__(self, project: Project) -> None:
        path = os.pathsep.join([str(Path(__file__).parent), str(project.path("src"))])
        variables = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "PYTHONHASHSEED": "0"}
        variables |= {"MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR", str(project.folder))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fault_server"],
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, arguments: Sequence[str], folder: Path, log: str, variables: Mapping[str, str], **how: Any) -> int:
        """Start a step in `folder`; return its process, the leader of a group of its own.

        Args:
            how: the `user` that runs it; the size of the `largest_file` that it may write; the number of the access to
                files to `kill_at`; a file for the number of all these `events`.
        """
        return self._ask(arguments=arguments, folder=folder, environment=variables, log=log, **how)

    def wait(self, process: int) -> int:
        """Return the exit status of a started step; minus a signal's number if that ended it."""
        return self._ask(wait=process)

    def _ask(self, **request: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request, default=str) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the server of steps has ended"
        return int(answer)

    def close(self) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()


class Sandbox:
    """A folder with a step's inputs, where it can run and fail."""

    def __init__(self, folder: Path, project: Project, step: Step, server: Server) -> None:
        self.folder, self.project, self.step, self._server = (folder, project, step, server)
        self.variables = {"RANKBOUND_MIRROR": str(project.path(MIRROR)), "RANKBOUND_PROVENANCE": RECORDS}
        self.fill()

    def fill(self) -> None:
        """Copy what the step reads, and make the folders that Snakemake makes."""
        for name in (*self.step.inputs, *self.step.beside):
            self.path(name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.project.path(name), self.path(name))
        for name in (*self.step.outputs, self.step.log):
            self.path(name).parent.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        return self.folder / name

    def start(self, **how: Any) -> int:
        """Start the step as `Server.start` does; return its process."""
        return self._server.start(self.step.arguments, self.folder, self.step.log, self.variables, **how)

    def wait(self, process: int) -> int:
        return self._server.wait(process)

    def run(self, **how: Any) -> int:
        return self.wait(self.start(**how))

    def log(self) -> str:
        """Return the step's output."""
        path = self.path(self.step.log)
        return path.read_text("utf-8", errors="replace") if path.exists() else ""

    def expected(self) -> dict[str, str]:
        """The digests of the undisturbed outputs."""
        return {name: digest(self.project.path(name)) for name in self.step.outputs}

    def made(self) -> dict[str, str]:
        """The digests of the outputs that are there."""
        return {name: digest(self.path(name)) for name in self.step.outputs if self.path(name).exists()}

    def left_behind(self) -> list[str]:
        """Files that are no part of the study."""
        known = {*self.step.inputs, *self.step.beside, *self.step.outputs, self.step.log}
        files = [path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if not path.is_dir()]
        return sorted(
            name for name in set(files) - known if not name.startswith(f"{RECORDS}/") or Path(name).name.startswith(".")
        )


def digest(path: Path) -> str:
    """Return a digest of a file's bytes; of a manifest, without times, runs and what its process loaded."""
    content = path.read_bytes()
    if path.name == Path(MANIFEST).name:
        manifest = json.loads(content)
        steps = [{key: value for key, value in step.items() if key not in WHEN} for step in manifest["steps"]]
        steps.sort(key=lambda step: step["name"])
        content = json.dumps({**manifest, "created": "", "code": {}, "steps": steps}, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()
