"""Checks of every file that any of these tests has written."""

import os
from pathlib import Path

import pytest

from rankbound.io import atomic as files


@pytest.fixture(autouse=True)
def writers_keep_the_file_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that puts a file of its own in its place loses the lock, and a second writer would remove it."""
    made: dict[Path, os.stat_result] = {}
    make, flush = files._made_and_locked, files._flush_to_disk

    def make_and_note(path: Path) -> int:
        handle = make(path)
        made[path] = os.fstat(handle)
        return handle

    def flush_what_was_made(path: Path) -> None:
        assert os.path.samestat(made[path], path.stat()), f"{path.name}: its writer replaced it: the lock is lost"
        flush(path)

    monkeypatch.setattr(files, "_made_and_locked", make_and_note)
    monkeypatch.setattr(files, "_flush_to_disk", flush_what_was_made)
