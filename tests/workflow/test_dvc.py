"""DVC beside Snakemake: what one records, the other need not make again. tests/dvc has the longer round trip."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import ROOT, Project

from rankbound.errors import DataError
from rankbound_study.workflow.dvc_stages import stages_text

FOLDERS = {"data": "data", "results": "results"}


def stages(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((folder / "dvc.yaml").read_text(encoding="utf-8"))
    return content


def outputs(stage: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Paths of a stage's outs and metrics, with their settings."""
    return {path: settings for out in stage["outs"] + stage.get("metrics", []) for path, settings in out.items()}


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


# The file


def test_every_output_persists_and_licensed_rows_stay_apart() -> None:
    for name, stage in stages(ROOT)["stages"].items():
        for path, settings in outputs(stage).items():
            assert settings.get("persist") is True, path
            assert (settings.get("remote") == "licensed") == (name in ("data", "pictures")), path
            assert path.startswith("data/") == (name == "data"), path


def test_small_outputs_are_in_git_and_no_others() -> None:
    """What DVC does not cache must not be ignored by git, or a clone would lack it."""
    paths = {path: part for stage in stages(ROOT)["stages"].values() for path, part in outputs(stage).items()}
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *paths], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    assert {path for path in paths if path not in ignored} == {
        path for path, settings in paths.items() if settings.get("cache") is False
    }


def test_the_file_is_what_the_command_writes_for_the_configuration(tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    project = Project.create(tmp_path / "project", config)
    committed = project.path("dvc.yaml").read_text(encoding="utf-8")
    # No mirror: weights that lie in one would add a comparison, and its files.
    project.run("rankbound_study", "dvc-stages", RANKBOUND_MIRROR="")
    assert project.path("dvc.yaml").read_text(encoding="utf-8") == committed, (
        "run `python -m rankbound_study dvc-stages`"
    )


def test_stages_hold_what_is_made_and_read_what_stages_before_them_made() -> None:
    made = ["data/raw/a.zip", "data/images/a.parquet", "data/features/a-vgg16.parquet", "data/instances/a.parquet"]
    made += ["results/runs/x/a/b.parquet", "results/runs.parquet", "results/tables/table_1.csv"]
    content = yaml.safe_load(stages_text(made, FOLDERS))["stages"]
    # No bounding reads distributions, so there is no stage for them.
    assert {name: list(outputs(stage)) for name, stage in content.items()} == {
        "data": ["data/raw", "data/images", "data/features", "data/instances"],
        "runs": ["results/runs", "results/runs.parquet"],
        "paper": ["results/tables/table_1.csv"],
    }
    assert {"data/instances", "data/images", "data/features"} < set(content["runs"]["deps"])
    assert "snakemake data data/features/a-vgg16.parquet --cores all" in content["data"]["cmd"]
    assert "metrics" not in content["paper"]


def test_pictures_are_as_licensed_as_their_data_and_the_document_with_them() -> None:
    plain = ["results/figures/figure_1_1.svg", "results/paper/index.html"]
    assert list(outputs(yaml.safe_load(stages_text(plain, FOLDERS))["stages"]["paper"])) == [
        "results/figures",
        "results/paper",
    ]
    faces = [*plain, "results/figures/figure_neural_2.svg", "results/figures/figure_neural_duplicates.pdf"]
    content = yaml.safe_load(stages_text(faces, FOLDERS))["stages"]
    assert list(outputs(content["paper"])) == ["results/figures/figure_1_1.svg"]
    assert list(outputs(content["pictures"])) == ["results/paper", *faces[2:]]


def test_folders_are_those_of_the_configuration() -> None:
    content = yaml.safe_load(stages_text(["in/instances/a.parquet", "out/mine/metrics.json"], {**FOLDERS, **OTHER}))
    assert outputs(content["stages"]["data"]) == {"in/instances": {"persist": True, "remote": "licensed"}}
    assert outputs(content["stages"]["paper"]) == {"out/mine/metrics.json": {"persist": True, "cache": False}}
    with pytest.raises(DataError, match=r"elsewhere/a\.parquet, which is in a folder of neither in nor out/mine"):
        stages_text(["elsewhere/a.parquet"], OTHER)


OTHER = {"data": "in", "results": "out/mine"}


# The programs


def test_a_pulled_clone_has_nothing_to_do(finished: Project, tmp_path: Path) -> None:
    origin = _recorded(finished, tmp_path / "origin")
    _everything_made_is_an_output(origin)
    origin.run("dvc", "push", "-q")
    licensed = list((tmp_path / "rankbound-dvc/licensed").rglob("*"))
    assert licensed, "nothing went to the remote for licensed files"

    git(tmp_path, "clone", "-q", "origin", "clone")
    clone = Project(tmp_path / "clone")
    clone.run("dvc", "pull", "-q")
    assert clone.waiting(), "snakemake knows nothing of the pulled files yet"
    clone.run("rankbound_study", "settle")
    assert clone.waiting() == {}
    # From here on it is as if the run had been here: contents count, times do not.
    clone.path("src/rankbound/training/trainer.py").touch()
    with clone.path("src/rankbound_study/figures/lower_bounds.py").open("a") as file:
        file.write("CHANGED = True\n")
    waiting = clone.waiting()
    assert {"figure_of_formulas", "document"} <= set(waiting)
    assert not {"train", "sample"} & set(waiting)

    # A change that the lock file does not know: settling would bless files that it may have made stale.
    message = clone.run("rankbound_study", "settle", status=2)
    assert "nothing was touched" in message
    assert "src/rankbound_study is modified" in message
    assert clone.waiting() == waiting


def _everything_made_is_an_output(project: Project) -> None:
    """No file under data/ or results/ that DVC would leave behind, but for what a run costs and left as records."""
    known = [path for stage in stages(project.folder)["stages"].values() for path in outputs(stage)]
    made = [path.relative_to(project.folder) for top in FOLDERS for path in project.path(top).rglob("*")]
    left = [
        path for path in made if not any(path.is_relative_to(one) or Path(one).is_relative_to(path) for one in known)
    ]
    assert {path.parts[1] for path in left} <= {"benchmarks", "provenance"}, left


def _recorded(finished: Project, folder: Path) -> Project:
    """A git repository with the finished project's files, recorded by `dvc commit` against a remote beside it."""
    project = finished.copy(folder)
    project.run("rankbound_study", "dvc-stages")
    git(folder, "init", "-q")
    project.run("dvc", "commit", "-f", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "recorded")
    project.run("dvc", "status", "-q")
    return project
