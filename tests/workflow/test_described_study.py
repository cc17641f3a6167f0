"""A study of data that the project does not know, by configuration alone: from the files to a report that verifies."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from project import GENERATED, Project

from tests.described_files import LISTS, RATINGS
from tests.study.test_new_study import ACCEPTED

NETWORK = GENERATED["training"]["synthetic-mq2008"] | {"learning_rate": {"honest": 0.01}}
FACTORS = GENERATED["training"]["synthetic-movielens"] | {"learning_rate": {"honest": 0.01}}


def configuration(files: Path) -> dict[str, Any]:
    """A study of one data set of each layout."""
    lists = {name: {"source": write(files), "thresholds": [1]} for name, write in LISTS.items()}
    lists["web"]["source"]["title"] = "Searches & clicks"
    drawing = {"threshold": 4, "min_relevant": 10, "nsr": [1], "validation_share": 0.1, "seed": 0}
    ratings = {name: {"source": write(files), **drawing} for name, write in RATINGS.items()}
    return {
        **GENERATED,
        "study": "mine",
        "protocols": ["honest"],
        "datasets": [*lists, *ratings],
        "losses": ["nDCG"],
        "boundings": ["none", "min-max"],
        "folds": [1],
        "lists": lists,
        "interactions": ratings,
        "training": dict.fromkeys(lists, NETWORK) | dict.fromkeys(ratings, FACTORS),
        "figures": ["figure_5_2"],
        "tables": ["table_5_1"],
    }


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.mark.long
def test_every_layout_by_configuration_alone(files: Path, tmp_path: Path) -> None:
    project = Project.create(tmp_path / "project", configuration(files))
    assert "valid: study 'mine', 10 data sets, 20 training jobs" in project.run("rankbound_study", "check-config")
    project.snakemake()
    rows = project.path("results/tables/table_5_1.csv").read_text("utf-8").splitlines()
    assert sum(",nDCG,min-max,nDCG," in row for row in rows) == 10
    assert not any("expectation" in row for row in project.path("results/tables/table_5_1.md").read_text().splitlines())
    page = project.path("results/paper/index.html").read_text("utf-8")
    assert "<title>Losses and bounds compared on " in page
    assert "Searches &amp; clicks label\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}1" in page
    assert "Searches & clicks" in project.path("results/tables/table_5_1.md").read_text("utf-8")
    assert "Searches &amp; clicks" in project.path("results/figures/figure_5_2.svg").read_text("utf-8")
    for absent in ("Worked tables", "Not drawn", "reproduced", "published"):
        assert absent not in page, absent
    assert "nothing differs from what was recorded" in project.run("rankbound_study", "verify", "results")
    # A file that changes is read again.
    with (files / "searches.csv").open("a") as file:
        file.write("boots,s1,1,0.5,0.5\n")
    assert project.waiting()["convert"] == 1


def test_absent_files_and_unknown_data_sets_are_named_before_anything_runs(files: Path, tmp_path: Path) -> None:
    config = configuration(files)
    project = Project.create(tmp_path / "project", config)
    (files / "web/Fold3/vali.txt").unlink()
    said = project.run("rankbound_study", "check-config", status=2)
    assert "lists.web.source: there is no file " in said
    assert "Fold3/vali.txt" in said
    config["lists"]["web"] = {"archive": "web.zip", "thresholds": [1]}
    project.configure(config)
    line = next(n for n, text in enumerate(yaml.safe_dump(config).splitlines(), start=1) if text.startswith("  web:"))
    said = project.run("rankbound_study", "check-config", status=2)
    known = "istella, istella-s, mq2007, mq2008, mslr-web10k"
    assert f"config.yaml, line {line}: lists.web is not known (known are {known}): describe it" in said


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["counts, all relevant", "ISO times with a zone", "graded labels", "the same in LETOR text"]
)
def test_what_new_and_check_config_accept_runs(tmp_path: Path, name: str) -> None:
    """With all models and losses, on one fold."""
    project = Project.create(tmp_path)
    file, text, flags, _ = ACCEPTED[name]
    project.path(file).write_text(text)
    project.run("rankbound_study", "new", file, "--out", "mine.yaml", "--name", "mine", *flags)
    config = yaml.safe_load(project.path("mine.yaml").read_text())
    smaller = {"folds": [1], "losses": ["nDCG", "AP"], "boundings": config["boundings"][:2], "figures": []}
    smaller |= {"training": {"mine": {"epochs": 2}}, "experiments": config["experiments"]}
    for experiment in smaller["experiments"].values():
        for variant in experiment["variants"].values():
            if "trees" in str(variant):
                variant["model"] |= {"rounds": 5}
    project.path("smaller.yaml").write_text(yaml.safe_dump(smaller))
    files = ("mine.yaml", "smaller.yaml")
    assert project.run("rankbound_study", "check-config", "config.yaml", *files).startswith("valid: study 'mine'")
    project.snakemake("--configfile", *files)
    assert project.path("results/mine/paper/index.html").exists()
    assert len(project.path("results/mine/tables/table_leaderboard.csv").read_text().splitlines()) > 5
