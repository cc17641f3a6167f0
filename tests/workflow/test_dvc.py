"""DVC beside Snakemake: what one records, the other need not make again. tests/dvc has the longer round trip."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import ROOT, Project

from rankbound_study.figures import figure_specs

LICENSED = ("data/", "results/licensed", "results/paper")


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


def test_every_output_persists_and_licensed_rows_and_pictures_stay_apart() -> None:
    for stage in stages(ROOT)["stages"].values():
        for path, settings in outputs(stage).items():
            assert settings.get("persist") is True, path
            assert (settings.get("remote") == "licensed") == path.startswith(LICENSED), path


def test_every_stage_depends_on_the_code_and_on_what_stages_before_it_made() -> None:
    made: set[str] = set()
    for name, stage in stages(ROOT)["stages"].items():
        deps = stage["deps"]
        assert deps[:5] == ["Snakefile", "config.yaml", "profiles/default", "src", "workflow"], name
        assert set(deps[5:]) <= made, name
        made |= set(outputs(stage))


def test_small_outputs_are_in_git_and_no_others() -> None:
    """Git must not ignore files that DVC does not cache, or a clone would lack them."""
    paths = {path: part for stage in stages(ROOT)["stages"].values() for path, part in outputs(stage).items()}
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *paths], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    assert {path for path in paths if path not in ignored} == {
        path for path, settings in paths.items() if settings.get("cache") is False
    }


def test_each_file_of_the_study_is_in_one_output_and_pictures_in_a_licensed_one(tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    project = Project.create(tmp_path / "project", config)
    # No mirror: weights that lie in one would add a comparison, and its files.
    made = project.outputs_of_all(RANKBOUND_MIRROR="")
    outs = [path for stage in stages(ROOT)["stages"].values() for path in outputs(stage)]
    homes = {file: [out for out in outs if Path(file).is_relative_to(out)] for file in made}
    assert {file: found for file, found in homes.items() if len(found) != 1} == {}
    assert {out for (out,) in homes.values()} == set(outs), "an output is not made"
    pictured = {name for name, spec in figure_specs().items() if spec.shows_pictures}
    assert pictured == {Path(file).stem for file in made if file.startswith("results/licensed/")}


# The programs


@pytest.mark.long
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
    with clone.path("src/rankbound_study/figures/bounds.py").open("a") as file:
        file.write("assert True\n")
    waiting = clone.waiting()
    assert {"figure_1_1", "document"} <= set(waiting)
    assert not {"train", "sample"} & set(waiting)

    # A change that the lock file does not know: settling would bless files that it may have made stale.
    message = clone.run("rankbound_study", "settle", status=2)
    assert "nothing was touched" in message
    assert "src is modified" in message
    assert clone.waiting() == waiting


def _everything_made_is_an_output(project: Project) -> None:
    """No file under data/ or results/ that DVC would leave behind, but for its records."""
    known = [path for stage in stages(project.folder)["stages"].values() for path in outputs(stage)]
    made = [path.relative_to(project.folder) for top in ("data", "results") for path in project.path(top).rglob("*")]
    left = [
        path for path in made if not any(path.is_relative_to(one) or Path(one).is_relative_to(path) for one in known)
    ]
    assert {path.parts[1] for path in left} <= {"provenance"}, left


def _recorded(finished: Project, folder: Path) -> Project:
    """A git repository with the finished project's files, recorded by `dvc commit` against a remote beside it."""
    project = finished.copy(folder)
    project.version_what_is_made()
    git(folder, "init", "-q")
    project.run("dvc", "commit", "-f", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "recorded")
    project.run("dvc", "status", "-q")
    return project
