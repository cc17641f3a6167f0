"""The titles of data sets: those that descriptions give, for every reading of the data, and nothing else."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rankbound_study.config.data_sets import DataSet, use_titles
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.results.neural import data_set_title
from tests.library.refusals import problems

SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture(autouse=True)
def titled() -> Iterator[None]:
    use_titles({"web": "Searches of 2026", "shop": "Purchases"})
    yield
    use_titles({})


@pytest.mark.parametrize(("dataset", "nsr", "label"), problems("titles of data sets"))
def test_every_reading_of_a_described_data_set_has_its_title(dataset: str, nsr: int | None, label: str) -> None:
    assert DataSet(dataset, nsr).label.replace(SPACE, " ") == label


def test_comparisons_show_the_same_titles_of_the_last_study_alone() -> None:
    assert data_set_title("web-label2") == "Searches of 2026 (relevant: label ≥ 2)"
    assert data_set_title("web-graded") == "Searches of 2026 (graded)"
    assert data_set_title("mq2008-label1") == "MQ2008 (relevant: label ≥ 1)"
    assert data_set_title("mslr-web10k-graded") == "MSLR-WEB10K (graded)"
    use_titles({"other": "Others"})
    assert DataSet("web", None).label == "web"
    assert DataSet("other", 1).label.replace(SPACE, " ") == "Others NSR 1"


def test_titles_that_cannot_be_shown_are_refused(told: Callable[..., str], tmp_path: Path) -> None:
    for title in ("cost in $", "a\\b", "two\nlines", "long " * 20, ""):
        with pytest.raises(ValueError, match=r"title"):
            DescriptionKeys.model_validate({"format": "letor", "random_parts": 5, "title": title})
    arguments = ["figure", "figure_1_1", "--out", tmp_path / "a.svg", "--titles", '{"web": 1}']
    assert "expected a title for each name of a data set" in told(*arguments, status=2)
