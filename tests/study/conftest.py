"""What holds for every test here: files are written whole, and archives come from no place of the caller's."""

import pytest

from tests.written_files import writers_keep_the_file_they_are_given

__all__ = ["no_mirror_of_the_caller", "writers_keep_the_file_they_are_given"]


@pytest.fixture(autouse=True)
def no_mirror_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that means an empty or a wrong source must not be served from the caller's mirror of archives."""
    monkeypatch.delenv("RANKBOUND_MIRROR", raising=False)
