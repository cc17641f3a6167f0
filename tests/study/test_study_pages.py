"""The configurations and the commands of training steps that the pages and `--help` print are valid ones."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from rankbound_study import cli
from rankbound_study.config.job import TrainingJob
from rankbound_study.steps import BY_NAME

ROOT = Path(__file__).resolve().parents[2]


def _configurations(page: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (
            "study.md",
            [
                "valid: study 'seeds', 2 data sets, 30 training jobs, 2,100 trainings\n",
                "valid: study 'thesis', ",
                *["valid: study 'thesis', "] * 2,
                "experiment budgets: 30 training jobs, 540 trainings\n",
            ],
        ),
        (
            "data.md",
            [
                "valid: study 'thesis', 5 data sets, 96 training jobs, 2,880 trainings\ncomparison",
                "valid: study 'thesis', 11 data sets, 120 training jobs, 3,960 trainings\ncomparison",
                "valid: study 'thesis', 3 data sets, 30 training jobs, 450 trainings\ncomparison",
                *["valid: study 'thesis', 6 data sets, 150 training jobs"] * 3,
            ],
        ),
        ("report.md", ["valid: study 'thesis', 3 data sets, 9 training jobs, 18 trainings\n"]),
        ("reproducibility.md", ["valid: study 'thesis', "]),
        ("artifacts.md", ["valid: study 'small', 1 data set, 15 training jobs, 375 trainings\n"]),
    ],
)
def test_what_the_pages_configure_is_valid_and_no_more_than_they_say(
    page: str, told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for block, expected in zip(_configurations(page), told, strict=True):
        own = tmp_path / "mine.yaml"
        own.write_text(block, encoding="utf-8")
        assert cli.main(["check-config", "config.yaml", str(own)]) == 0, capsys.readouterr().err
        assert expected in capsys.readouterr().out


def test_the_profile_of_mslr_trains_little_besides_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.main(["check-config", "config.yaml", "profiles/mslr/study.yaml"]) == 0
    told = capsys.readouterr().out
    assert "2 training jobs, 2 trainings\n" in told.splitlines(keepends=True)[0]
    assert "experiment" not in told


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        ("drawings", "valid: study 'drawings', 3 data sets, 45 training jobs, 5,625 trainings\n"),
        ("regimes", "valid: study 'regimes', 18 data sets, 216 training jobs, 1,080 trainings\n"),
        ("mixed-ratios", "valid: study 'mixed-ratios', 1 data set, 12 training jobs, 120 trainings\n"),
        ("evaluation", "valid: study 'evaluation', 4 data sets, 60 training jobs, 240 trainings\n"),
        ("stronger", "experiment trees: 15 training jobs, 60 trainings\n"),
        ("ratios", "experiment ratios: 135 training jobs, 810 trainings\n"),
        ("citeulike", "experiment rates: 90 training jobs, 810 trainings\n"),
    ],
)
def test_the_profiles_of_whole_studies_are_valid(
    profile: str, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.main(["check-config", f"profiles/{profile}/study.yaml"]) == 0, capsys.readouterr().err
    assert told in capsys.readouterr().out


def test_the_options_in_the_help_of_a_training_are_whole() -> None:
    words = shlex.split(BY_NAME["job"].help)
    given = [after for word, after in pairwise(words) if word == "--options"]
    assert [TrainingJob.parse(options).method for options in given] == ["", "Rank-LR"]
