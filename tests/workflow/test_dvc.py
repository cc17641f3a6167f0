"""The stages of DVC beside the rules of Snakemake; tests/dvc has the round trip."""

import subprocess
from pathlib import Path
from typing import Any

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
    project = Project.create(tmp_path / "project")
    # No mirror: weights that lie in one would add a comparison, and its files.
    made = project.outputs_of_all(RANKBOUND_MIRROR="")
    outs = [path for stage in stages(ROOT)["stages"].values() for path in outputs(stage)]
    homes = {file: [out for out in outs if Path(file).is_relative_to(out)] for file in made}
    assert {file: found for file, found in homes.items() if len(found) != 1} == {}
    assert {out for (out,) in homes.values()} == set(outs), "an output is not made"
    pictured = {name for name, spec in figure_specs().items() if spec.shows_pictures}
    assert pictured == {Path(file).stem for file in made if file.startswith("results/licensed/")}
