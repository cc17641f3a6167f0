"""The configurations and the commands of training steps that the pages and `--help` print are valid ones."""

import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from rankbound_study.config.job import TrainingJob
from rankbound_study.steps import BY_NAME

ROOT = Path(__file__).resolve().parents[2]


STUDY = "valid: study 'thesis', "


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            "study.md",
            [
                "valid: study 'seeds', 2 data sets, 30 training jobs, 2,100 trainings\n",
                *[STUDY] * 3,
                "experiment budgets: 30 training jobs, 540 trainings\n",
            ],
        ),
        (
            "data.md",
            [
                f"{STUDY}5 data sets, 96 training jobs, 2,880 trainings\ncomparison",
                f"{STUDY}11 data sets, 120 training jobs, 3,960 trainings\ncomparison",
                f"{STUDY}3 data sets, 30 training jobs, 450 trainings\ncomparison",
                *[f"{STUDY}6 data sets, 150 training jobs"] * 3,
            ],
        ),
        ("report.md", [f"{STUDY}3 data sets, 9 training jobs, 18 trainings\n"]),
        ("reproducibility.md", [STUDY]),
        ("artifacts.md", ["valid: study 'small', 1 data set, 15 training jobs, 375 trainings\n"]),
    ],
)
def test_what_the_pages_configure_is_valid_and_no_more_than_they_say(
    page: str, expected: list[str], tmp_path: Path, told: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(ROOT)
    for block, text in zip(blocks, expected, strict=True):
        (tmp_path / "mine.yaml").write_text(block, encoding="utf-8")
        assert text in told("check-config", "config.yaml", tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ("config.yaml", "150 training jobs, 4,650 trainings\n"),
        ("drawings", "valid: study 'drawings', 3 data sets, 45 training jobs, 5,625 trainings\n"),
        ("regimes", "valid: study 'regimes', 18 data sets, 216 training jobs, 1,080 trainings\n"),
        ("mixed-ratios", "valid: study 'mixed-ratios', 1 data set, 12 training jobs, 120 trainings\n"),
        ("evaluation", "valid: study 'evaluation', 4 data sets, 60 training jobs, 240 trainings\n"),
        ("stronger", "experiment trees: 15 training jobs, 60 trainings\n"),
        ("ratios", "experiment ratios: 135 training jobs, 810 trainings\n"),
        ("citeulike", "experiment rates: 90 training jobs, 810 trainings\n"),
        ("config.yaml mslr", "2 training jobs, 2 trainings\n"),
    ],
)
def test_the_configurations_of_whole_studies_are_valid(
    files: str, expected: str, told: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    paths = [name if name.endswith("yaml") else f"profiles/{name}/study.yaml" for name in files.split()]
    found = told("check-config", *paths)
    assert expected in found
    if "mslr" in files:
        # It changes some keys of the default configuration, and trains little besides.
        assert expected in found.splitlines(keepends=True)[0]
        assert "experiment" not in found


def test_the_options_in_the_help_of_a_training_are_whole() -> None:
    words = shlex.split(BY_NAME["job"].help)
    given = [after for word, after in pairwise(words) if word == "--options"]
    assert [TrainingJob.parse(options).method for options in given] == ["", "Rank-LR"]
