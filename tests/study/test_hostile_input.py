"""A short part of the tests of hostile input in tests/faults: one of each kind."""

import io
from pathlib import Path

import pytest

from rankbound.errors import ConfigError, DataError
from rankbound.io.files import read_qrels
from rankbound.io.letor import read_lists
from rankbound_study.config.lines import merged
from rankbound_study.options import parse_options


def test_a_feature_beyond_single_precision_is_refused() -> None:
    with pytest.raises(DataError, match=r"toy, line 1: found '1:1e39', expected a finite number after the colon"):
        list(read_lists(io.BytesIO(b"0 qid:1 1:1e39\n"), 2, "toy"))


def test_a_grade_beyond_exact_numbers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("1 0 a 99999999999999999999\n")
    with pytest.raises(DataError, match=r"x\.txt, line 1: found relevance '9+', expected a whole number"):
        read_qrels(tmp_path / "x.txt")


def test_a_configuration_that_holds_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("study: &a\n  b: *a\n")
    with pytest.raises(ConfigError, match=r"x\.yaml, line 1: a value contains itself"):
        merged([tmp_path / "x.yaml"])


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": NaN}', '{"a": ' + "9" * 5000 + "}"])
def test_options_that_python_alone_would_read_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--options is not valid JSON"):
        parse_options(text)
