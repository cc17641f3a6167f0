"""The page on a study of one's own data: its commands run, on fewer folds, losses and epochs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from project import ROOT, Project

from tests.public_layouts import LAYOUTS, written

PAGE = ROOT / "docs" / "your_own_study.md"
SMALLER = {
    r"^losses: .*": "losses: [nDCG]",
    r"^boundings: .*": "boundings: [none, min-max]",
    r"epochs: \d+": "epochs: 2",
    r"rounds: \d+": "rounds: 5",
    r"^folds: .*": "folds: [1]",
}


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.long
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "project")
    subprocess.run([sys.executable, "-c", "\n".join(blocks("python"))], cwd=project.folder, check=True)
    lines = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
    made = set()
    for line in lines:
        if line[0] == "snakemake":
            made.add(configured := line[line.index("--configfile") + 1])
            if configured == "searches.yaml":
                project.snakemake(*line[1:3])
            continue
        said = project.run(*line[2:])
        if line[3] == "new":
            assert f"wrote {line[-1]}" in said
            text = project.path(line[-1]).read_text("utf-8")
            for pattern, smaller in SMALLER.items():
                text = re.sub(pattern, smaller, text, flags=re.MULTILINE)
            project.path(line[-1]).write_text(text, "utf-8")
        else:
            assert said.startswith(f"valid: study '{Path(line[-1]).stem}', 1 data set, 2 training jobs, 2 trainings")
    assert made == {"searches.yaml", "web.yaml"}
    page = project.path("results/searches/paper/index.html").read_text("utf-8")
    assert "<title>Losses and bounds compared on searches-label1" in page
    for said in ("ranks best by validation", "Topics that gain and lose", "LambdaRank", "processor s"):
        assert said in page, said
    assert 'id="claims"' not in page
    table = project.path("results/searches/tables/table_leaderboard.csv").read_text("utf-8")
    # Three models with two boundings each, LambdaMART, and three controls.
    assert len(table.splitlines()) == 1 + 3 * 2 + 1 + 3
    assert project.path("results/searches/figures/figure_5_8.pdf").exists()


@pytest.mark.long
@pytest.mark.parametrize("name", ["last.fm", "labels in words"])
def test_a_public_layout_goes_from_its_file_to_the_report_unattended(tmp_path: Path, name: str) -> None:
    project = Project.create(tmp_path / "project")
    path = written(name, project.folder)
    said = project.run(
        "rankbound_study", "new", path.name, "--out", "mine.yaml", "--name", "mine", *LAYOUTS[name].flags
    )
    assert "50 rows, the whole file" in said
    text = project.path("mine.yaml").read_text("utf-8")
    one_figure = {
        r"^experiment: .*": "experiment: []",
        r"\[figure_leaderboard_scores[^]]*\]": "[figure_leaderboard_scores]",
    }
    for pattern, smaller in (SMALLER | one_figure).items():
        text = re.sub(pattern, smaller, text, flags=re.MULTILINE)
    project.path("mine.yaml").write_text(text, "utf-8")
    project.snakemake("--configfile", "mine.yaml")
    page = project.path("results/mine/paper/index.html").read_text("utf-8")
    assert "<title>Losses and bounds compared on mine" in page
    assert page.index('id="provenance"') < page.index('id="advice"')


def test_the_configuration_on_the_page_is_the_one_that_is_written(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "project")
    subprocess.run([sys.executable, "-c", "\n".join(blocks("python"))], cwd=project.folder, check=True)
    project.run("rankbound_study", "new", "web", "--out", "web.yaml")
    shown, more = blocks("yaml")
    assert yaml.safe_load(project.path("web.yaml").read_text())["lists"] == yaml.safe_load(shown)["lists"]
    # Further rows of the leaderboard are valid beside it.
    project.run("rankbound_study", "new", "searches.csv", "--out", "searches.yaml")
    project.path("more.yaml").write_text(more, "utf-8")
    said = project.run("rankbound_study", "check-config", "config.yaml", "searches.yaml", "more.yaml")
    assert "experiment settings: 10 training jobs, 50 trainings" in said
