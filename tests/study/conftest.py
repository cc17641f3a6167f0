"""Checks of every file that any of these tests has written, and fixtures of several of them."""

from described_steps import run

from tests.written_files import writers_keep_the_file_they_are_given

__all__ = ["run", "writers_keep_the_file_they_are_given"]
