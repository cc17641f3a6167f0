"""The step `settle` refuses whatever it cannot vouch for, says what that is, and leaves everything as it was."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.dvc.conftest import STUDY
from tests.workflow.project import Project

MODEL = "src/rankbound/training/models.py"
INSTANCES = "data/instances/synthetic-movielens-nsr1.parquet"


def no_lock(clone: Project) -> None:
    clone.path("dvc.lock").unlink()


def changed_code(clone: Project) -> None:
    _append(clone.path(MODEL))


def changed_rule(clone: Project) -> None:
    _append(clone.path("workflow/rules/train.smk"))


def changed_rate(clone: Project) -> None:
    clone.configure({**STUDY, "temperature": 2.0})


def unknown_tables(clone: Project) -> None:
    """Tables that no stage names: DVC's lock file fits, and says nothing of them."""
    content = yaml.safe_load(clone.path("dvc.yaml").read_text("utf-8"))
    outs = content["stages"]["paper"]["outs"]
    content["stages"]["paper"]["outs"] = [out for out in outs if "results/tables" not in out]
    clone.path("dvc.yaml").write_text(yaml.safe_dump(content), "utf-8")
    _append(clone.path("results/tables/table_2_2.csv"))


def forgotten_code(clone: Project) -> None:
    """Code that no stage depends on: DVC's lock file says nothing of it."""
    content = yaml.safe_load(clone.path("dvc.yaml").read_text("utf-8"))
    content["stages"]["runs"]["deps"].remove("src")
    clone.path("dvc.yaml").write_text(yaml.safe_dump(content), "utf-8")


def changed_command(clone: Project) -> None:
    _replace(clone.path("dvc.yaml"), "snakemake runs --cores all", "snakemake runs --cores 1")


def broken_stages(clone: Project) -> None:
    clone.path("dvc.yaml").write_text("stages: 3\n", "utf-8")


def another_configuration(clone: Project) -> None:
    """Through the workflow's profile, so that config.yaml is what it was."""
    with clone.path("profiles/default/config.yaml").open("a") as file:
        file.write("\nconfig: [temperature=2.0]\n")


def missing_runs(clone: Project) -> None:
    clone.path("results/runs.parquet").unlink()


def missing_data(clone: Project) -> None:
    shutil.rmtree(clone.path("data/lists"))


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


def added_run(clone: Project) -> None:
    clone.path("results/runs/stray.parquet").write_bytes(b"from another study")


def changed_table(clone: Project) -> None:
    _append(clone.path("results/tables/table_5_1.csv"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (no_lock, ["has no dvc.lock"]),
        (changed_code, ["src is modified"]),
        (changed_rule, ["workflow is modified"]),
        (changed_rate, ["config.yaml is modified"]),
        (unknown_tables, ["results/tables/table_2_2.csv is made, but no stage names it", "docs/dvc.md"]),
        (forgotten_code, ["the stage runs does not depend on src"]),
        (changed_command, ["the command of the stage runs is modified"]),
        (broken_stages, ["nothing was touched", "dvc.yaml"]),
        (another_configuration, ["profiles/default is modified"]),
        (missing_runs, ["results/runs.parquet is missing", "dvc pull"]),
        (missing_data, ["data/lists is missing"]),
        (flipped_byte, ["data/instances is modified", f"{INSTANCES} is modified"]),
        (added_run, ["results/runs is modified", "results/runs/stray.parquet is added"]),
        (changed_table, ["results/tables is modified: `git status results/tables` names the files"]),
    ],
)
def test_it_refuses(pulled: Project, tmp_path: Path, change: Callable[[Project], None], expected: list[str]) -> None:
    clone = pulled.copy(tmp_path / "clone")
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


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def _append(path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("# changed\n")


def _records(clone: Project) -> dict[str, bytes]:
    """Return Snakemake's records of the files."""
    return {path.name: path.read_bytes() for path in clone.path(".snakemake/metadata").rglob("*") if path.is_file()}
