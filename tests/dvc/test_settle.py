"""The step `settle` refuses whatever it cannot vouch for, says what that is, and leaves everything as it was."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.dvc.conftest import STUDY
from tests.workflow.project import Project

MODEL = "src/rankbound/training/models.py"
INSTANCES = "data/instances/synthetic-movielens-nsr1.parquet"


Change = Callable[[Project], object]


def appended(name: str, text: str = "# changed\n") -> Change:
    return lambda clone: _append(clone.path(name), text)


def removed(name: str) -> Change:
    return lambda clone: (shutil.rmtree if clone.path(name).is_dir() else Path.unlink)(clone.path(name))


def staged(change: Callable[[dict[str, Any]], object]) -> Change:
    """Change the stages, so that DVC's lock file says nothing of something."""

    def edit(clone: Project) -> None:
        content = yaml.safe_load(clone.path("dvc.yaml").read_text("utf-8"))
        change(content["stages"])
        clone.path("dvc.yaml").write_text(yaml.safe_dump(content), "utf-8")

    return edit


def unknown_tables(clone: Project) -> None:
    """Tables that no stage names."""

    def without_tables(stages: dict[str, Any]) -> None:
        stages["paper"]["outs"] = [out for out in stages["paper"]["outs"] if "results/tables" not in out]

    staged(without_tables)(clone)
    _append(clone.path("results/tables/table_2_2.csv"))


def flipped_byte(clone: Project) -> None:
    """A damage that keeps size and time, so that DVC's cache of checksums does not see it."""
    path = clone.path(INSTANCES)
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=times)


CHANGES: dict[str, tuple[Change, list[str]]] = {
    "no lock": (removed("dvc.lock"), ["has no dvc.lock"]),
    "changed code": (appended(MODEL), ["src is modified"]),
    "changed rule": (appended("workflow/rules/train.smk"), ["workflow is modified"]),
    "changed rate": (lambda clone: clone.configure({**STUDY, "temperature": 2.0}), ["config.yaml is modified"]),
    "unknown tables": (
        unknown_tables, ["results/tables/table_2_2.csv is made, but no stage names it", "docs/dvc.md"],
    ),
    "forgotten code": (
        staged(lambda stages: stages["runs"]["deps"].remove("src")), ["the stage runs does not depend on src"],
    ),
    "changed command": (
        staged(lambda stages: stages["runs"].update(cmd="snakemake runs --cores 1")),
        ["the command of the stage runs is modified"],
    ),
    "broken stages": (
        lambda clone: clone.path("dvc.yaml").write_text("stages: 3\n", "utf-8"), ["nothing was touched", "dvc.yaml"],
    ),
    # Through the workflow's profile, so that config.yaml is what it was.
    "another configuration": (
        appended("profiles/default/config.yaml", "\nconfig: [temperature=2.0]\n"), ["profiles/default is modified"],
    ),
    "missing runs": (removed("results/runs.parquet"), ["results/runs.parquet is missing", "dvc pull"]),
    "missing data": (removed("data/lists"), ["data/lists is missing"]),
    "flipped byte": (flipped_byte, ["data/instances is modified", f"{INSTANCES} is modified"]),
    "added run": (
        lambda clone: clone.path("results/runs/stray.parquet").write_bytes(b"from another study"),
        ["results/runs is modified", "results/runs/stray.parquet is added"],
    ),
    "changed table": (
        appended("results/tables/table_5_1.csv"),
        ["results/tables is modified", "results/tables/table_5_1.csv is modified"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_it_refuses(pulled: Project, tmp_path: Path, name: str) -> None:
    clone, (change, expected) = pulled.copy(tmp_path / "clone"), CHANGES[name]
    change(clone)
    records = _records(clone)
    message = clone.run("rankbound_study", "settle", status=2)
    assert "nothing was touched" in message
    assert [text for text in expected if text not in message] == [], message
    assert "Traceback" not in message
    assert _records(clone) == records


def test_a_package_from_elsewhere_must_have_the_same_bytes(pulled: Project, tmp_path: Path) -> None:
    """DVC looks at the checkout's package; what an installation elsewhere would run is what counts."""
    clone = pulled.copy(tmp_path / "clone")
    installed = tmp_path / "installed"
    shutil.copytree(clone.path("src"), installed)
    clone.run("rankbound_study", "settle", PYTHONPATH=str(installed))
    _append(installed / "rankbound/training/models.py")
    message = clone.run("rankbound_study", "settle", status=2, PYTHONPATH=str(installed))
    assert "installed/rankbound/training/models.py is not" in message
    assert "nothing was touched" in message
    clone.run("rankbound_study", "settle")
    assert clone.waiting() == {}


def test_outside_a_workflow_it_says_where_it_is(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert f"{tmp_path} has no dvc.lock" in project.run("rankbound_study", "settle", status=2)


def _append(path: Path, text: str = "# changed\n") -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def _records(clone: Project) -> dict[str, bytes]:
    """Return Snakemake's records of the files."""
    return {path.name: path.read_bytes() for path in clone.path(".snakemake/metadata").rglob("*") if path.is_file()}
