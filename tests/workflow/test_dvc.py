"""DVC beside Snakemake: what one records, the other need not make again."""

import subprocess
from pathlib import Path
from typing import Any

import yaml
from project import ROOT, Project

LICENSED = {"data/raw", "data/interactions", "data/lists", "data/images", "data/folds", "data/instances"}


def stages(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((folder / "dvc.yaml").read_text(encoding="utf-8"))
    return content


def outputs(stage: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Paths of a stage's outs and metrics, with their settings."""
    return {path: settings for out in stage["outs"] + stage.get("metrics", []) for path, settings in out.items()}


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_every_output_persists_and_licensed_rows_stay_apart() -> None:
    for stage in stages(ROOT)["stages"].values():
        for path, settings in outputs(stage).items():
            assert settings.get("persist") is True, path
            assert (settings.get("remote") == "licensed") == (path in LICENSED), path


def test_small_outputs_are_in_git_and_no_others() -> None:
    """What DVC does not cache must not be ignored by git, or a clone would lack it."""
    paths = {path: part for stage in stages(ROOT)["stages"].values() for path, part in outputs(stage).items()}
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *paths], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    assert {path for path in paths if path not in ignored} == {
        path for path, settings in paths.items() if settings.get("cache") is False
    }


def test_a_pulled_clone_has_nothing_to_do(finished: Project, tmp_path: Path) -> None:
    origin = _recorded(finished, tmp_path / "origin")
    origin.run("dvc", "push", "-q")
    licensed = list((tmp_path / "rankbound-dvc/licensed").rglob("*"))
    assert licensed, "nothing went to the remote for licensed files"

    git(tmp_path, "clone", "-q", "origin", "clone")
    clone = Project(tmp_path / "clone")
    clone.run("dvc", "pull", "-q")
    assert clone.waiting(), "snakemake knows nothing of the pulled files yet"
    clone.run("rankbound.cli", "settle")
    assert clone.waiting() == {}
    # From here on it is as if the run had been here: contents count, times do not.
    clone.path("src/rankbound/training.py").touch()
    assert clone.waiting() == {}
    with clone.path("src/rankbound/paper/figures/lower_bounds.py").open("a") as file:
        file.write("# changed\n")
    assert clone.waiting() == {"figure_of_formulas": 1, "document": 1}

    # A change that the lock file does not know: settling would bless files that it may have made stale.
    message = clone.run("rankbound.cli", "settle", status=2)
    assert "nothing was touched" in message
    assert "src/rankbound is modified" in message
    assert clone.waiting() == {"figure_of_formulas": 1, "document": 1}


def test_repro_runs_nothing_that_snakemake_finds_current(finished: Project, tmp_path: Path) -> None:
    origin = _recorded(finished, tmp_path / "origin")
    before = {path: path.stat().st_mtime_ns for path in origin.path("results/runs").rglob("*.parquet")}
    with origin.path("src/rankbound/paper/figures/lower_bounds.py").open("a") as file:
        file.write("# changed\n")
    figure = origin.path("results/figures/figure_1_1.svg").stat().st_mtime_ns
    origin.run("dvc", "repro", "-q")
    assert {path: path.stat().st_mtime_ns for path in origin.path("results/runs").rglob("*.parquet")} == before
    assert origin.path("results/figures/figure_1_1.svg").stat().st_mtime_ns > figure
    origin.run("dvc", "status", "-q")


def _recorded(finished: Project, folder: Path) -> Project:
    """A git repository with the finished project's files, recorded by `dvc commit` against a remote beside it."""
    project = finished.copy(folder)
    content = stages(folder)
    for stage in content["stages"].values():
        # Generated data have no raw archives, and the small configuration has no pictures and makes few tables.
        for section in ("deps", "outs", "metrics"):
            paths = {out if isinstance(out, str) else next(iter(out)): out for out in stage.get(section, [])}
            if section in stage:
                stage[section] = [out for path, out in paths.items() if folder.joinpath(path).exists()]
        assert stage["outs"]
    (folder / "dvc.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    git(folder, "init", "-q")
    project.run("dvc", "commit", "-f", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "recorded")
    project.run("dvc", "status", "-q")
    return project
